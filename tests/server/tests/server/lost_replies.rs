//! Requests and replies that are lost with their connection, or alone: applied or not, nobody knows. Other
//! traffic goes over the same connections meanwhile, but where a test counts those or measures how long a
//! call by the defaults takes.

use std::time::{Duration, Instant};

use zklock::layout::{Kazoo, Numbered};
use zklock::{LockOptions, Session};
use zklock_test_support::{Action, CreateMode, Cut, Direction, Matcher, OpCode, Proxy};

use crate::bed::{Bed, acquiring, soon, until};
use crate::busy::Busy;

const WAYS: [Cut; 2] = [Cut::Fin, Cut::Reset];

/// A session through a proxy, with the directory of the lock `a` made, on a busy day.
async fn proxied(bed: &Bed) -> (Proxy, Session, Busy) {
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    // Or it could be reaped while the connection is down.
    bed.keep_directory("a");
    (proxy, session, busy)
}

/// What can become of a request about the lock `a` and of its reply when the connection breaks.
fn losses(bed: &Bed, opcode: OpCode) -> Vec<(Matcher, Action)> {
    let request = Matcher::request(opcode).path(&bed.path("a")).first(1);
    let reply = Matcher::reply(opcode).path(&bed.path("a")).first(1);
    WAYS.into_iter()
        .flat_map(|way| {
            [
                // Never applied.
                (request.clone(), Action::DropAndCut(way)),
                // Applied, perhaps only after the client has come back.
                (request.clone(), Action::ForwardAndCut(way)),
                // Applied, and the client does not know.
                (reply.clone(), Action::DropAndCut(way)),
                // Answered, and disconnected.
                (reply.clone(), Action::ForwardAndCut(way)),
            ]
        })
        .collect()
}

