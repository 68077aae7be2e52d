//! How the lock agent begins and ends.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::built::example;
use crate::run;

// That everything is released is seen on a real server, in `tests/server`.
#[test]
fn the_end_of_input_ends_an_agent_that_holds_locks() {
    let mut agent = Agent::embedded();
    agent.acquire(1, "a");
    agent.acquire(2, "b");
    let (code, _) = agent.end();
    assert_eq!(code, Some(0));
}

#[test]
fn the_end_of_input_cancels_what_still_waits() {
    let mut agent = Agent::embedded();
    let outer = agent.acquire(1, "a");
    let nested = json!({ "id": 2, "op": "acquire", "kind": "mutex", "lock": "a", "parent": outer });
    assert_eq!(agent.ask(nested.clone())["ok"], true);
    agent.send(json!({ "id": 3, "op": "acquire", "kind": "mutex", "lock": "a" }));
    let (code, lines) = agent.end();
    assert_eq!(code, Some(0));
    // Whether it was still granted or not, it has its answer.
    assert!(lines.iter().any(|line| line["id"] == 3), "{lines:?}");
}

#[test]
fn requests_that_come_all_at_once_are_answered() {
    let mut agent = Agent::embedded();
    for id in 1..=20 {
        agent.send(json!({ "id": id, "op": "acquire", "kind": "mutex", "lock": "a" }));
    }
    let (code, lines) = agent.end();
    assert_eq!(code, Some(0));
    let granted = lines.iter().filter(|line| line["ok"] == true).count();
    assert_eq!(granted, 20, "{lines:?}");
}

#[test]
fn requests_are_granted_in_the_order_of_their_lines() {
    let mut agent = Agent::embedded();
    for id in 1..=20 {
        agent.send(json!({ "id": id, "op": "acquire", "kind": "mutex", "lock": "a" }));
    }
    let ids = |line: &Value| (line["ok"] == true).then(|| line["id"].as_u64()).flatten();
    let granted: Vec<u64> = agent.end().1.iter().filter_map(ids).collect();
    assert_eq!(granted, (1..=20).collect::<Vec<u64>>());
}

#[test]
fn tokens_grow_over_grants_that_come_all_at_once() {
    let mut agent = Agent::embedded();
    for id in 1..=20 {
        agent.send(json!({ "id": id, "op": "acquire", "kind": "mutex", "lock": "a" }));
    }
    let mut grants: Vec<Value> = agent.end().1;
    grants.retain(|line| line["ok"] == true);
    grants.sort_by_key(|grant| grant["at_ns"].as_i64());
    let tokens: Vec<_> = grants.iter().map(|grant| grant["token"].as_str().unwrap()).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn an_agent_whose_answers_nobody_reads_ends_with_an_error() {
    let mut command = example("lock_agent");
    command.args(["--connect", "embedded"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    // Fails if the agent has ended before.
    let _ = input.write_all(b"{\"id\":1,\"op\":\"state\"}\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written"));
    drop(input);
}

#[test]
fn a_layout_that_is_not_there_is_refused() {
    let output = run("lock_agent", &["--connect", "embedded", "--layout", "chubby"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unsupported"));
}

#[test]
fn an_agent_is_not_embedded_unless_told_so() {
    let output = run("lock_agent", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--connect"));
}

#[test]
fn the_root_can_be_chosen() {
    let mut agent = Agent::embedded_with(&["--root", "/x/y", "--session-timeout-ms", "3000"]);
    let grant = agent.grant(1, "a");
    assert!(grant["path"].as_str().unwrap().starts_with("/x/y/a/_c_"), "{grant}");
}

/// The nodes of two grants, one after the other, of which the second waited for the first.
fn two_nodes(options: &[&str]) -> [Value; 2] {
    let mut agent = Agent::embedded_with(options);
    let mut first = agent.grant(1, "a");
    agent.send(json!({ "id": 2, "op": "acquire", "kind": "mutex", "lock": "a" }));
    agent.ask(json!({ "id": 3, "op": "release", "handle": first["handle"] }));
    let mut second = agent.answer(&json!(2));
    [first["path"].take(), second["path"].take()]
}

#[test]
fn waiting_requests_share_a_node_unless_they_are_to_be_fair() {
    for options in [&["--layout", "curator"][..], &["--handoffs", "5"]] {
        let [first, second] = two_nodes(options);
        assert_eq!(first, second, "{options:?}");
    }
    let [first, second] = two_nodes(&["--fair"]);
    assert_ne!(first, second);
}

#[test]
fn a_lingering_node_is_used_again() {
    for (options, same) in [(&[][..], false), (&["--linger-ms", "60000"], true)] {
        let mut agent = Agent::embedded_with(options);
        let first = agent.grant(1, "a");
        agent.ask(json!({ "id": 2, "op": "release", "handle": first["handle"] }));
        let second = agent.grant(3, "a");
        assert_eq!(first["path"] == second["path"], same, "{options:?}");
        assert!(first["token"].as_str() < second["token"].as_str());
    }
}
