use futures_lite::future::block_on;

use super::{Embedded, connect, create, poll};
use crate::coordinator::node::NodeKind;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;

#[test]
fn replies_are_ready_at_once() {
    let store = Embedded::new();
    let session = connect(&store);
    let mut reply = session.create("/a", b"x", NodeKind::Ephemeral);
    assert!(poll(&mut reply).is_ready());
}

#[test]
fn a_create_that_fails_in_a_multi_leaves_no_trace() {
    let store = Embedded::new();
    let session = connect(&store);
    create(&session, "/q", NodeKind::Container);
    create(&session, "/q/a", NodeKind::Ephemeral);
    let before = block_on(session.get("/q")).unwrap();
    let (_, mut watch) = block_on(session.children_watched("/q")).unwrap();
    let multi = session.multi(vec![
        Operation::Delete { path: "/q/a".into() },
        Operation::Create {
            path: "/q/n-".into(),
            data: vec![],
            kind: NodeKind::EphemeralSequential,
        },
        Operation::Set { path: "/q".into(), data: b"new".to_vec() },
        Operation::Check { path: "/missing".into() },
    ]);
    let failed = RequestError::Multi { index: 3, error: Box::new(RequestError::NoNode) };
    assert_eq!(block_on(multi), Err(failed));
    assert_eq!(block_on(session.get("/q")).unwrap(), before);
    assert_eq!(block_on(session.children("/q")).unwrap(), ["a"]);
    assert!(poll(&mut watch).is_pending());
    assert_eq!(create(&session, "/q/n-", NodeKind::EphemeralSequential), "/q/n-0000000001");
}

#[test]
fn the_last_sequence_number_is_repeated() {
    let store = Embedded::new();
    let session = connect(&store);
    store.set_sequence("/", i32::MAX).unwrap();
    assert_eq!(create(&session, "/n-", NodeKind::EphemeralSequential), "/n-2147483647");
    let again = block_on(session.create("/n-", b"", NodeKind::EphemeralSequential));
    assert_eq!(again, Err(RequestError::NodeExists));
}
