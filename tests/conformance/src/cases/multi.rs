use crate::Lab;
use crate::lab::{has_come, soon};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::watch::WatchEvent;

fn check(path: &str) -> Operation {
    Operation::Check { path: path.to_owned() }
}

fn create(path: &str, kind: NodeKind) -> Operation {
    Operation::Create { path: path.to_owned(), data: b"new".to_vec(), kind }
}

fn set(path: &str, data: &[u8]) -> Operation {
    Operation::Set { path: path.to_owned(), data: data.to_vec() }
}

fn replace(path: &str, version: i32) -> Operation {
    Operation::Replace { path: path.to_owned(), data: b"next".to_vec(), version }
}

fn check_version(path: &str, version: i32) -> Operation {
    Operation::CheckVersion { path: path.to_owned(), version }
}

fn delete(path: &str) -> Operation {
    Operation::Delete { path: path.to_owned() }
}

fn failed(index: usize, error: RequestError) -> Result<(), RequestError> {
    Err(RequestError::Multi { index, error: Box::new(error) })
}

pub async fn a_multi_applies_everything(lab: &Lab) {
    let session = lab.open().await;
    let a = lab.create(&session, "a", NodeKind::Persistent).await;
    let b = lab.create(&session, "b", NodeKind::Persistent).await;
    let (_, _, changed) = soon(session.get_watched(&a.path)).await.unwrap();
    let (_, _, deleted) = soon(session.get_watched(&b.path)).await.unwrap();
    let operations = vec![
        check(&a.path),
        create(&lab.path("c"), NodeKind::Ephemeral),
        create(&lab.path("d"), NodeKind::Container),
        create(&lab.path("n-"), NodeKind::EphemeralSequential),
        set(&a.path, b"x"),
        delete(&b.path),
    ];
    assert_eq!(soon(session.multi(operations)).await, Ok(()));
    assert_eq!(lab.names(&session).await, ["a", "c", "d", "n-0000000004"]);
    let (data, stat) = soon(session.get(&a.path)).await.unwrap();
    assert_eq!((data.as_slice(), stat.version), (&b"x"[..], 1));
    let (data, stat) = soon(session.get(&lab.path("c"))).await.unwrap();
    assert_eq!((data.as_slice(), stat.ephemeral_owner), (&b"new"[..], session.session_id()));
    let (_, other) = soon(session.get(&lab.path("d"))).await.unwrap();
    assert_eq!((other.czxid, other.ephemeral_owner), (stat.czxid, 0));
    assert_eq!(soon(changed).await, WatchEvent::Changed);
    assert_eq!(soon(deleted).await, WatchEvent::Deleted);
}

pub async fn a_multi_that_fails_applies_nothing_and_tells_where(lab: &Lab) {
    let session = lab.open().await;
    let a = lab.create(&session, "a", NodeKind::Persistent).await.path;
    lab.create(&session, "a/child", NodeKind::Ephemeral).await;
    let b = lab.create(&session, "b", NodeKind::Ephemeral).await.path;
    let before = lab.names(&session).await;
    let (_, _, mut watch) = soon(session.get_watched(&b)).await.unwrap();
    let (_, mut names) = soon(session.children_watched(lab.root())).await.unwrap();
    let missing = lab.path("missing");
    let persistent = NodeKind::Persistent;
    let failures = [
        (check(&missing), RequestError::NoNode),
        (set(&missing, b""), RequestError::NoNode),
        (delete(&missing), RequestError::NoNode),
        (create(&lab.path("missing/x"), persistent), RequestError::NoNode),
        (create(&a, NodeKind::Ephemeral), RequestError::NodeExists),
        (delete(&a), RequestError::NotEmpty),
        (create(&lab.path("a/child/x"), persistent), RequestError::NoChildrenForEphemerals),
    ];
    for (operation, error) in failures {
        let operations = vec![
            set(&a, b"x"),
            create(&lab.path("new"), NodeKind::Ephemeral),
            create(&lab.path("n-"), NodeKind::EphemeralSequential),
            operation.clone(),
            delete(&b),
            delete(&missing),
        ];
        assert_eq!(soon(session.multi(operations)).await, failed(3, error), "{operation:?}");
        assert_eq!(lab.names(&session).await, before);
        assert_eq!(soon(session.get(&a)).await.unwrap().1.version, 0);
    }
    let root = soon(session.multi(vec![check("/"), create("/", persistent)])).await;
    assert_eq!(root, failed(1, RequestError::NodeExists));
    for operation in [
        check("bad"),
        check("/😀"),
        set(&lab.path(".."), b""),
        delete("/"),
        create(&lab.path("x/"), persistent),
        create(&lab.path(".."), persistent),
    ] {
        let answer = soon(session.multi(vec![check(&a), operation.clone()])).await;
        let Err(RequestError::Multi { index: 1, error }) = answer else {
            panic!("{operation:?}: {answer:?}");
        };
        assert!(matches!(*error, RequestError::BadArguments(_)), "{operation:?}: {error:?}");
    }
    assert!(!has_come(&mut watch) && !has_come(&mut names));
}

