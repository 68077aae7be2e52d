//! A contender whose node is not ephemeral, ahead of clients that wait for it for ever.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zklock::layout::{Curator, Kazoo, MaxLeases};
use zklock::{AnyLock, Embedded, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{client, contenders, on, store};

/// How long the sessions of these tests live, after which a waiter looks at the head.
const LONG: Duration = Duration::from_secs(10);

/// A node that stays, and behind it those of clients that live; the second of them may be of another name.
async fn queue(store: &Embedded, first: &str, others: &[&str]) -> String {
    let peer = client(store).await;
    for path in ["/zklock", "/zklock/a"] {
        peer.create(path, b"", NodeKind::Persistent).await.unwrap();
    }
    let path = format!("/zklock/a/{first}0000000000");
    peer.create(&path, b"\xff", NodeKind::Persistent).await.unwrap();
    for other in others {
        let other = format!("/zklock/a/{other}");
        peer.create(&other, b"", NodeKind::EphemeralSequential).await.unwrap();
    }
    // Its session must not end.
    std::mem::forget(peer);
    path
}

const MUTEX: &str = "_c_x-lock-";
const READER: &str = "_c_x-__READ__";
const WRITER: &str = "_c_x-__WRIT__";

fn mutex(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().into()
}

fn leases(session: &Session) -> AnyLock {
    let layout = MaxLeases::new(2, Curator).unwrap();
    session.mutex("a").unwrap().with_driver(layout).into()
}

fn kazoo(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().with_driver(Kazoo::default()).into()
}

fn writer(session: &Session) -> AnyLock {
    AnyLock::Write(session.rw_lock("a").unwrap())
}

fn reader(session: &Session) -> AnyLock {
    AnyLock::Read(session.rw_lock("a").unwrap())
}

#[tokio::test(start_paused = true)]
async fn who_waits_behind_clients_that_wait_for_ever_is_told_of_the_first_that_stays() {
    type Case = (fn(&Session) -> AnyLock, &'static str, &'static str);
    let cases: [Case; 4] = [
        (mutex, MUTEX, MUTEX),
        (writer, WRITER, WRITER),
        (writer, READER, WRITER),
        (reader, WRITER, WRITER),
    ];
    for (lock, first, other) in cases {
        for count in [2, 12] {
            let (store, session) = store();
            let path = queue(&store, first, &vec![other; count]).await;
            let (lock, start) = (lock(&session), Instant::now());
            let waiting = crate::spawn(async move { lock.acquire().await.unwrap_err() });
            let error = timeout(10 * LONG, waiting).await.expect("it waits for ever").unwrap();
            let text = format!("{error:#}");
            assert!(error.is_busy() && text.contains(&path), "{text}");
            assert!(text.contains("is not an ephemeral node"), "{text}");
            let took = start.elapsed();
            assert!(took >= LONG && took < 2 * LONG, "{first} {count}: {took:?}");
            assert_eq!(contenders(&store, "/zklock/a").await.len(), 1 + count);
        }
    }
}

/// Whoever is between may go before the first: another holder of several, a writer behind a reader that stays, or those
/// whose nodes are to stay.
#[tokio::test(start_paused = true)]
async fn who_waits_behind_somebody_who_may_go_first_waits() {
    type Case = (fn(&Session) -> AnyLock, &'static str, [&'static str; 3]);
    let cases: [Case; 3] = [
        (leases, MUTEX, [MUTEX; 3]),
        (reader, READER, [WRITER; 3]),
        (kazoo, "x__lock__", ["y__lock__"; 3]),
    ];
    for (lock, first, others) in cases {
        let (store, session) = store();
        queue(&store, first, &others).await;
        let lock = lock(&session);
        let waiting = crate::spawn(async move { lock.acquire().await.unwrap() });
        sleep(20 * LONG).await;
        assert!(!waiting.is_finished(), "{first}");
        let peer = client(&store).await;
        let (stays, waits) = (format!("{first}0000000000"), "0000000004");
        for name in contenders(&store, "/zklock/a").await {
            if name != stays && !name.ends_with(waits) {
                peer.delete(&format!("/zklock/a/{name}")).await.unwrap();
            }
        }
        if first == "x__lock__" {
            peer.delete(&format!("/zklock/a/{stays}")).await.unwrap();
        }
        waiting.await.unwrap().release().await.unwrap();
    }
}

/// The look at the first is another one's business: whoever waits goes on if there is no answer, or a refusal.
#[tokio::test(start_paused = true)]
async fn who_is_not_told_of_the_first_waits_on() {
    for refused in [true, false] {
        let (store, session) = store();
        let path = {
            let held = on(&store).mutex("a").unwrap().acquire().await.unwrap().detach();
            let path = held.node_path().to_owned();
            std::mem::forget(held);
            path
        };
        for _ in 0..2 {
            let waits = on(&store).mutex("a").unwrap();
            crate::spawn(async move { drop(waits.acquire().await.unwrap()) });
            sleep(Duration::from_millis(50)).await;
        }
        let fault = match refused {
            true => Fault::refuse(RequestError::NoAuth),
            false => Fault::forget_reply(),
        };
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.inject(fault.on(Op::Get).path(path.clone()).times(u64::MAX));
        let mutex = session.mutex("a").unwrap();
        let waiting = crate::spawn(async move { mutex.acquire().await });
        sleep(3 * LONG).await;
        assert!(!waiting.is_finished(), "{refused}");
        faults.clear();
        client(&store).await.delete(&path).await.unwrap();
        let guard = timeout(2 * LONG, waiting).await.expect("it has its turn").unwrap();
        guard.unwrap().release().await.unwrap();
    }
}
