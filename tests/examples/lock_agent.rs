//! The protocol of the lock agent.

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::agent::Agent;

fn acquire(id: u64, lock: &str, timeout_ms: u64) -> Value {
    json!({ "id": id, "op": "acquire", "kind": "mutex", "lock": lock, "timeout_ms": timeout_ms })
}

fn nested(id: u64, lock: &str, parent: u64) -> Value {
    json!({ "id": id, "op": "acquire", "kind": "mutex", "lock": lock, "parent": parent })
}

fn release(id: u64, handle: u64) -> Value {
    json!({ "id": id, "op": "release", "handle": handle })
}

fn assert_failed(answer: &Value, error: &str, code: &str) {
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!((&answer["error"], &answer["code"]), (&json!(error), &json!(code)), "{answer}");
    assert!(answer["message"].is_string(), "{answer}");
}

fn monotonic_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[test]
fn a_grant_tells_its_handle_token_path_and_moment() {
    let mut agent = Agent::embedded();
    let before = monotonic_ns();
    let grant = agent.ask(acquire(1, "orders/create", 2000));
    let after = monotonic_ns();
    assert_eq!((&grant["id"], &grant["ok"]), (&json!(1), &json!(true)));
    assert!(grant["handle"].is_u64());
    assert!(grant["path"].as_str().unwrap().starts_with("/zklock/orders/create/_c_"));
    assert_eq!(grant["token"].as_str().unwrap().len(), 33);
    assert!((before..=after).contains(&grant["at_ns"].as_i64().unwrap()));
}

#[test]
fn a_busy_lock_answers_at_its_timeout() {
    let mut agent = Agent::embedded();
    let handle = agent.acquire(1, "a");
    for (id, timeout_ms) in [(2, 0), (3, 50)] {
        let busy = agent.ask(acquire(id, "a", timeout_ms));
        assert_failed(&busy, "busy", "1011");
        assert!(
            busy["message"].as_str().unwrap().starts_with("a is being processed by lock_agent")
        );
    }
    assert_eq!(agent.ask(release(4, handle))["ok"], true);
    assert_eq!(agent.ask(acquire(5, "a", 0))["ok"], true);
}

#[test]
fn retries_multiply_the_timeout() {
    let mut agent = Agent::embedded();
    agent.acquire(1, "a");
    let start = monotonic_ns();
    let mut request = acquire(2, "a", 100);
    request["retries"] = json!(3);
    assert_failed(&agent.ask(request), "busy", "1011");
    assert!(monotonic_ns() - start >= 300_000_000);
}

#[test]
fn a_waiter_holds_up_nobody_and_is_granted_after_the_release() {
    let mut agent = Agent::embedded();
    let handle = agent.acquire(1, "a");
    agent.send(json!({ "id": 2, "op": "acquire", "kind": "mutex", "lock": "a" }));
    agent.acquire(3, "b");
    assert!(!agent.has(|line| line["id"] == 2));
    let released = agent.ask(release(4, handle));
    let granted = agent.answer(&json!(2));
    assert!(granted["at_ns"].as_i64() >= released["at_ns"].as_i64());
    assert_ne!(granted["handle"], json!(handle));
}

#[test]
fn a_dropped_guard_lets_the_next_one_in() {
    let mut agent = Agent::embedded();
    let handle = agent.acquire(1, "a");
    let dropped = agent.ask(json!({ "id": 2, "op": "drop", "handle": handle }));
    assert!(dropped["ok"] == true && dropped["at_ns"].is_i64(), "{dropped}");
    agent.acquire(3, "a");
}

#[test]
fn a_cancelled_acquire_answers_and_leaves_the_queue() {
    let mut agent = Agent::embedded();
    let handle = agent.acquire(1, "a");
    agent.send(json!({ "id": 2, "op": "acquire", "kind": "mutex", "lock": "a" }));
    let cancel = json!({ "id": 3, "op": "cancel", "target": 2 });
    assert_eq!(agent.ask(cancel.clone()), json!({ "id": 3, "ok": true }));
    assert_failed(&agent.answer(&json!(2)), "cancelled", "2002");
    assert_failed(&agent.ask(cancel), "not_found", "2003");
    agent.ask(release(4, handle));
    assert_eq!(agent.ask(acquire(5, "a", 0))["ok"], true);
}

