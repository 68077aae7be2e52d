//! What the lock agent leaves on a server when its input ends: nothing.

use serde_json::json;

use crate::agent::Agent;
use crate::bed::Bed;

#[tokio::test]
async fn the_end_of_input_releases_everything_and_ends_the_session() {
    let bed = Bed::own();
    // Too long for anything to end by an expiry.
    let mut agent = Agent::on(
        &bed.server().addr(),
        &["--root", bed.path("").trim_end_matches('/'), "--session-timeout-ms", "60000"],
    );
    agent.acquire(1, "mutex");
    for (id, kind) in [(2, "read"), (3, "write"), (4, "exclusive")] {
        let acquire = json!({ "id": id, "op": "acquire", "kind": kind, "lock": kind });
        assert_eq!(agent.ask(acquire)["ok"], true, "{kind}");
    }
    let permits = json!({
        "id": 5, "op": "acquire", "kind": "semaphore", "lock": "permits", "limit": 3, "permits": 2
    });
    assert_eq!(agent.ask(permits)["ok"], true);
    let several = json!({ "id": 6, "op": "acquire", "kind": "multi", "lock": ["m1", "m2"] });
    assert_eq!(agent.ask(several)["ok"], true);
    // And one that waits.
    let other = bed.session().await;
    let held = other.mutex("waited").unwrap().acquire().await.unwrap();
    agent.send(json!({ "id": 7, "op": "acquire", "kind": "mutex", "lock": "waited" }));
    bed.until_contenders("waited", 2).await;
    let (code, _) = agent.end();
    assert_eq!(code, Some(0));
    let sessions = bed.server().sessions();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(sessions[0].ephemerals, [held.node_path()]);
    held.release().await.unwrap();
    bed.end().await;
}
