//! Opening sessions on a real ZooKeeper: chroots, credentials, servers that are not there.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zklock_core::coordinator::access::{AclEntry, Permissions};
use zklock_core::coordinator::connector::Connector;
use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::Coordinator;
use zklock_core::coordinator::watch::WatchEvent;
use zklock_core::coordinator::zookeeper::{
    Acl, Auth, ZooKeeperConnector, ZooKeeperCoordinator, ZooKeeperOptions,
};
use zklock_test_support::ZooKeeper;

/// What is known at once is answered at once, long before the connect timeout of five seconds.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Where the server listens that all tests of this process share.
fn server() -> String {
    ZooKeeper::shared().socket_addr().to_string()
}

fn options(connect: impl Into<String>) -> ZooKeeperOptions {
    let mut options = ZooKeeperOptions::new(connect);
    options.session_timeout = Duration::from_secs(10);
    options
}

async fn open(options: ZooKeeperOptions) -> Result<ZooKeeperCoordinator, RequestError> {
    ZooKeeperConnector::new(options)?.open().await
}

fn fresh(name: &str) -> String {
    format!("/{name}-{}", std::process::id())
}

#[tokio::test]
async fn a_chroot_is_the_root_of_everything_and_must_exist() {
    let top = open(options(server())).await.unwrap();
    let chroot = fresh("chroot");
    let connect = format!("{}{chroot}", server());
    let start = Instant::now();
    assert_eq!(open(options(&connect)).await.err(), Some(RequestError::NoNode));
    assert!(start.elapsed() < AT_ONCE);
    top.create(&chroot, b"", NodeKind::Persistent).await.unwrap();
    let inside = open(options(&connect)).await.unwrap();
    let kind = NodeKind::EphemeralSequential;
    let created = inside.create("/n-", b"", kind).await.unwrap();
    assert_eq!(created.path, "/n-0000000000");
    assert_eq!(inside.children("/").await.unwrap(), ["n-0000000000"]);
    let (_, _, watch) = inside.get_watched(&created.path).await.unwrap();
    let (_, names) = inside.children_watched("/").await.unwrap();
    inside.multi(vec![Operation::Check { path: created.path.clone() }]).await.unwrap();
    top.delete(&format!("{chroot}/n-0000000000")).await.unwrap();
    assert_eq!((watch.await, names.await), (WatchEvent::Deleted, WatchEvent::Changed));
    inside.sync("/").await.unwrap();
}

#[tokio::test]
async fn credentials_that_are_refused_are_a_clear_error() {
    let mut wrong = options(server());
    wrong.auth.push(Auth { scheme: "no-such-scheme".into(), credentials: b"x".to_vec() });
    let start = Instant::now();
    assert_eq!(open(wrong).await.err(), Some(RequestError::AuthFailed));
    assert!(start.elapsed() < AT_ONCE);
}

#[tokio::test]
async fn who_may_do_what_is_as_asked_for() {
    let me = Auth { scheme: "digest".into(), credentials: b"me:secret".to_vec() };
    let stranger = open(options(server())).await.unwrap();
    let mut mine = options(server());
    mine.acl = Acl::CreatorAll;
    let anonymous = open(mine.clone()).await.unwrap();
    let refused = anonymous.create(&fresh("acl"), b"", NodeKind::Ephemeral).await;
    assert_eq!(refused, Err(RequestError::InvalidAcl));

    mine.auth.push(me);
    let custom = Acl::Custom(vec![AclEntry {
        scheme: "world".into(),
        id: "anyone".into(),
        permissions: Permissions::READ | Permissions::WRITE,
    }]);
    let no_auth = Some(RequestError::NoAuth);
    for (name, acl, read, write) in [
        ("private", Acl::CreatorAll, false, false),
        ("public", Acl::ReadOnlyOthers, true, false),
        ("custom", custom, true, true),
    ] {
        mine.acl = acl;
        let session = open(mine.clone()).await.unwrap();
        let path = session.create(&fresh(name), b"", NodeKind::Persistent).await.unwrap().path;
        let child = format!("{path}/x");
        assert_eq!(stranger.get(&path).await.err().is_none(), read, "{name}");
        assert_eq!(stranger.set(&path, b"").await.err().is_none(), write, "{name}");
        let created = stranger.create(&child, b"", NodeKind::Ephemeral).await;
        assert_eq!(created.err(), no_auth, "{name}");
        let multi = stranger.multi(vec![
            Operation::Check { path: "/".into() },
            Operation::Create { path: child, data: vec![], kind: NodeKind::Ephemeral },
        ]);
        let failed = RequestError::Multi { index: 1, error: Box::new(RequestError::NoAuth) };
        assert_eq!(multi.await, Err(failed), "{name}");
        // Deleting asks the parent, which is open.
        stranger.delete(&path).await.unwrap();
    }
}

