use crate::Lab;
use crate::lab::soon;
use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;

pub async fn nodes_keep_data_and_stat(lab: &Lab) {
    let session = lab.open().await;
    let data: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let path = lab.path("a");
    let a = soon(session.create(&path, &data, NodeKind::Persistent)).await.unwrap();
    assert_eq!((a.path.as_str(), a.stat.version, a.stat.ephemeral_owner), (path.as_str(), 0, 0));
    let b = lab.create(&session, "a/b", NodeKind::Container).await;
    assert!(b.stat.czxid > a.stat.czxid);
    assert_eq!((b.stat.ephemeral_owner, b.stat.num_children), (0, 0));
    let (found, stat) = soon(session.get(&path)).await.unwrap();
    assert!(found == data);
    assert_eq!((stat.czxid, stat.version, stat.num_children), (a.stat.czxid, 0, 1));
    let stat = soon(session.set(&path, b"")).await.unwrap();
    assert_eq!((stat.czxid, stat.version, stat.num_children), (a.stat.czxid, 1, 1));
    assert_eq!(soon(session.get(&path)).await.unwrap(), (Vec::new(), stat));
    soon(session.delete(&b.path)).await.unwrap();
    soon(session.delete(&path)).await.unwrap();
    let again = lab.create(&session, "a", NodeKind::Persistent).await;
    assert!(again.stat.czxid > b.stat.czxid);
    assert_eq!((again.stat.version, again.stat.num_children), (0, 0));
}

pub async fn a_node_says_when_it_was_created_and_written(lab: &Lab) {
    let session = lab.open().await;
    let [first, second] = ["a", "b"].map(|name| lab.create(&session, name, NodeKind::Ephemeral));
    let (first, second) = (first.await, second.await.stat);
    // Later than 2001, and in milliseconds, not seconds.
    assert!(first.stat.ctime > 1_000_000_000_000, "{first:?}");
    assert!(second.ctime >= first.stat.ctime && second.ctime - first.stat.ctime < 60_000);
    assert_eq!(first.stat.mtime, first.stat.ctime);
    // So that a millisecond is over.
    async_io::Timer::after(std::time::Duration::from_millis(20)).await;
    soon(session.set(&first.path, b"x")).await.unwrap();
    let set = soon(session.get(&first.path)).await.unwrap().1;
    assert_eq!(set.ctime, first.stat.ctime);
    assert!(set.mtime > set.ctime && set.mtime - set.ctime < 60_000, "{set:?}");
}

pub async fn errors_say_what_is_wrong(lab: &Lab) {
    let session = lab.open().await;
    let missing = lab.path("missing");
    let below = lab.path("missing/a");
    for kind in [NodeKind::Persistent, NodeKind::EphemeralSequential, NodeKind::Container] {
        assert_eq!(soon(session.create(&below, b"", kind)).await, Err(RequestError::NoNode));
    }
    assert_eq!(soon(session.get(&missing)).await, Err(RequestError::NoNode));
    assert_eq!(soon(session.set(&missing, b"")).await, Err(RequestError::NoNode));
    assert_eq!(soon(session.delete(&missing)).await, Err(RequestError::NoNode));
    assert_eq!(soon(session.children(&missing)).await, Err(RequestError::NoNode));
    assert_eq!(soon(session.sync(&missing)).await, Ok(()));

    let parent = lab.create(&session, "parent", NodeKind::Persistent).await.path;
    lab.create(&session, "parent/child", NodeKind::Ephemeral).await;
    assert_eq!(soon(session.delete(&parent)).await, Err(RequestError::NotEmpty));
    for kind in [NodeKind::Ephemeral, NodeKind::Persistent, NodeKind::Container] {
        assert_eq!(soon(session.create(&parent, b"", kind)).await, Err(RequestError::NodeExists));
    }
    for kind in [NodeKind::Ephemeral, NodeKind::EphemeralSequential, NodeKind::Persistent] {
        let created = soon(session.create(&lab.path("parent/child/x"), b"", kind)).await;
        assert_eq!(created, Err(RequestError::NoChildrenForEphemerals));
    }
}

pub async fn only_direct_children_are_listed(lab: &Lab) {
    let session = lab.open().await;
    for name in ["b", "a", "ä-路径", "a/x", "a/x/y", "a b", "..."] {
        lab.create(&session, name, NodeKind::Persistent).await;
    }
    assert_eq!(lab.names(&session).await, ["...", "a", "a b", "b", "ä-路径"]);
    assert_eq!(soon(session.children(&lab.path("a"))).await.unwrap(), ["x"]);
    assert!(soon(session.children(&lab.path("b"))).await.unwrap().is_empty());
    let top = soon(session.children("/")).await.unwrap();
    assert!(top.iter().any(|name| lab.root() == format!("/{name}")));
}