#[test]
fn an_acquire_with_a_parent_is_nested_and_repeats_the_token() {
    let mut agent = Agent::embedded();
    let outer = agent.ask(acquire(1, "a", 2000));
    let outer_handle = outer["handle"].as_u64().unwrap();
    let inner = agent.ask(nested(2, "a", outer_handle));
    assert_eq!(inner["token"], outer["token"]);
    assert_ne!(inner["handle"], outer["handle"]);
    agent.ask(release(3, outer_handle));
    assert_failed(&agent.ask(acquire(4, "a", 0)), "busy", "1011");
    agent.ask(release(5, inner["handle"].as_u64().unwrap()));
    assert_eq!(agent.ask(acquire(6, "a", 0))["ok"], true);
}

#[test]
fn siblings_of_one_parent_take_turns() {
    let mut agent = Agent::embedded();
    let outer = agent.acquire(1, "a");
    let first = agent.ask(nested(2, "a", outer))["handle"].as_u64().unwrap();
    agent.send(nested(3, "a", outer));
    agent.ask(json!({ "id": 4, "op": "state" }));
    assert!(!agent.has(|line| line["id"] == 3));
    agent.ask(release(5, first));
    assert_eq!(agent.answer(&json!(3))["ok"], true);
}

#[test]
fn nesting_reaches_through_other_locks() {
    let mut agent = Agent::embedded();
    let outer = agent.acquire(1, "a");
    let between = agent.ask(nested(2, "b", outer))["handle"].as_u64().unwrap();
    assert_eq!(agent.ask(nested(3, "a", between))["ok"], true);
}

#[test]
fn a_guard_that_is_gone_is_not_found() {
    let mut agent = Agent::embedded();
    let handle = agent.acquire(1, "a");
    agent.ask(release(2, handle));
    assert_failed(&agent.ask(release(3, handle)), "not_found", "2003");
    assert_failed(&agent.ask(nested(4, "a", handle)), "not_found", "2003");
    assert_failed(&agent.ask(json!({ "id": 5, "op": "check", "handle": 99 })), "not_found", "2003");
}

#[test]
fn a_check_tells_how_long_the_lock_is_surely_held() {
    let mut agent = Agent::embedded();
    let handle = agent.acquire(1, "a");
    let check = agent.ask(json!({ "id": 2, "op": "check", "handle": handle }));
    assert!(check["ok"] == true && check["valid"] == true, "{check}");
    assert!(check["remaining_ms"].as_u64().unwrap() > 0 && check["at_ns"].is_i64(), "{check}");
}

#[test]
fn the_state_is_told_when_asked_and_unasked() {
    let mut agent = Agent::embedded();
    let event = agent.find(|line| line["event"] == "state");
    assert!(event["state"].is_string() && event["at_ns"].is_i64(), "{event}");
    let state = agent.ask(json!({ "id": 1, "op": "state" }));
    assert_eq!((&state["state"], &state["generation"]), (&json!("connected"), &json!(1)));
    assert!(state["session"].as_str().unwrap().starts_with("0x"), "{state}");
}

#[test]
fn malformed_lines_are_answered_and_do_no_harm() {
    let mut agent = Agent::embedded();
    for line in ["", "nonsense", "[]", "{}", r#"{"op":"state"}"#, r#"{"id":"x","op":"state"}"#] {
        agent.write(line);
        assert_failed(&agent.answer(&Value::Null), "malformed", "2001");
    }
    for request in [
        json!({ "id": 1 }),
        json!({ "id": 1, "op": "acquire", "kind": "mutex" }),
        json!({ "id": 1, "op": "acquire", "kind": "mutex", "lock": "a", "timeout_ms": -1 }),
        json!({ "id": 1, "op": "acquire", "kind": "mutex", "lock": ["a"] }),
        json!({ "id": 1, "op": "release" }),
    ] {
        assert_failed(&agent.ask(request), "malformed", "2001");
    }
    agent.acquire(2, "a");
}