pub async fn a_multi_replaces_only_the_data_that_it_knows(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let a = lab.create(&session, "a", NodeKind::Persistent).await.path;
    let b = lab.create(&session, "b", NodeKind::Ephemeral).await.path;
    assert_eq!(soon(session.multi(vec![check(&b), replace(&a, 0)])).await, Ok(()));
    let versions = vec![check_version(&b, 0), check_version(&a, -1), check_version(&a, 1)];
    assert_eq!(soon(session.multi(versions)).await, Ok(()));
    let changed = soon(session.multi(vec![check_version(&b, 0), check_version(&a, 0)])).await;
    assert_eq!(changed, failed(1, RequestError::BadVersion));
    let missing = soon(session.multi(vec![check_version(&lab.path("none"), 0)])).await;
    assert_eq!(missing, failed(0, RequestError::NoNode));
    let (data, stat) = soon(session.get(&a)).await.unwrap();
    assert_eq!((data.as_slice(), stat.version), (&b"next"[..], 1));
    soon(other.set(&a, b"theirs")).await.unwrap();
    let late = soon(session.multi(vec![delete(&b), replace(&a, 1)])).await;
    assert_eq!(late, failed(1, RequestError::BadVersion));
    assert_eq!(soon(session.get(&a)).await.unwrap().0, b"theirs");
    assert_eq!(soon(session.multi(vec![delete(&b), replace(&a, 2)])).await, Ok(()));
    let missing = soon(session.multi(vec![delete(&b), replace(&a, 3)])).await;
    assert_eq!(missing, failed(0, RequestError::NoNode));
    let missing = soon(session.multi(vec![check(&a), replace(&b, 0)])).await;
    assert_eq!(missing, failed(1, RequestError::NoNode));
}

pub async fn a_multi_of_checks_finds_a_missing_node(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    let mut paths = Vec::new();
    for i in 0..20 {
        paths.push(lab.create(&session, &i.to_string(), NodeKind::Ephemeral).await.path);
    }
    // Whatever its version, a node that exists passes.
    for path in paths.iter().take(3) {
        soon(other.set(path, b"x")).await.unwrap();
    }
    let checks = || paths.iter().map(|path| check(path)).collect::<Vec<_>>();
    assert_eq!(soon(session.multi(checks())).await, Ok(()));
    soon(other.delete(&paths[17])).await.unwrap();
    assert_eq!(soon(session.multi(checks())).await, failed(17, RequestError::NoNode));
}

pub async fn a_multi_sees_its_own_changes(lab: &Lab) {
    let session = lab.open().await;
    let (a, child) = (lab.path("a"), lab.path("a/child"));
    let born = vec![
        create(&a, NodeKind::Persistent),
        check(&a),
        create(&child, NodeKind::Ephemeral),
        set(&child, b"x"),
    ];
    assert_eq!(soon(session.multi(born)).await, Ok(()));
    assert_eq!(soon(session.get(&child)).await.unwrap().0, b"x");
    let replaced = vec![delete(&child), delete(&a), create(&a, NodeKind::Ephemeral), check(&child)];
    assert_eq!(soon(session.multi(replaced)).await, failed(3, RequestError::NoNode));
    let replaced = vec![delete(&child), delete(&a), create(&a, NodeKind::Ephemeral)];
    assert_eq!(soon(session.multi(replaced)).await, Ok(()));
    assert_eq!(soon(session.get(&a)).await.unwrap().1.ephemeral_owner, session.session_id());
}

/// The client library would answer it without the server, and the reply would be mistaken for one
/// of the server.
pub async fn an_empty_multi_is_refused(lab: &Lab) {
    let answer = soon(lab.open().await.multi(Vec::new())).await;
    assert!(matches!(answer, Err(RequestError::BadArguments(_))), "{answer:?}");
}
