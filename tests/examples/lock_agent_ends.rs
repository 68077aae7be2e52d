//! How the lock agent begins and ends.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::built::{example, run};

#[test]
fn the_end_of_input_releases_everything() {
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
fn options_that_are_not_there_yet_are_refused() {
    for option in [&["--fair"][..], &["--linger-ms", "5"], &["--handoffs", "5"], &["--layout", "x"]]
    {
        let output = run("lock_agent", &[&["--connect", "embedded"], option].concat());
        assert_eq!(output.status.code(), Some(2), "{option:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("unsupported"), "{option:?}");
    }
}

#[test]
fn an_agent_is_not_embedded_unless_told_so() {
    let output = run("lock_agent", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--connect"));
}

#[test]
fn the_root_can_be_chosen() {
    let mut command = example("lock_agent");
    command.args(["--connect", "embedded", "--root", "/x/y", "--layout", "curator"]);
    command.args(["--session-timeout-ms", "3000"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", json!({ "id": 1, "op": "acquire", "kind": "mutex", "lock": "a" }))
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"/x/y/a/_c_"), "{output:?}");
}
