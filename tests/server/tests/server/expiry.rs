//! ZooKeeper sessions that end behind our back.

use zklock::{ErrorKind, Session};
use zklock_test_support::Proxy;

use crate::bed::{Bed, acquiring, soon};

/// Ends the present ZooKeeper session of a session that goes through a proxy; answers its
/// generation.
fn kill(session: &Session, proxy: &Proxy) -> u64 {
    let (id, generation) = session.zookeeper_session().unwrap();
    proxy.expire_session(id);
    generation
}

#[tokio::test]
async fn a_waiter_whose_session_is_killed_acquires_with_the_new_one() {
    let bed = Bed::shared("killed-waiter");
    let proxy = bed.proxy();
    let (holder, waiter) = (bed.session().await, bed.session_through(&proxy).await);
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&waiter, "a");
    let queue = bed.until_contenders("a", 2).await;
    let generation = kill(&waiter, &proxy);
    bed.until_contenders("a", 2).await;
    assert!(!waiting.is_finished() && guard.is_valid());
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    let guard = soon("the lock", waiting).await.unwrap();
    assert!(!guard.path().ends_with(&queue[1]), "a new node for a new session");
    assert!(guard.fencing_token() > token);
    assert_eq!(waiter.zookeeper_session().unwrap().1, generation + 1);
    guard.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn guards_are_lost_with_their_session_and_the_next_comes_from_a_new_one() {
    let bed = Bed::shared("killed-holder");
    let proxy = bed.proxy();
    let (holder, other) = (bed.session_through(&proxy).await, bed.session().await);
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
    assert_eq!(holder.zookeeper_session().unwrap().1, generation + 1);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    drop(second);
    bed.end().await;
}