#[test]
fn an_id_that_is_pending_cannot_be_used_again() {
    let mut agent = Agent::embedded();
    agent.acquire(1, "a");
    agent.send(json!({ "id": 2, "op": "acquire", "kind": "mutex", "lock": "a" }));
    assert_failed(&agent.ask(acquire(2, "b", 0)), "malformed", "2001");
}

#[test]
fn bad_names_and_options_have_the_codes_of_the_library() {
    let mut agent = Agent::embedded();
    assert_failed(&agent.ask(acquire(1, "a/../b", 0)), "invalid_name", "1017");
    let mut request = acquire(2, "a", 100);
    request["retries"] = json!(0);
    assert_failed(&agent.ask(request), "invalid_option", "1018");
}

#[test]
fn readers_share_writers_do_not_and_a_writer_steps_down() {
    let mut agent = Agent::embedded();
    let ask = |agent: &mut Agent, id, kind: &str| {
        agent.ask(json!({ "id": id, "op": "acquire", "kind": kind, "lock": "a", "timeout_ms": 0 }))
    };
    let writer = ask(&mut agent, 1, "write");
    assert_failed(&ask(&mut agent, 2, "read"), "busy", "1011");
    let stepped = agent.ask(json!({ "id": 3, "op": "downgrade", "handle": writer["handle"] }));
    assert_eq!(stepped["ok"], true, "{stepped}");
    assert!(stepped["token"].as_str() > writer["token"].as_str());
    assert_eq!(ask(&mut agent, 4, "read")["ok"], true);
    assert_failed(&ask(&mut agent, 5, "write"), "busy", "1011");
    let again = agent.ask(json!({ "id": 6, "op": "downgrade", "handle": stepped["handle"] }));
    assert_failed(&again, "malformed", "2001");
    let gone = agent.ask(json!({ "id": 7, "op": "downgrade", "handle": writer["handle"] }));
    assert_failed(&gone, "not_found", "2003");
}

#[test]
fn permits_run_out_and_a_limit_is_needed() {
    let mut agent = Agent::embedded();
    let ask = |agent: &mut Agent, id, permits| {
        agent.ask(json!({ "id": id, "op": "acquire", "kind": "semaphore", "lock": "a",
            "limit": 3, "permits": permits, "timeout_ms": 0 }))
    };
    let two = ask(&mut agent, 1, 2);
    assert_eq!(two["ok"], true, "{two}");
    assert_failed(&ask(&mut agent, 2, 2), "busy", "1011");
    assert_eq!(ask(&mut agent, 3, 1)["ok"], true);
    assert_failed(&ask(&mut agent, 4, 4), "invalid_option", "1018");
    let none = json!({ "id": 5, "op": "acquire", "kind": "semaphore", "lock": "a" });
    assert_failed(&agent.ask(none), "malformed", "2001");
}

#[test]
fn permits_are_split_into_guards_that_are_given_back_by_themselves() {
    let mut agent = Agent::embedded();
    let take = |agent: &mut Agent, id, permits| {
        agent.ask(json!({ "id": id, "op": "acquire", "kind": "semaphore", "lock": "a",
            "limit": 3, "permits": permits, "timeout_ms": 0 }))
    };
    let split = |agent: &mut Agent, id, handle: &Value, permits| {
        agent.ask(json!({ "id": id, "op": "split", "handle": handle, "permits": permits }))
    };
    let three = take(&mut agent, 1, 3);
    assert_failed(&split(&mut agent, 2, &three["handle"], 3), "malformed", "2001");
    let two = split(&mut agent, 3, &three["handle"], 2);
    assert!(two["ok"] == true && two["handle"] != three["handle"], "{two}");
    assert!(two["path"] != three["path"] && two["token"] != three["token"], "{two}");
    agent.ask(release(4, three["handle"].as_u64().unwrap()));
    assert_failed(&take(&mut agent, 5, 2), "busy", "1011");
    assert_eq!(take(&mut agent, 6, 1)["ok"], true);
    let one = split(&mut agent, 7, &two["handle"], 1);
    agent.ask(release(8, one["handle"].as_u64().unwrap()));
    let check = agent.ask(json!({ "id": 9, "op": "check", "handle": two["handle"] }));
    assert_eq!(check["valid"], true, "{check}");
    let mutex = agent.acquire(10, "m");
    assert_failed(&split(&mut agent, 11, &json!(mutex), 1), "unsupported", "1022");
}

