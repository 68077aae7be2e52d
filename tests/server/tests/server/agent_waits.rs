//! What the lock agent tells while an order waits for ZooKeeper.

use serde_json::json;
use zklock_test_support::{Action, Matcher, OpCode};

use crate::agent::Agent;
use crate::bed::Bed;

#[tokio::test]
async fn the_end_of_a_hold_is_told_while_a_fenced_write_is_under_way() {
    let bed = Bed::own();
    let proxy = bed.proxy();
    let root = bed.path("");
    let mut agent = Agent::on(
        &proxy.addr(),
        &[
            ["--root", root.trim_end_matches('/')],
            ["--session-timeout-ms", "60000"],
            ["--hold-at-most-ms", "1000"],
        ]
        .concat(),
    );
    let handle = agent.acquire(1, "mutex");
    let held_back = proxy.on(Matcher::reply(OpCode::Multi), Action::Hold);
    let path = bed.path("mutex");
    agent.send(json!({ "id": 2, "op": "fenced_set", "handle": handle, "path": path, "data": "1" }));
    agent.find(|line| line["event"] == "lost");
    assert!(!agent.has(|line| line["id"] == 2), "before that it was answered");
    held_back.release();
    agent.answer(&json!(2));
    assert_eq!(agent.end().0, Some(0));
    bed.end().await;
}