#[tokio::test]
async fn a_creation_in_doubt_leaves_exactly_the_reported_node() {
    let bed = Bed::shared("create-in-doubt");
    let (proxy, session, busy) = proxied(&bed).await;
    for (matcher, action) in losses(&bed, OpCode::Create2) {
        let rule = proxy.on(matcher, action);
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        assert_eq!(rule.hits(), 1, "{action:?}");
        let nodes = bed.contenders("a");
        assert_eq!(nodes.len(), 1, "{action:?}: {nodes:?}");
        assert!(guard.node_path().ends_with(&nodes[0]) && guard.is_valid());
        guard.release().await.unwrap();
        assert_eq!(bed.contenders("a").len(), 0);
        rule.release();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn before_a_node_is_adopted_the_server_catches_up() {
    let bed = Bed::shared("sync-before-adoption");
    let (proxy, session, busy) = proxied(&bed).await;
    for way in WAYS {
        proxy.clear_log();
        let lost = Matcher::reply(OpCode::Create2).path(&bed.path("a")).first(1);
        let rule = proxy.on(lost, Action::DropAndCut(way));
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        assert_eq!(rule.hits(), 1);
        rule.release();
        // What was sent after the loss; the list that went out beside the creation may be among it.
        // The one that adopts comes last: a server that lags would not show the node without the
        // sync, and it would be made once more.
        let log = proxy.log();
        let lost = log.iter().position(|frame| frame.was_dropped()).unwrap();
        let ours = |path: &String| path.starts_with(&bed.path("a"));
        let sent = log[lost..].iter().filter(|frame| frame.path.as_ref().is_some_and(ours));
        let sent = sent.filter(|frame| frame.direction == Direction::ToServer);
        let sent: Vec<_> = sent.map(|frame| frame.opcode).collect();
        let last = |op: OpCode| sent.iter().rposition(|sent| *sent == op);
        assert!(last(OpCode::Sync).is_some(), "{way:?}: {sent:?}");
        assert!(last(OpCode::GetChildren) > last(OpCode::Sync), "{way:?}: {sent:?}");
        assert!(!sent.contains(&OpCode::Create2), "{way:?}: {sent:?}");
        guard.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_deletion_in_doubt_is_brought_to_its_end() {
    let bed = Bed::shared("delete-in-doubt");
    let (proxy, session, busy) = proxied(&bed).await;
    for (matcher, action) in losses(&bed, OpCode::Delete) {
        let rule = proxy.on(matcher, action);
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        soon("the release", guard.release()).await.unwrap();
        assert_eq!(rule.hits(), 1, "{action:?}");
        assert_eq!(bed.contenders("a").len(), 0, "{action:?}");
        rule.release();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_deletion_that_nobody_waits_for_is_brought_to_its_end_too() {
    let bed = Bed::shared("drop-in-doubt");
    let (proxy, session, busy) = proxied(&bed).await;
    let other = bed.session().await;
    for (matcher, action) in losses(&bed, OpCode::Delete) {
        let rule = proxy.on(matcher, action);
        drop(soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap());
        soon("the next", acquiring(&other, "a")).await.unwrap().release().await.unwrap();
        bed.until_contenders("a", 0).await;
        // The other may be told of the deletion before the proxy has passed on its answer.
        until("the loss", || (rule.hits() == 1).then_some(())).await;
        rule.release();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_list_in_doubt_is_asked_for_again() {
    let bed = Bed::shared("list-in-doubt");
    let (proxy, session, busy) = proxied(&bed).await;
    for (matcher, action) in losses(&bed, OpCode::GetChildren) {
        let rule = proxy.on(matcher, action);
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        assert_eq!(rule.hits(), 1, "{action:?}");
        assert_eq!(bed.contenders("a").len(), 1, "{action:?}");
        guard.release().await.unwrap();
        rule.release();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_watch_in_doubt_is_set_again() {
    let bed = Bed::shared("watch-in-doubt");
    let (proxy, session, busy) = proxied(&bed).await;
    let holder = bed.session().await;
    for (matcher, action) in losses(&bed, OpCode::GetData) {
        let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
        let rule = proxy.on(matcher, action);
        let waiting = acquiring(&session, "a");
        until("the watch is lost", || (rule.hits() == 1).then_some(())).await;
        assert_eq!(bed.contenders("a").len(), 2, "{action:?}");
        guard.release().await.unwrap();
        soon("the lock", waiting).await.unwrap().release().await.unwrap();
        rule.release();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_cancelled_creation_in_doubt_leaves_nothing() {
    let bed = Bed::shared("cancelled-in-doubt");
    let (proxy, session, busy) = proxied(&bed).await;
    for (matcher, action) in losses(&bed, OpCode::Create2) {
        let rule = proxy.on(matcher, action);
        proxy.refuse(true);
        let cancelled = acquiring(&session, "a");
        until("the creation is lost", || (rule.hits() == 1).then_some(())).await;
        cancelled.abort();
        drop(cancelled.await);
        proxy.refuse(false);
        drop(soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap());
        bed.until_contenders("a", 0).await;
        rule.release();
    }
    drop(busy);
    bed.end().await;
}

/// As short as will do: an answer that is swallowed is waited for that long.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// A session through a proxy, which swallows nothing but single answers: the connection lives on.
async fn proxied_briefly(bed: &Bed) -> (Proxy, Session) {
    let proxy = bed.proxy();
    let session = bed.session_of_through(SESSION_TIMEOUT, &proxy).await;
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    (proxy, session)
}

#[tokio::test]
async fn a_deletion_whose_answer_alone_is_swallowed_is_brought_to_its_end() {
    let bed = Bed::shared("delete-swallowed");
    let (proxy, session) = proxied_briefly(&bed).await;
    let other = session.mutex("b").unwrap().acquire().await.unwrap();
    let before = (session.zookeeper_session(), proxy.connections_total());
    for awaited in [true, false] {
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        let rule = proxy.on(Matcher::reply(OpCode::Delete).first(1), Action::Drop);
        if awaited {
            soon("the release", guard.release()).await.unwrap();
        } else {
            drop(guard);
        }
        until("the answer is swallowed", || (rule.hits() == 1).then_some(())).await;
        bed.until_contenders("a", 0).await;
        rule.release();
    }
    assert!(other.is_valid());
    assert_eq!(before.0, session.zookeeper_session());
    // Neither of the answers costs a connection; a busy machine may.
    assert!(proxy.connections_total() - before.1 <= 1);
    other.release().await.unwrap();
    // Nothing is waited for any more.
    bed.end().await;
}

#[tokio::test]
async fn an_acquire_whose_answers_alone_are_swallowed_goes_on() {
    let bed = Bed::shared("acquire-swallowed");
    let (proxy, session) = proxied_briefly(&bed).await;
    let before = (session.zookeeper_session(), proxy.connections_total());
    for opcode in [OpCode::Create2, OpCode::GetChildren] {
        let rule = proxy.on(Matcher::reply(opcode).first(1), Action::Drop);
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        assert_eq!((rule.hits(), bed.contenders("a").len()), (1, 1), "{opcode:?}");
        guard.release().await.unwrap();
        rule.release();
        // One who does not wait for it leaves nothing either.
        let rule = proxy.on(Matcher::reply(opcode).first(1), Action::Drop);
        let limit = Duration::from_millis(300);
        let error = session.mutex("a").unwrap().acquire_timeout(limit).await.unwrap_err();
        assert!(error.is_unavailable(), "{opcode:?}: {error}");
        bed.until_contenders("a", 0).await;
        rule.release();
    }
    assert_eq!(before.0, session.zookeeper_session());
    // None of the four answers costs a connection; a busy machine may.
    assert!(proxy.connections_total() - before.1 <= 1);
    bed.end().await;
}

#[tokio::test]
async fn a_heartbeat_whose_answer_alone_is_swallowed_is_sent_again() {
    a_heartbeat_is_sent_again("heartbeat-swallowed", false).await;
}

#[tokio::test]
async fn so_it_is_on_a_busy_day() {
    a_heartbeat_is_sent_again("busy-heartbeat-swallowed", true).await;
}

async fn a_heartbeat_is_sent_again(root: &str, is_busy: bool) {
    let bed = Bed::shared(root);
    let proxy = bed.proxy();
    // Long enough for a busy machine: the second is sent after a third of it, and in time until
    // more than a half is over.
    let builder = bed.builder_at(&proxy.addr()).session_timeout(3 * SESSION_TIMEOUT);
    let session = bed.adopt(builder.connect().await.unwrap());
    let busy = if is_busy { Some(bed.busy(&[&session]).await) } else { None };
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let beat = Matcher::reply(OpCode::Multi).path(guard.node_path());
    let lost = proxy.on(beat.clone().first(1), Action::Drop);
    until("a heartbeat is swallowed", || (lost.hits() == 1).then_some(())).await;
    lost.release();
    let next = proxy.on(beat, Action::Pass);
    until("others are answered", || (next.hits() >= 2).then_some(())).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

/// A session through a proxy, with the defaults: a call takes 4 s at most, and the session 10 s.
async fn proxied_by_default(bed: &Bed) -> (Proxy, Session) {
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(Duration::from_secs(10));
    let session = bed.adopt(builder.connect().await.unwrap());
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    (proxy, session)
}

/// Swallows the next answer to an operation while something is done, which must not take longer than
/// a call by the defaults.
async fn without_an_answer<T>(proxy: &Proxy, opcode: OpCode, work: impl Future<Output = T>) -> T {
    let rule = proxy.on(Matcher::reply(opcode).first(1), Action::Drop);
    let start = Instant::now();
    let done = soon("it goes on", work).await;
    let took = start.elapsed();
    println!("without an answer to {opcode:?}: {took:?}");
    assert_eq!(rule.hits(), 1, "{opcode:?}");
    assert!(took < Duration::from_secs(4), "{opcode:?}: {took:?}");
    rule.release();
    done
}

#[tokio::test]
async fn a_call_with_the_default_deadline_outlives_an_answer_that_is_swallowed_alone() {
    let bed = Bed::shared("swallowed-by-default");
    let (proxy, session) = proxied_by_default(&bed).await;
    let before = (session.zookeeper_session(), proxy.connections_total());
    let mutex = session.mutex("a").unwrap();
    for opcode in [OpCode::Create2, OpCode::GetChildren] {
        let guard = without_an_answer(&proxy, opcode, mutex.acquire_tries()).await.unwrap();
        assert_eq!(bed.contenders("a").len(), 1);
        without_an_answer(&proxy, OpCode::Delete, guard.release()).await.unwrap();
        let guard = without_an_answer(&proxy, opcode, mutex.try_acquire()).await.unwrap();
        guard.release().await.unwrap();
    }
    // The directory of a lock that nobody has used yet.
    for opcode in [OpCode::CreateContainer, OpCode::Create2] {
        let fresh = session.mutex(format!("fresh-{opcode:?}")).unwrap();
        let guard = without_an_answer(&proxy, opcode, fresh.acquire_tries()).await.unwrap();
        guard.release().await.unwrap();
    }
    let site = session.site("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    for opcode in [OpCode::GetChildren, OpCode::GetData] {
        let queue = without_an_answer(&proxy, opcode, site.contenders()).await.unwrap();
        assert_eq!(queue.len(), 1, "{opcode:?}");
        // Who is in the way is said, too.
        let other = bed.session_through(&proxy).await;
        let other = other.mutex("a").unwrap();
        let error = without_an_answer(&proxy, opcode, other.try_acquire()).await.unwrap_err();
        assert!(error.is_busy() && error.holder().is_some(), "{opcode:?}: {error:#}");
    }
    for opcode in [OpCode::GetChildren, OpCode::SetData] {
        let asked = without_an_answer(&proxy, opcode, site.revoke()).await.unwrap();
        assert_eq!(asked, 1, "{opcode:?}");
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert_eq!(before.0, session.zookeeper_session());
    bed.end().await;
}

#[tokio::test]
async fn a_step_down_outlives_an_answer_that_is_swallowed_alone() {
    let bed = Bed::shared("swallowed-downgrade");
    let (proxy, session) = proxied_by_default(&bed).await;
    let lock = session.rw_lock("b").unwrap();
    for opcode in [OpCode::Create2, OpCode::Delete] {
        let writing = lock.write().await.unwrap();
        let reading = without_an_answer(&proxy, opcode, writing.downgrade()).await.unwrap();
        assert!(reading.is_valid());
        assert_eq!(bed.contenders_by("b", "__").len(), 1, "{opcode:?}");
        reading.release().await.unwrap();
        assert!(bed.contenders_by("b", "__").is_empty(), "{opcode:?}");
    }
    bed.end().await;
}

#[tokio::test]
async fn a_mark_outlives_an_answer_that_is_swallowed_alone() {
    let bed = Bed::shared("swallowed-mark");
    let (proxy, session) = proxied_by_default(&bed).await;
    let delay = LockOptions::default().lock_delay(Duration::from_secs(60));
    let hold = LockOptions::default().hold_at_least(Duration::from_millis(1));
    let both = hold.lock_delay(Duration::from_secs(60));
    let with = |name, options| session.mutex(name).unwrap().with_options(options);
    // The directory `a` may be a container, and one that stays takes its place first.
    for (round, options) in [hold, delay, hold, both].into_iter().enumerate() {
        for opcode in [OpCode::GetData, OpCode::Multi] {
            let mutex = with("a", options);
            let guard = without_an_answer(&proxy, opcode, mutex.acquire_tries()).await.unwrap();
            assert_eq!(bed.contenders("a").len(), 1, "{round}: {opcode:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
            let released = guard.release();
            without_an_answer(&proxy, OpCode::Multi, released).await.unwrap();
            assert!(bed.contenders("a").is_empty(), "{round}: {opcode:?}");
        }
    }
    bed.end().await;
}

/// In kazoo's layout the limit is written into an empty node, and a number is skipped that is the name of
/// another lock.
#[tokio::test]
async fn what_is_written_ahead_of_the_node_outlives_an_answer_that_is_swallowed_alone() {
    let bed = Bed::shared("swallowed-ahead");
    let (proxy, session) = proxied_by_default(&bed).await;
    // A child that keeps the directory is a permit, or counts as one number.
    ["kazoo", "numbered"].iter().for_each(|lock| bed.keep_directory(lock));
    let mut raw = bed.raw();
    for other in ["numbered/sub_0000000002", "numbered/sub_0000000002/in-use"] {
        raw.create(&bed.path(other), b"", CreateMode::Persistent).unwrap();
    }
    let semaphore = session.semaphore("kazoo", 2).unwrap().with_driver(Kazoo::default());
    let permit = without_an_answer(&proxy, OpCode::Multi, semaphore.acquire_tries()).await.unwrap();
    assert_eq!(raw.data(&bed.path("kazoo")).unwrap(), b"2");
    permit.release().await.unwrap();
    let mutex = session.mutex("numbered").unwrap().with_driver(Numbered::dlock());
    let guard = without_an_answer(&proxy, OpCode::Multi, mutex.acquire_tries()).await.unwrap();
    assert_eq!(guard.node_path(), bed.path("numbered/sub_0000000003"));
    guard.release().await.unwrap();
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_waiter_whose_watch_alone_is_swallowed_is_granted_and_leaves_no_watch() {
    let bed = Bed::shared("watch-swallowed");
    let (proxy, session) = proxied_by_default(&bed).await;
    let guard = bed.session().await.mutex("a").unwrap().acquire().await.unwrap();
    let rule = proxy.on(Matcher::reply(OpCode::GetData).first(1), Action::Drop);
    let waiting = acquiring(&session, "a");
    until("the watch is swallowed", || (rule.hits() == 1).then_some(())).await;
    rule.release();
    let next = proxy.on(Matcher::reply(OpCode::GetData), Action::Pass);
    until("it is asked for again", || (next.hits() == 1).then_some(())).await;
    guard.release().await.unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    bed.end().await;
}