#[test]
fn a_limit_in_a_node_begins_with_the_number_that_is_given() {
    let mut agent = Agent::embedded();
    let take = |agent: &mut Agent, id, limit| {
        agent.ask(json!({ "id": id, "op": "acquire", "kind": "semaphore", "lock": "a",
            "limit": limit, "limit_at": "limits/a", "timeout_ms": 0 }))
    };
    assert_eq!(take(&mut agent, 1, 1)["ok"], true);
    assert_failed(&take(&mut agent, 2, 1), "busy", "1011");
    // All of a process say the same.
    assert_failed(&take(&mut agent, 3, 2), "invalid_option", "1018");
}

#[test]
fn an_acquire_may_have_options_of_its_own() {
    let mut agent = Agent::embedded_with(&["--hold-at-most-ms", "1"]);
    let mut request = acquire(1, "a", 0);
    (request["hold_at_most_ms"], request["handoffs"]) = (json!(60_000), json!(1));
    request["revocable"] = json!(true);
    let handle = agent.ask(request)["handle"].as_u64().unwrap();
    let check = agent.ask(json!({ "id": 2, "op": "check", "handle": handle }));
    assert_eq!(check["valid"], true, "{check}");
    let other = agent.acquire(3, "b");
    assert!(agent.find(|line| line["event"] == "lost")["handle"] == json!(other));
    assert_eq!(agent.ask(release(4, handle))["ok"], true);
}

#[test]
fn callers_of_one_agent_differ_in_their_options() {
    let mut agent = Agent::embedded();
    let with = |id, lock: &str, option: &str, value: Value| {
        let mut request = acquire(id, lock, 2000);
        request[option] = value;
        request
    };
    // The first keeps its node, which the second uses.
    let first = agent.ask(with(1, "a", "linger_ms", json!(60_000)));
    agent.ask(release(2, first["handle"].as_u64().unwrap()));
    let second = agent.ask(acquire(3, "a", 2000));
    assert_eq!(first["path"], second["path"]);
    // One that is fair waits in a place of its own, and one that stops early has another node.
    agent.send(with(4, "a", "fair", json!(true)));
    agent.send(with(5, "a", "stop_at_suspect", json!(true)));
    agent.ask(release(6, second["handle"].as_u64().unwrap()));
    let third = agent.answer(&json!(4));
    agent.ask(release(7, third["handle"].as_u64().unwrap()));
    let fourth = agent.answer(&json!(5));
    assert!(second["path"] != third["path"] && third["path"] != fourth["path"]);

    let labelled = agent.ask(with(8, "b", "label", json!("import")));
    let listed = agent.ask(json!({ "id": 9, "op": "contenders", "lock": "b" }));
    assert_eq!(listed["contenders"][0]["owner"]["label"], "import", "{listed}");
    let mut again = nested(10, "b", labelled["handle"].as_u64().unwrap());
    again["reentrant"] = json!(false);
    assert_failed(&agent.ask(again), "deadlock", "1020");
}

#[test]
fn callers_of_one_agent_have_locks_in_several_layouts() {
    let mut agent = Agent::embedded();
    for (id, layout, part) in
        [(1, "kazoo", "__lock__"), (2, "dlock", "/sub_"), (3, "curator", "/_c_")]
    {
        let mut request = acquire(id, layout, 2000);
        request["layout"] = json!(layout);
        let grant = agent.ask(request);
        assert!(grant["path"].as_str().unwrap().contains(part), "{grant}");
        let site = json!({ "id": id + 10, "op": "contenders", "lock": layout, "layout": layout });
        assert_eq!(agent.ask(site)["contenders"].as_array().unwrap().len(), 1);
    }
    let mut request = acquire(4, "a", 2000);
    request["layout"] = json!("none");
    assert_failed(&agent.ask(request), "unsupported", "1022");
}

