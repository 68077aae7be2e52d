//! Requests and replies that are lost with their connection, or alone: applied or not, nobody knows. Other
//! traffic goes over the same connections meanwhile.

use std::time::Duration;

use zklock::Session;
use zklock_test_support::{Action, Cut, Direction, Matcher, OpCode, Proxy};

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

/// A session through a proxy, which swallows nothing but single answers: its two connections live on. On a
/// busy day.
async fn proxied_briefly(bed: &Bed) -> (Proxy, Session, Busy) {
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(SESSION_TIMEOUT);
    let session = bed.adopt(builder.max_connections(2).connect().await.unwrap());
    let busy = bed.busy(&[&session]).await;
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    (proxy, session, busy)
}

#[tokio::test]
async fn a_deletion_whose_answer_alone_is_swallowed_is_brought_to_its_end() {
    let bed = Bed::shared("delete-swallowed");
    let (proxy, session, busy) = proxied_briefly(&bed).await;
    let other = session.mutex("b").unwrap().acquire().await.unwrap();
    let before = (session.zookeeper_session(), proxy.connections_total());
    for awaited in [true, false] {
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        let lost = Matcher::reply(OpCode::Delete).path(guard.node_path()).first(1);
        let rule = proxy.on(lost, Action::Drop);
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
    drop(busy);
    // Nothing is waited for any more.
    bed.end().await;
}

#[tokio::test]
async fn an_acquire_whose_answers_alone_are_swallowed_goes_on() {
    let bed = Bed::shared("acquire-swallowed");
    let (proxy, session, busy) = proxied_briefly(&bed).await;
    let before = (session.zookeeper_session(), proxy.connections_total());
    for opcode in [OpCode::Create2, OpCode::GetChildren] {
        let lost = Matcher::reply(opcode).path(&bed.path("a")).first(1);
        let rule = proxy.on(lost.clone(), Action::Drop);
        let guard = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
        assert_eq!((rule.hits(), bed.contenders("a").len()), (1, 1), "{opcode:?}");
        guard.release().await.unwrap();
        rule.release();
        // One who does not wait for it leaves nothing either.
        let rule = proxy.on(lost, Action::Drop);
        let limit = Duration::from_millis(300);
        let error = session.mutex("a").unwrap().acquire_timeout(limit).await.unwrap_err();
        assert!(error.is_unavailable(), "{opcode:?}: {error}");
        bed.until_contenders("a", 0).await;
        rule.release();
    }
    assert_eq!(before.0, session.zookeeper_session());
    // None of the four answers costs a connection; a busy machine may.
    assert!(proxy.connections_total() - before.1 <= 1);
    drop(busy);
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
