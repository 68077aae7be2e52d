//! What a session leaves behind when it is closed or dropped: nothing. On a busy day; what ends with its session, or
//! outlives it, has the traffic beside it. Where no session at all may be left, there is no traffic.

use std::time::{Duration, Instant};

use zklock::LockOptions;
use zklock_test_support::{Action, Control, Matcher, OpCode, RawError};

use crate::bed::{Bed, CLOSE, acquiring, soon, until};
use crate::process::{Part, Process};

/// Too long for any test to wait for an expiry.
const LONG: Duration = Duration::from_secs(60);

/// After a close that began to wait for the servers at `start`.
async fn no_session_is_left(bed: &Bed, start: Instant) {
    if start.elapsed() >= CLOSE {
        // The goodbye was not answered in time, on a machine that stands still.
        until("no session", || bed.server().sessions().is_empty().then_some(())).await;
    }
    assert_eq!(bed.server().sessions(), []);
}

#[tokio::test]
async fn a_process_that_drops_its_guard_closes_and_exits_at_once_leaves_no_node() {
    let bed = Bed::shared("exits");
    let busy = bed.busy(&[]).await;
    for _ in 0..3 {
        let mut process = Process::start(&bed, Part::Leave, LONG);
        assert!(process.wait().success());
        assert_eq!(bed.contenders("a").len(), 0);
        bed.session()
            .await
            .mutex("a")
            .unwrap()
            .try_acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn closing_waits_for_every_deletion_and_ends_the_session() {
    let bed = Bed::shared("close-many");
    let session = bed.builder().session_timeout(LONG).connect().await.unwrap();
    let busy = bed.busy_while_broken(&[&session]).await;
    let id = session.zookeeper_session().unwrap().id;
    let mut guards = Vec::new();
    for lock in 0..50 {
        guards.push(session.mutex(format!("l{lock}")).unwrap().acquire().await.unwrap());
    }
    drop(guards);
    let start = Instant::now();
    session.close().await;
    let took = start.elapsed();
    println!("closed with deletions under way in {took:?}");
    if took >= CLOSE {
        // The goodbye was not answered in time, on a machine that stands still.
        until("the session is gone", || (!bed.has_session(id)).then_some(())).await;
    }
    assert!(!bed.has_session(id));
    for lock in 0..50 {
        assert_eq!(bed.contenders(&format!("l{lock}")).len(), 0);
    }
    assert!(session.mutex("a").unwrap().acquire().await.unwrap_err().is_closing());
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn closing_waits_for_a_deletion_that_is_not_answered_yet() {
    let bed = Bed::shared("close-delayed");
    let proxy = bed.proxy();
    let session = bed.builder_at(&proxy.addr()).session_timeout(LONG).connect().await.unwrap();
    let busy = bed.busy_while_broken(&[&session]).await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let deletion = Matcher::request(OpCode::Delete).path(guard.node_path());
    let deletion = proxy.on(deletion, Action::Hold);
    drop(guard);
    let mut closing = std::pin::pin!(session.close());
    // Longer than closing waits for a goodbye, and shorter than it waits for deletions.
    let early = tokio::time::timeout(Duration::from_millis(1_500), &mut closing).await;
    assert!(early.is_err(), "closed with its node left behind");
    deletion.release();
    closing.await;
    assert_eq!(bed.contenders("a").len(), 0);
    drop(busy);
    bed.end().await;
}

/// A request without an answer keeps the client library from saying goodbye. That which restores the data of a node
/// is not repeated.
#[tokio::test]
async fn closing_frees_what_is_held_while_a_node_is_written_again() {
    // Longer than the test waits for anything.
    let long = 10 * LONG;
    let bed = Bed::own_with(|server| server.max_session_timeout(long));
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(long).max_connections(1);
    let session = builder.connect().await.unwrap();
    let busy = bed.busy_in_one_lane_while_broken(&[&session]).await;
    let options = LockOptions::new().revocable(true);
    let asked = session.mutex("a").unwrap().with_options(options).acquire().await.unwrap();
    let held = session.mutex("b").unwrap().acquire().await.unwrap();
    until("it is watched", || bed.watched().contains(&asked.node_path().to_owned()).then_some(()))
        .await;
    let written = Matcher::reply(OpCode::Multi).path(asked.node_path()).first(1);
    let written = proxy.on(written, Action::Drop);
    let mut raw = bed.raw();
    raw.set_data(asked.node_path(), b"__REVOKE__").unwrap();
    until("it is written again", || (written.hits() == 1).then_some(())).await;
    let id = session.zookeeper_session().unwrap().id;
    session.close().await;
    until("the session is gone", || (!bed.has_session(id)).then_some(())).await;
    assert_eq!(bed.contenders("b").len(), 0);
    raw.close().unwrap();
    drop((asked, held, busy));
    bed.end().await;
}

#[tokio::test]
async fn closing_waits_for_a_connection_that_is_being_opened_and_ends_its_session() {
    let bed = Bed::own();
    let proxy = bed.proxy();
    let session = bed.builder_at(&proxy.addr()).session_timeout(LONG).connect().await.unwrap();
    let opening = proxy.on(Matcher::reply(OpCode::Connect), Action::Hold);
    // So many at once are under way that another connection is opened for those to come.
    let creating = proxy.on(Matcher::request(OpCode::Create2), Action::Hold);
    let acquiring: Vec<_> = (0..20).map(|lock| acquiring(&session, &format!("l{lock}"))).collect();
    until("another session", || (bed.server().sessions().len() == 2).then_some(())).await;
    creating.release();
    for guard in acquiring {
        soon("the lock", guard).await.unwrap().release().await.unwrap();
    }
    let mut closing = std::pin::pin!(session.close());
    // Longer than closing waits for a goodbye.
    let early = tokio::time::timeout(Duration::from_millis(1_500), &mut closing).await;
    assert!(early.is_err() && opening.hits() == 1, "closed with a session left behind");
    opening.release();
    let start = Instant::now();
    closing.await;
    no_session_is_left(&bed, start).await;
    bed.end().await;
}

/// One that is refused while it is being opened is never used, and ends before `close()` comes back, too.
#[tokio::test]
async fn closing_waits_for_the_end_of_a_session_that_was_refused() {
    let bed = Bed::own();
    let proxy = bed.proxy();
    let looking = proxy.on(Matcher::reply(OpCode::Exists), Action::Hold);
    let ending = proxy.on(Matcher::request(OpCode::CloseSession), Action::Hold);
    let servers = format!("{}/no/such/node", proxy.addr());
    let session = zklock::Session::builder(servers).session_timeout(LONG).open().unwrap();
    until("the chroot is looked at", || (looking.hits() == 1).then_some(())).await;
    let mut closing = std::pin::pin!(session.close());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut closing).await;
    assert!(early.is_err(), "closed while a session is being opened");
    let start = Instant::now();
    looking.release();
    let early = tokio::time::timeout(CLOSE / 2, &mut closing).await;
    assert!(early.is_err() && ending.hits() == 1, "closed with a session left behind");
    ending.release();
    closing.await;
    no_session_is_left(&bed, start).await;
    bed.end().await;
}

#[tokio::test]
async fn closing_frees_what_is_held_and_who_waits_elsewhere_gets_it_at_once() {
    let bed = Bed::shared("close-held");
    let holder = bed.builder().session_timeout(LONG).connect().await.unwrap();
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let session = bed.session().await;
    let (busy, waiting) = (bed.busy(&[&session]).await, acquiring(&session, "a"));
    bed.until_contenders("a", 2).await;
    let (control, start) = (Control::of(bed.server()), Instant::now());
    holder.close().await;
    assert!(!guard.is_valid());
    let next = soon("the lock", waiting).await.unwrap();
    // The deletion, the list, and the goodbye.
    control.within_answers("the lock of who closed", start.elapsed(), Duration::ZERO, 3);
    assert!(next.fencing_token() > guard.fencing_token());
    next.release().await.unwrap();
    drop((guard, busy));
    bed.end().await;
}

#[tokio::test]
async fn draining_fails_waiters_lets_holders_finish_and_leaves_the_queue() {
    let bed = Bed::shared("drain");
    let (draining, other) = (bed.session().await, bed.session().await);
    let busy = bed.busy_while_broken(&[&draining, &other]).await;
    let mine = draining.mutex("mine").unwrap().acquire().await.unwrap();
    let theirs = other.mutex("theirs").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = draining.mutex("theirs").unwrap();
        async move { mutex.acquire().await.map(drop) }
    });
    bed.until_contenders("theirs", 2).await;
    let left = draining.drain(Duration::from_millis(50)).await;
    let left = left.iter().map(|held| &*held.lock).filter(|lock| !lock.starts_with("busy/"));
    assert_eq!(left.collect::<Vec<_>>(), ["mine"]);
    assert!(soon("an error", waiting).await.unwrap().unwrap_err().is_closing());
    bed.until_contenders("theirs", 1).await;
    assert!(mine.is_valid());
    mine.release().await.unwrap();
    drop(busy);
    assert!(draining.drain(LONG).await.is_empty());
    theirs.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_session_that_is_dropped_closes_in_the_background() {
    let bed = Bed::shared("dropped");
    let busy = bed.busy(&[]).await;
    let session = bed.builder().session_timeout(LONG).connect().await.unwrap();
    let id = session.zookeeper_session().unwrap().id;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    drop(session);
    assert!(guard.is_valid());
    drop(guard);
    until("the session is gone", || (!bed.has_session(id)).then_some(())).await;
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_session_that_looks_for_a_server_in_vain_closes_at_once() {
    let bed = Bed::own();
    let builder = bed.builder().session_timeout(Duration::from_secs(2)).max_connections(1);
    let session = builder.connect().await.unwrap();
    let busy = bed.busy_in_one_lane_while_broken(&[&session]).await;
    bed.server().kill();
    until("no session", || session.zookeeper_session().is_none().then_some(())).await;
    let (control, start) = (Control::timers(), Instant::now());
    session.close().await;
    // Nobody can have opened one: there is nothing to wait for, and it would be for five seconds.
    control.within("closed in vain", start.elapsed(), Duration::ZERO);
    bed.server().restart();
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_session_whose_server_is_gone_closes_in_time() {
    let bed = Bed::own();
    let session = bed.builder().session_timeout(LONG).connect().await.unwrap();
    let busy = bed.busy_while_broken(&[]).await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    bed.server().kill();
    drop(guard);
    let (control, start) = (Control::timers(), Instant::now());
    session.close().await;
    control.within("closed without a server", start.elapsed(), Duration::from_secs(5));
    bed.server().restart();
    // The session could not say goodbye: it ends when the server's patience does.
    let mut raw = bed.raw();
    for node in bed.contenders("a") {
        // Unless the server has just ended the session.
        let deleted = raw.delete(&bed.path(&format!("a/{node}")));
        assert!(matches!(deleted, Ok(()) | Err(RawError::Code(-101))), "{deleted:?}");
    }
    raw.close().unwrap();
    drop(busy);
    bed.end().await;
}
