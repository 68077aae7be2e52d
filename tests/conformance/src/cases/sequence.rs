use crate::Lab;
use crate::lab::soon;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;

pub async fn sequence_numbers_have_ten_digits_and_count_all_creates(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let sequential = NodeKind::EphemeralSequential;
    let first = lab.create(&session, "n-", sequential).await;
    assert_eq!(first.path, lab.path("n-0000000000"));
    lab.create(&session, "persistent", NodeKind::Persistent).await;
    lab.create(&session, "container", NodeKind::Container).await;
    lab.create(&other, "ephemeral", NodeKind::Ephemeral).await;
    assert_eq!(lab.create(&other, "x", sequential).await.path, lab.path("x0000000004"));
    // Neither a deletion, nor a write, nor a grandchild counts.
    soon(session.delete(&first.path)).await.unwrap();
    soon(session.set(lab.root(), b"new")).await.unwrap();
    lab.create(&session, "persistent/below", NodeKind::Persistent).await;
    assert_eq!(lab.create(&session, "", sequential).await.path, lab.path("0000000005"));
    let below = lab.create(&session, "persistent/n-", sequential).await;
    assert_eq!(below.path, lab.path("persistent/n-0000000001"));
    assert!(below.stat.czxid > first.stat.czxid);
}

pub async fn a_failed_create_takes_no_number(lab: &Lab) {
    let session = lab.open().await;
    let path = lab.create(&session, "a", NodeKind::Ephemeral).await.path;
    let again = soon(session.create(&path, b"", NodeKind::Ephemeral)).await;
    assert_eq!(again, Err(RequestError::NodeExists));
    let kind = NodeKind::EphemeralSequential;
    let multi = soon(session.multi(vec![
        Operation::Create { path: lab.path("n-"), data: vec![], kind },
        Operation::Check { path: lab.path("missing") },
    ]));
    assert!(multi.await.is_err());
    assert_eq!(lab.create(&session, "n-", kind).await.path, lab.path("n-0000000001"));
}
