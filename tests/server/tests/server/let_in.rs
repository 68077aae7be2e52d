//! A server that lets no more connections in.

use std::time::{Duration, Instant};

use zklock::{AnyLock, Session, SessionState};
use zklock_test_support::{Action, Control, Cut, Matcher, OpCode, RawClient, ServerSession};

use crate::bed::{Bed, PATIENCE, soon, until};

const T: Duration = Duration::from_secs(4);

/// Those of the test itself included.
const MOST: &str = "maxClientCnxns=10";

/// More acquires than one connection takes at once.
const AT_ONCE: usize = 16;

/// For how long a connection without a session is waited for.
const MOMENT: Duration = Duration::from_secs(1);

/// A permit needs an inner lock and its list, a node and its list.
const ANSWERS: u32 = 4;

fn name(number: usize) -> String {
    format!("a{number:03}")
}

/// Locks of different kinds by turns.
fn lock(session: &Session, number: usize) -> AnyLock {
    let name = name(number);
    match number % 3 {
        0 => session.mutex(name).unwrap().into(),
        1 => AnyLock::Write(session.rw_lock(name).unwrap()),
        _ => session.semaphore(name, 1).unwrap().into(),
    }
}

/// In which ZooKeeper session each of the locks is waited for that another one holds.
async fn waited_for_in(bed: &Bed, holder: i64, locks: usize) -> Vec<i64> {
    until("all are waited for", || {
        let sessions = bed.server().sessions();
        let waits = |number| {
            let below = format!("{}/", bed.path(&name(number)));
            let is_in = |one: &&ServerSession| {
                one.id != holder && one.ephemerals.iter().any(|node| node.starts_with(&below))
            };
            sessions.iter().find(is_in).map(|one| one.id)
        };
        (0..locks).map(waits).collect::<Option<Vec<_>>>()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_on_a_connection_that_is_not_let_in_again_goes_on_by_another() {
    let bed = Bed::own_with(|server| server.cfg_line(MOST));
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(2);
    let session = bed.adopt(builder.connect().await.unwrap());
    let other = bed.adopt(bed.builder().max_connections(1).connect().await.unwrap());
    let [first, holder] = [&session, &other].map(|one| one.zookeeper_session().unwrap().id);
    let control = Control::of(bed.server());

    // Some wait on each of two connections.
    let slow = Action::Delay(Duration::from_millis(20));
    let slow = proxy.on(Matcher::reply(OpCode::Create2), slow);
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    let (waits_in, second) = loop {
        let numbers = held.len()..held.len() + AT_ONCE;
        for number in numbers.clone() {
            held.push(lock(&other, number).acquire().await.unwrap());
        }
        for number in numbers {
            let lock = lock(&session, number);
            waiting.push(tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                (guard, Instant::now())
            }));
        }
        let waits_in = waited_for_in(&bed, holder, held.len()).await;
        if let Some(second) = waits_in.iter().copied().find(|id| *id != first) {
            break (waits_in, second);
        }
        assert!(held.len() < 20 * AT_ONCE, "all wait on one connection");
    };
    slow.release();

    // Others take the place of the second.
    proxy.refuse(true);
    proxy.cut_session(second, Cut::Reset);
    let mut crowd = Vec::new();
    while let Ok(one) = RawClient::connect(&bed.server().addr(), PATIENCE) {
        crowd.push(one);
    }
    proxy.refuse(false);
    for held in held {
        held.release().await.unwrap();
    }
    let has_none = || (session.state() == SessionState::Connecting).then_some(());
    until("it has no session", has_none).await;
    let start = Instant::now();
    let mut guards = Vec::new();
    for (number, (waiting, waits_in)) in waiting.into_iter().zip(waits_in).enumerate() {
        let (guard, at) = soon(&name(number), waiting).await.unwrap();
        assert!(guard.is_valid(), "{}", name(number));
        if waits_in == second {
            let what = format!("{} goes on by another connection", name(number));
            let took = at.saturating_duration_since(start);
            control.within_answers(&what, took, MOMENT, ANSWERS);
        }
        guards.push(guard);
    }
    assert_eq!(session.state(), SessionState::Connecting, "it was let in");

    for one in crowd {
        one.close().unwrap();
    }
    until("it is let in", || session.is_ready().then_some(())).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    drop(control);
    bed.end().await;
}
