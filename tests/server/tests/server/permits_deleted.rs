//! Nodes of semaphores that others delete while somebody waits for permits.

use std::time::{Duration, Instant};

use zklock::layout::Kazoo;
use zklock::{ErrorKind, LockError, LockOptions, Requeue, Semaphore, SemaphorePermit, Session};
use zklock_test_support::{Control, RawClient};

use crate::bed::{Bed, PATIENCE, soon, until};

/// The promises are fractions of it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// When a waiter is told: it holds the inner lock, and is in a queue for the permit, whose changes it watches.
const TOLD: [Duration; 2] = [HEARTBEAT, Duration::ZERO];

/// A heartbeat asks for all, and reads what is gone.
const ANSWERS: u32 = 2;

fn printers(session: &Session, kazoo: bool) -> Semaphore {
    // A slow machine is no busy lock, and no silent server.
    let patient = LockOptions::new().timeout(PATIENCE);
    let printers = session.semaphore("printers", 1).unwrap().with_options(patient);
    if kazoo { printers.with_driver(Kazoo::default()) } else { printers }
}

/// The directories of the inner lock and of the permits.
fn directories(bed: &Bed, kazoo: bool) -> [String; 2] {
    let names = if kazoo {
        ["printers-__lock__", "printers"]
    } else {
        ["printers/locks", "printers/leases"]
    };
    names.map(|name| bed.path(name))
}

fn children(raw: &mut RawClient, directory: &str) -> Vec<String> {
    let names = raw.children(directory).unwrap_or_default();
    names.into_iter().map(|name| format!("{directory}/{name}")).collect()
}

/// The node of a waiter: of the inner lock, or for a permit.
async fn waiting_node(
    raw: &mut RawClient,
    directory: &str,
    is_new: impl Fn(&str) -> bool,
) -> String {
    until("a node of the waiter", || children(raw, directory).into_iter().find(|path| is_new(path)))
        .await
}

/// In each layout, which nodes a waiter has: that of the inner lock, and in Curator's one among the
/// permits.
const NODES: [(bool, usize); 3] = [(false, 0), (false, 1), (true, 0)];

type Waiting = tokio::task::JoinHandle<Result<SemaphorePermit, LockError>>;

/// Somebody holds the permit, somebody waits, and the node of the waiter is deleted; says when.
async fn deleted(
    bed: &Bed,
    (kazoo, which): (bool, usize),
    sessions: [&Session; 2],
    options: LockOptions,
) -> (SemaphorePermit, Waiting, String, Instant) {
    let holder = printers(sessions[0], kazoo).acquire().await.unwrap();
    let (mut raw, directories) = (bed.raw(), directories(bed, kazoo));
    // Its own of the inner lock is deleted in the background.
    let is_free = || children(&mut raw, &directories[0]).is_empty().then_some(());
    until("the inner lock is free", is_free).await;
    let waiting = printers(sessions[1], kazoo).with_options(options);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    // It waits once it has both.
    let inner = waiting_node(&mut raw, &directories[0], |_| true).await;
    let node = match which {
        0 => inner,
        _ => waiting_node(&mut raw, &directories[1], |path| path != holder.node_path()).await,
    };
    if !kazoo && which == 0 {
        waiting_node(&mut raw, &directories[1], |path| path != holder.node_path()).await;
    }
    raw.delete(&node).unwrap();
    let start = Instant::now();
    raw.close().unwrap();
    (holder, waiting, node, start)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_for_a_permit_whose_node_is_deleted_queues_up_again() {
    let bed = Bed::shared("permits-deleted");
    let (one, two) = (bed.session().await, bed.session_of(SESSION_TIMEOUT).await);
    let busy = bed.busy(&[&one, &two]).await;
    for (kazoo, which) in NODES {
        let (options, control) = (LockOptions::new(), Control::of(bed.server()));
        let (mut raw, directories) = (bed.raw(), directories(&bed, kazoo));
        let (holder, waiting, node, start) =
            deleted(&bed, (kazoo, which), [&one, &two], options).await;
        let is_new = |path: &str| path != node && path != holder.node_path();
        waiting_node(&mut raw, &directories[which], is_new).await;
        let what = format!("kazoo: {kazoo}, node {which}, queues up again");
        // It makes the node, which is seen here.
        control.within_answers(&what, start.elapsed(), TOLD[which], ANSWERS + 2);
        assert!(!waiting.is_finished() && holder.is_valid());
        holder.release().await.unwrap();
        let permit = soon("the permit", waiting).await.unwrap().unwrap();
        assert!(permit.is_valid());
        // Neither does anybody enter beside it.
        let busy = printers(&one, kazoo).try_acquire().await.unwrap_err();
        assert!(busy.is_busy(), "{busy:#}");
        let permits = children(&mut raw, &directories[1]);
        assert!(permits.iter().any(|path| path == permit.node_path()), "{permits:?}");
        permit.release().await.unwrap();
        raw.close().unwrap();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_begins_again_as_often_as_it_was_told() {
    let bed = Bed::shared("permits-never");
    let (one, two) = (bed.session().await, bed.session_of(SESSION_TIMEOUT).await);
    let busy = bed.busy(&[&one, &two]).await;
    for (kazoo, which) in NODES {
        let control = Control::of(bed.server());
        let never = LockOptions::new().requeue(Requeue::NEVER);
        let (holder, waiting, _, start) = deleted(&bed, (kazoo, which), [&one, &two], never).await;
        let error = soon("the end", waiting).await.unwrap().unwrap_err();
        let what = format!("kazoo: {kazoo}, node {which}, gives up");
        control.within_answers(&what, start.elapsed(), TOLD[which], ANSWERS);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
        assert!(error.to_string().contains("deleted"), "{error:#}");
        holder.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

/// kazoo counts before its node exists, and not again. If somebody deletes the node of our inner lock,
/// it may create one permit too many, and so may we: what was taken at that time is never granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_permit_is_granted_that_was_taken_without_the_inner_lock() {
    let bed = Bed::shared("permits-kazoo");
    let (one, two) = (bed.session().await, bed.session().await);
    let [inner, _] = directories(&bed, true);
    for round in 0..5 {
        let mut raw = bed.raw();
        let before = raw.changes_of_children(&inner).unwrap();
        let (holder, waiting, ..) =
            deleted(&bed, (true, 0), [&one, &two], LockOptions::new()).await;
        holder.release().await.unwrap();
        let permit = soon("the permit", waiting).await.unwrap().unwrap();
        assert!(permit.is_valid());
        // The node of the holder was made and deleted, and two of the waiter: a heartbeat or the deletion
        // told that the first was gone, so it queued up once more.
        // It does so again where an answer about it comes too late to count, on a busy machine.
        assert!(raw.changes_of_children(&inner).unwrap() >= before + 6, "round {round}");
        permit.release().await.unwrap();
        raw.close().unwrap();
    }
    bed.end().await;
}