#[test]
fn a_fenced_write_is_refused_where_it_cannot_be() {
    let mut agent = Agent::embedded();
    let handle = agent.acquire(1, "a");
    let set = |id, path: &str| json!({ "id": id, "op": "fenced_set", "handle": handle, "path": path, "data": "1" });
    assert_eq!(agent.ask(set(2, "/zklock/a"))["ok"], true);
    assert_failed(&agent.ask(set(3, "/none")), "refused", "1023");
    assert_failed(&agent.ask(set(4, "none")), "invalid_name", "1017");
}

#[test]
fn several_locks_are_taken_as_one_with_joined_tokens() {
    let mut agent = Agent::embedded();
    let ask = |agent: &mut Agent, id, locks: Value| {
        let multi = json!({ "id": id, "op": "acquire", "kind": "multi", "lock": locks,
            "timeout_ms": 0 });
        agent.ask(multi)
    };
    let both = ask(&mut agent, 1, json!(["b", "a"]));
    assert_eq!(both["token"].as_str().map(str::len), Some(67), "{both}");
    assert_failed(&ask(&mut agent, 2, json!(["b", "c"])), "busy", "1011");
    assert_failed(&ask(&mut agent, 3, json!(["d", "d"])), "invalid_option", "1018");
    assert_failed(&ask(&mut agent, 4, json!("d")), "malformed", "2001");
    assert_eq!(agent.ask(release(5, both["handle"].as_u64().unwrap()))["ok"], true);
    assert_eq!(ask(&mut agent, 6, json!(["b", "c"]))["ok"], true);
}

#[test]
fn several_locks_may_be_of_several_kinds() {
    let mut agent = Agent::embedded();
    let multi = |id, kinds: Value| {
        json!({ "id": id, "op": "acquire", "kind": "multi", "lock": ["r", "m", "s"],
            "kinds": kinds, "limit": 2, "timeout_ms": 0 })
    };
    let all = agent.ask(multi(1, json!(["read", "mutex", "semaphore"])));
    assert_eq!(all["token"].as_str().map(|token| token.split(',').count()), Some(3), "{all}");
    let read = |id, kind: &str| json!({ "id": id, "op": "acquire", "kind": kind, "lock": "r", "timeout_ms": 0 });
    assert_eq!(agent.ask(read(2, "read"))["ok"], true);
    assert_failed(&agent.ask(read(3, "write")), "busy", "1011");
    assert_failed(&agent.ask(multi(4, json!(["read", "mutex", "gate"]))), "unsupported", "1022");
}

#[test]
fn a_thread_waits_beside_the_tasks_and_in_their_scopes() {
    let mut agent = Agent::embedded();
    let handle = agent.acquire(1, "a");
    let blocking = |mut request: Value| {
        request["blocking"] = json!(true);
        request
    };
    agent.send(blocking(acquire(2, "a", 20_000)));
    agent.acquire(3, "b");
    assert!(!agent.has(|line| line["id"] == 2));
    assert_failed(&agent.ask(blocking(acquire(4, "a", 0))), "busy", "1011");
    agent.ask(release(5, handle));
    let granted = agent.answer(&json!(2));
    let inner = agent.ask(blocking(nested(6, "a", granted["handle"].as_u64().unwrap())));
    assert!(inner["ok"] == true && inner["token"] == granted["token"], "{inner}");
}

#[test]
fn what_is_not_there_yet_is_unsupported() {
    let mut agent = Agent::embedded();
    for (kind, op) in [("gate", "acquire"), ("mutex", "borrow")] {
        let request = json!({ "id": 1, "op": op, "kind": kind, "handle": 1, "lock": "a" });
        assert_failed(&agent.ask(request), "unsupported", "1022");
    }
}

#[test]
fn an_exclusive_lock_is_one_node() {
    let mut agent = Agent::embedded();
    let request = json!({ "id": 1, "op": "acquire", "kind": "exclusive", "lock": "a" });
    let grant = agent.ask(request);
    assert_eq!(grant["path"], "/zklock/a/lock", "{grant}");
    let busy =
        json!({ "id": 2, "op": "acquire", "kind": "exclusive", "lock": "a", "timeout_ms": 0 });
    assert_failed(&agent.ask(busy), "busy", "1011");
    let other = agent.ask(acquire(3, "a", 0));
    assert_failed(&other, "invalid_option", "1018");
}