pub async fn bad_paths_are_refused(lab: &Lab) {
    let session = lab.open().await;
    let bad = |answer: Option<RequestError>| matches!(answer, Some(RequestError::BadArguments(_)));
    let names = [
        "",
        "a//b",
        "a/",
        "./a",
        "../a",
        "a/../b",
        ".",
        "..",
        "a\0b",
        "a\u{1f}b",
        "\u{7f}",
        "\u{9f}",
        "\u{e000}",
        "\u{f8ff}",
        "\u{fff0}",
        "\u{ffff}",
        "😀",
        "\u{10000}",
    ];
    for name in names {
        let path = lab.path(name);
        for kind in [NodeKind::Persistent, NodeKind::Ephemeral, NodeKind::Container] {
            let created = soon(session.create(&path, b"", kind)).await;
            assert!(bad(created.err()), "{name:?} {kind:?}");
        }
    }
    for path in ["", "a", "a/b", "//"] {
        assert!(bad(soon(session.create(path, b"", NodeKind::Persistent)).await.err()));
        assert!(bad(soon(session.delete(path)).await.err()));
        assert!(bad(soon(session.get(path)).await.err()));
        assert!(bad(soon(session.set(path, b"")).await.err()));
        assert!(bad(soon(session.children(path)).await.err()));
    }
    // A name that cannot be created can be asked for all the same.
    for name in ["..", "😀"] {
        let path = lab.path(name);
        assert_eq!(soon(session.get(&path)).await, Err(RequestError::NoNode));
        assert_eq!(soon(session.children(&path)).await, Err(RequestError::NoNode));
        assert_eq!(soon(session.delete(&path)).await, Err(RequestError::NoNode));
        assert!(bad(soon(session.set(&path, b"")).await.err()));
    }
    assert!(bad(soon(session.create("/", b"", NodeKind::Persistent)).await.err()));
    assert!(bad(soon(session.create("/", b"", NodeKind::EphemeralSequential)).await.err()));
    assert!(bad(soon(session.delete("/")).await.err()));
    assert!(lab.names(&session).await.is_empty());
    // Digits are appended to a sequential name before it is checked.
    for name in ["", "..", ".", "a/"] {
        let created = lab.create(&session, name, NodeKind::EphemeralSequential);
        if name == "a/" {
            lab.create(&session, "a", NodeKind::Persistent).await;
        }
        assert!(created.await.path.starts_with(&lab.path(name)));
    }
}

/// A server would break the connection because of it.
pub async fn a_request_that_is_too_large_harms_nothing(lab: &Lab) {
    let session = lab.open().await;
    let (path, large) = (lab.path("a"), vec![b'x'; 999_000]);
    let refused = |answer: Option<RequestError>| {
        assert!(matches!(answer, Some(RequestError::BadArguments(_))), "{answer:?}");
    };
    let too_large = [large.as_slice(), &large].concat();
    refused(soon(session.create(&path, &too_large, NodeKind::Ephemeral)).await.err());
    soon(session.create(&path, &large, NodeKind::Ephemeral)).await.unwrap();
    refused(soon(session.set(&path, &too_large)).await.err());
    let set = Operation::Set { path: path.clone(), data: large.clone() };
    refused(soon(session.multi(vec![set.clone(), set.clone()])).await.err());
    assert_eq!(soon(session.multi(vec![set])).await, Ok(()));
    let checks = vec![Operation::Check { path: path.clone() }; 1_000];
    assert_eq!(soon(session.multi(checks)).await, Ok(()));
    assert!(soon(session.get(&path)).await.unwrap().0 == large);
    assert_eq!(session.link(), Link::Up);
}

pub async fn ephemeral_nodes_name_their_owner(lab: &Lab) {
    let (session, other) = (lab.open().await, lab.open().await);
    assert_ne!(session.session_id(), other.session_id());
    assert!(session.session_timeout() > std::time::Duration::ZERO);
    for (name, kind) in [("a", NodeKind::Ephemeral), ("b", NodeKind::EphemeralSequential)] {
        let created = lab.create(&session, name, kind).await;
        assert_eq!(created.stat.ephemeral_owner, session.session_id());
        let (_, seen) = soon(other.get(&created.path)).await.unwrap();
        assert_eq!(seen, created.stat);
    }
}

pub async fn requests_are_applied_in_the_order_of_the_calls(lab: &Lab) {
    let session = lab.open().await;
    for _ in 0..50 {
        let create = session.create(&lab.path("n-"), b"", NodeKind::EphemeralSequential);
        let list = session.children(lab.root());
        // The answers are awaited in the opposite order.
        let names = soon(list).await.unwrap();
        let created = soon(create).await.unwrap();
        assert!(names.iter().any(|name| created.path == lab.path(name)), "{names:?}");
        let delete = session.delete(&created.path);
        let list = session.children(lab.root());
        let again = session.create(&created.path, b"", NodeKind::Ephemeral);
        assert!(soon(list).await.unwrap().is_empty());
        soon(again).await.unwrap();
        soon(delete).await.unwrap();
        soon(session.delete(&created.path)).await.unwrap();
    }
}

pub async fn a_dropped_reply_takes_nothing_back(lab: &Lab) {
    let session = lab.open().await;
    for i in 0..20 {
        drop(session.create(&lab.path(&i.to_string()), b"", NodeKind::Ephemeral));
    }
    assert_eq!(lab.names(&session).await.len(), 20);
}
