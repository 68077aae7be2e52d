//! ZooKeeper sessions that end behind our back, or that somebody else takes.

use std::time::{Duration, Instant};

use zklock::{ErrorKind, Session, ZooKeeperSession};
use zklock_test_support::{Control, Proxy, RawClient, RawError, SessionKey, ZooKeeper};

use crate::bed::{Bed, acquiring, soon, until};

/// Ends the present ZooKeeper session of a session that goes through a proxy; answers its
/// generation.
fn kill(session: &Session, proxy: &Proxy) -> u64 {
    let ZooKeeperSession { id, number, .. } = session.zookeeper_session().unwrap();
    proxy.expire_session(id);
    number
}

#[tokio::test]
async fn a_waiter_whose_session_is_killed_acquires_with_the_new_one() {
    let bed = Bed::shared("killed-waiter");
    let proxy = bed.proxy();
    // All of its nodes are in the session that ends.
    let waiter = bed.builder_at(&proxy.addr()).max_connections(1).connect().await.unwrap();
    let (holder, waiter) = (bed.session().await, bed.adopt(waiter));
    let busy = bed.busy_in_one_lane_while_broken(&[&waiter]).await;
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&waiter, "a");
    let queue = bed.until_contenders("a", 2).await;
    let generation = kill(&waiter, &proxy);
    // The session that watched it is over.
    let waits = || bed.is_watched_beside(&holder, guard.node_path()).then_some(());
    until("it waits anew", waits).await;
    assert!(!waiting.is_finished() && guard.is_valid());
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap();
    assert!(!guard.node_path().ends_with(&queue[1]), "a new node for a new session");
    assert!(guard.fencing_token() > token);
    assert_eq!(waiter.zookeeper_session().unwrap().number, generation + 1);
    guard.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn guards_are_lost_with_their_session_and_the_next_comes_from_a_new_one() {
    let bed = Bed::shared("killed-holder");
    let proxy = bed.proxy();
    let holder = bed.builder_at(&proxy.addr()).max_connections(1).connect().await.unwrap();
    let (holder, other) = (bed.adopt(holder), bed.session().await);
    let busy = bed.busy_in_one_lane_while_broken(&[&holder]).await;
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let second = holder.mutex("b").unwrap().acquire().await.unwrap();
    // One who waits in the same process, and one elsewhere.
    let local = acquiring(&holder, "a");
    let remote = acquiring(&other, "b");
    bed.until_contenders("b", 2).await;
    let generation = kill(&holder, &proxy);
    soon("the loss", guard.lost()).await;
    soon("the loss", second.lost()).await;
    assert!(!guard.is_valid() && !second.is_valid());
    for (next, lost) in [(local, &guard), (remote, &second)] {
        let next = soon("the next", next).await.unwrap();
        assert!(next.is_valid() && next.fencing_token() > lost.fencing_token());
        next.release().await.unwrap();
    }
    assert_eq!(holder.zookeeper_session().unwrap().number, generation + 1);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    drop((second, busy));
    bed.end().await;
}

const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Id and password of a session that goes through a proxy.
fn key(session: &Session, proxy: &Proxy) -> SessionKey {
    let id = session.zookeeper_session().unwrap().id;
    proxy.sessions().into_iter().find(|key| key.id == id).unwrap()
}

#[tokio::test]
async fn a_session_closed_by_somebody_who_knows_its_password_is_lost() {
    let bed = Bed::shared("closed-outside");
    let proxy = bed.proxy();
    let holder = bed.builder_at(&proxy.addr()).session_timeout(SESSION_TIMEOUT);
    let (holder, other) = (bed.adopt(holder.connect().await.unwrap()), bed.session().await);
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&other, "a");
    bed.until_contenders("a", 2).await;
    let (key, addr) = (key(&holder, &proxy), bed.server().addr());
    let lease = holder.timing().unwrap().lease;
    let control = Control::timers();
    // The client does not give up its session without a fight: whoever connects last has it.
    until("it is closed", || match RawClient::resume(&addr, &key).and_then(RawClient::close) {
        Ok(()) | Err(RawError::Expired) => Some(()),
        Err(_) => None,
    })
    .await;
    let start = Instant::now();
    soon("the loss", guard.lost()).await;
    // As a rule at once. But the client may have been let in once more while the session was being
    // closed; the server then neither answers nor closes that connection (seen with 3.8.0, a ping
    // was the last that it took). Silence is what the lease clock is for.
    control.within("closed from outside", start.elapsed(), lease);
    let next = soon("the next", waiting).await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.release().await.unwrap();
    soon("the lock", acquiring(&holder, "a")).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_session_that_moves_to_another_server_keeps_guard_and_queue() {
    let bed = Bed::three(ZooKeeper::builder());
    let ensemble = bed.ensemble();
    let (from, to) = (ensemble.followers()[0], ensemble.leader());
    let proxy = Proxy::start(ensemble.server(from).socket_addr());
    let (holder, waiter) = (bed.session_through(&proxy).await, bed.session_through(&proxy).await);
    let before = (holder.zookeeper_session(), waiter.zookeeper_session());
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&waiter, "a");
    let queue = bed.until_contenders("a", 2).await;

    // They come back to another server.
    let connections = proxy.connections_total();
    proxy.set_upstream(ensemble.server(to).socket_addr());
    proxy.cut_fin();
    let back = || proxy.connections_total() >= connections + 2 && holder.is_ready();
    until("both are back", || back().then_some(())).await;
    assert!(guard.is_valid() && !waiting.is_finished());

    // And somebody takes one to a third, and leaves it there: the next request of the client is
    // refused because its session has moved, and it fetches it back.
    let third = (0..3).find(|server| ![from, to].contains(server)).unwrap();
    let connections = proxy.connections_total();
    drop(RawClient::resume(&ensemble.server(third).addr(), &key(&holder, &proxy)).unwrap());
    until("it comes again", || (proxy.connections_total() > connections).then_some(())).await;
    assert!(guard.is_valid() && !waiting.is_finished());
    assert_eq!(bed.contenders("a"), queue);
    soon("the release", guard.release()).await.unwrap();
    let next = soon("the lock", waiting).await.unwrap();
    assert!(next.node_path().ends_with(&queue[1]));
    assert_eq!(before, (holder.zookeeper_session(), waiter.zookeeper_session()));
    next.release().await.unwrap();
    bed.end().await;
}
