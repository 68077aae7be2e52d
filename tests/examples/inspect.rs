//! The lock agent's look at a lock, and the wish that its holder let go.

use serde_json::json;

use crate::agent::Agent;

#[test]
fn contenders_are_listed_and_a_holder_is_asked_to_let_go() {
    let mut agent = Agent::embedded();
    let empty = agent.ask(json!({ "id": 1, "op": "contenders", "lock": "a" }));
    assert_eq!(empty, json!({ "id": 1, "ok": true, "contenders": [] }));
    let handle = agent.acquire(2, "a");
    let listed = agent.ask(json!({ "id": 3, "op": "contenders", "lock": "a" }));
    let one = &listed["contenders"][0];
    assert!(one["node"].as_str().unwrap().starts_with("_c_"), "{listed}");
    assert_eq!((&one["mode"], &one["holder"]), (&json!("mutex"), &json!(true)));
    assert!(one["owner"]["host"].is_string() && one["owner"]["pid"].is_u64(), "{listed}");

    assert_eq!(agent.ask(json!({ "id": 4, "op": "revoke", "lock": "a" }))["ok"], true);
    let revoked = agent.find(|line| line["event"] == "revoked");
    assert_eq!(revoked["handle"], handle);
    assert!(revoked["at_ns"].is_u64());
    // It is a wish: the lock is held until it is released.
    let check = agent.ask(json!({ "id": 5, "op": "check", "handle": handle }));
    assert_eq!(check["valid"], true, "{check}");
    assert_eq!(agent.ask(json!({ "id": 6, "op": "release", "handle": handle }))["ok"], true);
    let bad = agent.ask(json!({ "id": 7, "op": "revoke", "lock": "a//b" }));
    assert_eq!((&bad["ok"], &bad["code"]), (&json!(false), &json!("1017")));
}

#[test]
fn a_layout_is_chosen_on_the_command_line() {
    for (layout, part) in
        [("kazoo", "__lock__"), ("dlock", "/sub_"), ("lock", "/lock-"), ("removed", "/_c_")]
    {
        let mut agent = Agent::embedded_with(&["--layout", layout, "--revocable"]);
        let grant = agent.grant(1, "a");
        assert!(grant["path"].as_str().unwrap().contains(part), "{grant}");
    }
    // Without mutexes.
    let mut agent = Agent::embedded_with(&["--layout", "host"]);
    let refused = agent.ask(json!({ "id": 1, "op": "acquire", "kind": "mutex", "lock": "a" }));
    assert_eq!(refused["error"], "unsupported", "{refused}");
}
