//! Permits that are split off.

use std::time::Duration;

use tokio::time::timeout;
use zklock::layout::Kazoo;
use zklock::{Embedded, GuardView, Handoffs, LockOptions, Semaphore, Session};

use crate::support::{contenders, on, store};

const SHORT: Duration = Duration::from_millis(300);

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn printers(session: &Session) -> Semaphore {
    session.semaphore("printers", 4).unwrap()
}

async fn leases(store: &Embedded) -> usize {
    contenders(store, "/zklock/printers/leases").await.len()
}

#[tokio::test(start_paused = true)]
async fn a_part_is_a_guard_of_its_own_and_its_nodes_go_with_it() {
    let (store, session) = store();
    let mut four = printers(&session).acquire_many(4).await.unwrap();
    let three = four.split(3).unwrap();
    assert_eq!((four.permits(), three.permits()), (1, 3));
    assert_eq!((leases(&store).await, session.local_contenders().len()), (4, 2));
    assert!(four.is_valid() && three.is_valid() && four.node_path() != three.node_path());
    assert_ne!(four.fencing_token(), three.fencing_token());
    let other = printers(&on(&store));
    assert!(other.try_acquire().await.unwrap_err().is_busy());
    three.release().await.unwrap();
    assert_eq!((leases(&store).await, session.local_contenders().len()), (1, 1));
    assert!(four.is_valid());
    let theirs = other.acquire_many_timeout(3, SHORT).await.unwrap();
    assert!(other.try_acquire().await.unwrap_err().is_busy(), "one stays with the first");
    four.release().await.unwrap();
    assert!(other.try_acquire().await.is_ok());
    drop(theirs);
    settle().await;
    assert_eq!((leases(&store).await, session.local_contenders().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_rest_may_go_before_the_part_and_either_may_be_split_again() {
    let (store, session) = store();
    let mut four = printers(&session).acquire_many(4).await.unwrap();
    let mut three = four.split(3).unwrap();
    drop(four);
    settle().await;
    assert_eq!((three.permits(), leases(&store).await), (3, 3));
    let two = three.split(2).unwrap();
    drop(three);
    settle().await;
    assert_eq!((two.permits(), two.is_valid(), leases(&store).await), (2, true, 2));
    drop(two);
    settle().await;
    assert_eq!(leases(&store).await, 0);
}

#[tokio::test(start_paused = true)]
async fn something_is_split_off_and_something_stays() {
    let (store, session) = store();
    let mut two = printers(&session).acquire_many(2).await.unwrap();
    for all_or_none in [0, 2, 3, u32::MAX] {
        assert!(two.split(all_or_none).is_none(), "{all_or_none}");
    }
    assert_eq!((two.permits(), two.is_valid(), leases(&store).await), (2, true, 2));
    let mut one = two.split(1).unwrap();
    assert!(one.split(1).is_none() && two.split(1).is_none());
}

/// Who has a view of the rest, or waits for its end, is not told of what becomes of the part.
#[tokio::test(start_paused = true)]
async fn a_view_from_before_is_of_what_is_left() {
    let (store, session) = store();
    let mut three = printers(&session).acquire_many(3).await.unwrap();
    let before = three.view();
    let waits = |view: GuardView| crate::spawn(async move { view.lost().await });
    let told = waits(before.view());
    settle().await;
    let two = three.split(2).unwrap();
    let (part, told_of_part) = (two.view(), waits(two.view()));
    drop(two);
    settle().await;
    assert!(told_of_part.is_finished() && !part.is_valid());
    assert!(!told.is_finished() && before.is_valid() && !before.remaining().is_zero());
    // The node of what is left is deleted from outside.
    let path = three.node_path().to_owned();
    crate::support::client(&store).await.delete(&path).await.unwrap();
    timeout(session.timing().unwrap().heartbeat * 2, told).await.unwrap().unwrap();
    assert!(!before.is_valid());
    assert!(three.release().await.unwrap_err().is_lost());
}

/// It began to wait when the part was its own.
#[tokio::test(start_paused = true)]
async fn who_waits_for_the_loss_of_the_rest_is_not_told_of_that_of_the_part() {
    let (store, session) = store();
    let mut two = printers(&session).acquire_many(2).await.unwrap();
    let before = two.view();
    let told = crate::spawn(async move { before.lost().await });
    settle().await;
    let part = two.split(1).unwrap();
    crate::support::client(&store).await.delete(part.node_path()).await.unwrap();
    timeout(session.timing().unwrap().heartbeat * 2, part.lost()).await.unwrap();
    settle().await;
    assert!(!told.is_finished() && two.is_valid());
    two.release().await.unwrap();
}

/// The first that waits here takes them in memory.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_let_go_is_handed_to_who_waits_here() {
    let (store, session) = store();
    let bound = Handoffs::new().most(100).within(Duration::from_secs(60));
    let printers = printers(&session).with_options(LockOptions::default().handoffs(bound));
    let mut four = printers.acquire_many(4).await.unwrap();
    let two = four.split(2).unwrap();
    let path = two.node_path().to_owned();
    let waiting = crate::spawn(async move { printers.acquire_many(2).await.unwrap() });
    settle().await;
    drop(two);
    let handed = timeout(SHORT, waiting).await.unwrap().unwrap();
    assert_eq!((handed.node_path(), handed.permits()), (&*path, 2));
    assert!(four.is_valid() && handed.is_valid());
    assert_eq!(leases(&store).await, 4);
}

#[tokio::test(start_paused = true)]
async fn all_parts_are_lost_with_their_session() {
    let (store, session) = store();
    let mut two = printers(&session).acquire_many(2).await.unwrap();
    let one = two.split(1).unwrap();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    timeout(SHORT, async { (one.lost().await, two.lost().await) }).await.unwrap();
    assert!(!one.is_valid() && !two.is_valid());
}

#[tokio::test(start_paused = true)]
async fn permits_of_kazoo_are_split_too() {
    let (store, session) = store();
    let printers = session.semaphore("printers", 3).unwrap().with_driver(Kazoo::default());
    let mut three = printers.acquire_many(3).await.unwrap();
    let two = three.split(2).unwrap();
    two.release().await.unwrap();
    assert_eq!(contenders(&store, "/zklock/printers").await.len(), 1);
    assert!(three.is_valid() && printers.try_acquire_many(2).await.is_ok());
}

/// A task that was carried into the scope goes on under what is left.
#[tokio::test(start_paused = true)]
async fn a_scope_from_before_is_one_of_what_is_left() {
    let (_, session) = store();
    let mut two = printers(&session).acquire_many(2).await.unwrap();
    let carried = || {
        crate::spawn(zklock::carry(async {
            settle().await;
            (zklock::is_held_in_scope("printers"), zklock::current().fencing_token())
        }))
    };
    let task = two.scope_sync(carried);
    drop(two.split(1).unwrap());
    assert_eq!(task.await.unwrap(), (true, Some(two.fencing_token())));
}