#[tokio::test]
async fn servers_that_are_not_there_are_named_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    for server in ["127.0.0.1:1", "no-such-host.invalid", &silent] {
        let mut options = options(server);
        options.connect_timeout = Duration::from_millis(500);
        let start = Instant::now();
        let error = open(options).await.err();
        let took = start.elapsed();
        assert!(took < Duration::from_millis(1500), "{server}: {took:?}");
        let Some(RequestError::Unreachable(why)) = error else { panic!("{server}: {error:?}") };
        assert!(why.contains(server), "{why}");
    }
    let one_dead = format!("127.0.0.1:1,{}", server());
    assert_eq!(open(options(one_dead)).await.unwrap().link(), Link::Up);
}

#[tokio::test]
async fn nonsense_is_refused_before_anything_is_sent() {
    for nonsense in ["", "host:port", "a//b"] {
        let error = ZooKeeperConnector::new(options(nonsense)).err();
        assert!(matches!(error, Some(RequestError::BadArguments(_))), "{error:?}");
    }
}

#[test]
fn outside_a_runtime_opening_is_an_error() {
    let connector = ZooKeeperConnector::new(options(server())).unwrap();
    let waker = std::task::Waker::noop();
    let mut opened = connector.connect();
    let answer = opened.as_mut().poll(&mut std::task::Context::from_waker(waker));
    let std::task::Poll::Ready(Err(error)) = answer else { panic!("{answer:?}") };
    assert!(error.to_string().contains("tokio runtime"));
}

#[test]
fn a_session_outlived_by_its_users_ends_in_peace() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let user = tokio::runtime::Runtime::new().unwrap();
    let session = Arc::new(runtime.block_on(open(options(server()))).unwrap());
    let (_, _, watch) = user.block_on(session.get_watched("/")).unwrap();
    let seen = user.spawn(watch);
    let changed = user.spawn(session.link_changed(Link::Up));
    drop(runtime);
    assert_eq!(user.block_on(seen).unwrap(), WatchEvent::SessionEnded);
    let error = user.block_on(session.sync("/")).unwrap_err();
    assert!(!error.is_definite(), "{error:?}");
    assert_eq!(session.link(), Link::Expired);
    assert_eq!(user.block_on(changed).unwrap(), Link::Expired);
    let start = Instant::now();
    user.block_on(session.close());
    assert!(start.elapsed() < AT_ONCE);
}

/// Answers as a server does whose parent node has run out of sequence numbers.
fn overflown_server() -> String {
    fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut body).ok()?;
        Some(body)
    }
    fn send(stream: &mut TcpStream, body: &[u8]) {
        let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(body);
        stream.write_all(&frame).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        // The first only looks whether somebody is there.
        drop(listener.accept().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        frame(&mut stream).unwrap();
        let mut hello = [0_i32.to_be_bytes(), 10_000_i32.to_be_bytes()].concat();
        hello.extend(7_i64.to_be_bytes());
        hello.extend(16_i32.to_be_bytes());
        hello.extend([0; 17]);
        send(&mut stream, &hello);
        let mut numbers = [i32::MIN, -5, i32::MAX].into_iter();
        while let Some(request) = frame(&mut stream) {
            let (xid, op) = (&request[..4], &request[4..8]);
            let mut reply = xid.to_vec();
            reply.extend([0; 12]);
            match i32::from_be_bytes(op.try_into().unwrap()) {
                // Create2.
                15 => {
                    // Java's "%010d".
                    let path = match numbers.next().unwrap() {
                        i32::MIN => "/n--2147483648",
                        -5 => "/n--000000005",
                        _ => "/n-2147483647",
                    };
                    reply.extend(u32::try_from(path.len()).unwrap().to_be_bytes());
                    reply.extend(path.as_bytes());
                    reply.extend([0; 68]);
                }
                // Exists.
                3 => reply.extend([0; 68]),
                _ => {}
            }
            send(&mut stream, &reply);
        }
    });
    address
}

#[tokio::test]
async fn numbers_after_the_overflow_are_read_as_the_server_wrote_them() {
    let session = open(options(overflown_server())).await.unwrap();
    for expected in ["/n--2147483648", "/n--000000005", "/n-2147483647"] {
        let created = session.create("/n-", b"", NodeKind::EphemeralSequential).await.unwrap();
        assert_eq!(created.path, expected);
    }
}
