//! Nodes of waiters that others delete again and again.

use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_blocking};
use zklock::{ErrorKind, LockError, LockOptions, Requeue, Session};
use zklock_test_support::Control;

use crate::bed::{Bed, soon, until};
use crate::kinds::{Held, Kind, Wait};

/// Those that wait with a node of their own; `permits_deleted.rs` has the others.
const WAITING: [Kind; 5] = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, Kind::Multi];

/// Waits for a lock, in a task or on a thread that blocks; answers when it was over, too.
fn waiting(
    kind: Kind,
    session: &Session,
    requeue: Requeue,
    blocks: bool,
) -> JoinHandle<(Result<(), LockError>, Instant)> {
    let (session, options) = (session.clone(), LockOptions::default().requeue(requeue));
    if blocks {
        return spawn_blocking(move || {
            let taken = kind.take_blocking(&session, options, Wait::Forever).map(drop);
            (taken, Instant::now())
        });
    }
    tokio::spawn(async move {
        let taken = kind.take(&session, options, Wait::Forever).await.map(drop);
        (taken, Instant::now())
    })
}

/// Deletes the node of whoever waits behind this one, once it waits, and tells it; answers when.
async fn remove(bed: &Bed, holder: &Session, held: &Held) -> Instant {
    let (directory, _) = held.node_path().rsplit_once('/').unwrap();
    let below = format!("{directory}/");
    let waits = |path: &String| path.starts_with(&below) && path != held.node_path();
    let node = until("the waiter has a node and waits", || {
        let mut nodes = bed.server().sessions().into_iter();
        let node = nodes.find_map(|one| one.ephemerals.into_iter().find(waits));
        node.filter(|_| bed.is_watched_beside(holder, held.node_path()))
    })
    .await;
    let (mut raw, start) = (bed.raw(), Instant::now());
    raw.delete(&node).unwrap();
    // Nobody would tell it before, and it looks again only now and then.
    raw.set_data(held.node_path(), b"").unwrap();
    raw.close().unwrap();
    start
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_removed_from_the_queue_again_and_again_gives_up_as_often_as_it_says() {
    let bed = Bed::shared("gives-up-vanished");
    let (holder, waiter) = (bed.session().await, bed.session().await);
    let busy = bed.busy(&[&waiter]).await;
    let twice = Requeue::new().attempts(2);
    for (policy, removals) in [(Requeue::NEVER, 1), (twice, 3)] {
        for (kind, blocks) in WAITING.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            let call = format!("{kind:?}, on a thread: {blocks}, {removals} removals");
            let held = kind.rival().acquire(&holder).await;
            let control = Control::of(bed.server());
            let waiting = waiting(kind, &waiter, policy, blocks);
            for _ in 1..removals {
                remove(&bed, &holder, &held).await;
                assert!(!waiting.is_finished(), "{call}");
            }
            let start = remove(&bed, &holder, &held).await;
            let (taken, at) = soon("it gives up", waiting).await.unwrap();
            let error = taken.unwrap_err();
            // It is told, looks where it is, and is not there.
            control.within_answers(&call, at - start, Duration::ZERO, 3);
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{call}: {error}");
            assert!(format!("{error:#}").contains("again and again"), "{call}: {error}");
            assert!(held.is_valid(), "{call}");
            held.release().await.unwrap();
        }
    }
    drop(busy);
    bed.end().await;
}
