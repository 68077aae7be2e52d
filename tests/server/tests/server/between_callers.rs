//! A lock that passes from one caller of a process to the next, while ZooKeeper does not answer whether
//! another process waits for it: it is not busy, because nobody is known to hold it.

use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_blocking};
use zklock::{AnyGuard, AnyLock, ErrorKind, Handoffs, LockError, LockOptions, Session};
use zklock_test_support::{Control, Proxy};

use crate::bed::{Bed, PATIENCE, soon, until};
use crate::busy::Busy;
use crate::kinds::Kind;

const T: Duration = Duration::from_secs(6);

/// Shorter than a lease.
const TIMEOUT: Duration = Duration::from_secs(2);

/// So much later comes each answer.
const LATE: Duration = Duration::from_millis(50);

/// Locks that exclude every other caller, on a busy session.
struct Scene {
    bed: Bed,
    proxy: Proxy,
    session: Session,
    locks: [(Kind, AnyLock); 3],
    busy: Busy,
}

impl Scene {
    async fn new(root: &str, timeout: Duration) -> Self {
        let bed = Bed::shared(root);
        let proxy = bed.proxy();
        let session = bed.session_of_through(T, &proxy).await;
        let busy = bed.busy_while_broken(&[&session]).await;
        // Each handoff asks whether another process waits.
        let options = LockOptions::new().handoffs(Handoffs::NONE).timeout(timeout).retries(1);
        let mutex = session.mutex("mutex").unwrap().with_options(options);
        let rw_lock = session.rw_lock("rw").unwrap().with_options(options);
        let permit = session.semaphore("permit", 1).unwrap().with_options(options);
        let locks = [
            (Kind::Mutex, mutex.into()),
            (Kind::Write, AnyLock::Write(rw_lock)),
            (Kind::Permit, permit.into()),
        ];
        Scene { bed, proxy, session, locks, busy }
    }

    /// Somebody holds each lock, and another caller waits for it, in a task or on a thread.
    async fn held_and_wanted(&self, blocking: bool) -> Vec<Passed> {
        let mut all = Vec::new();
        for (kind, lock) in self.locks.clone() {
            let held = soon("the lock", lock.acquire()).await.unwrap().detach();
            all.push((kind, lock, held));
        }
        let wanted = |(kind, lock, held)| {
            let waiting = acquiring(&lock, Wants::Waits, blocking);
            Passed { kind, lock, held, waiting }
        };
        let all: Vec<_> = all.into_iter().map(wanted).collect();
        // In the process, which no server shows.
        until("all are waited for", || {
            let here = self.session.local_contenders();
            let waits = |lock: &str| here.iter().any(|one| !one.holds && &*one.lock == lock);
            all.iter().all(|passed| waits(passed.held.lock_name())).then_some(())
        })
        .await;
        all
    }

    async fn end(self) {
        self.proxy.heal();
        drop(self.busy);
        self.bed.end().await;
    }
}

/// A lock that is about to pass from who holds it to who waits for it.
struct Passed {
    kind: Kind,
    lock: AnyLock,
    held: AnyGuard,
    waiting: Acquiring,
}

#[derive(Clone, Copy, Debug)]
enum Wants {
    Waits,
    Tries,
}

/// What came of it, and after how long.
type Acquiring = JoinHandle<(Result<AnyGuard, LockError>, Duration)>;

fn acquiring(lock: &AnyLock, wants: Wants, blocking: bool) -> Acquiring {
    let (lock, start) = (lock.clone(), Instant::now());
    if blocking {
        return spawn_blocking(move || {
            let acquired = match wants {
                Wants::Waits => lock.blocking_acquire_tries(),
                Wants::Tries => lock.blocking_try_acquire(),
            };
            (acquired, start.elapsed())
        });
    }
    tokio::spawn(async move {
        let acquired = match wants {
            Wants::Waits => lock.acquire_tries().await,
            Wants::Tries => lock.try_acquire().await,
        };
        (acquired, start.elapsed())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_unavailable_in_time_where_nobody_answers() {
    let scene = Scene::new("between-silence", TIMEOUT).await;
    for blocking in [false, true] {
        let all = scene.held_and_wanted(blocking).await;
        let control = Control::timers();
        scene.proxy.black_hole(true);
        let mut calls = Vec::new();
        for Passed { kind, lock, held, waiting } in all {
            drop(held);
            let tried = acquiring(&lock, Wants::Tries, blocking);
            calls.extend([(kind, Wants::Waits, waiting), (kind, Wants::Tries, tried)]);
        }
        for (kind, wants, call) in calls {
            let (refused, took) = soon("the deadline", call).await.unwrap();
            let call = format!("{kind:?}, {wants:?}, blocking: {blocking}");
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{call}: {refused:#}");
            assert!(refused.holder().is_none(), "{call}: {refused:#}");
            control.within(&call, took, TIMEOUT);
        }
        scene.proxy.heal();
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_is_told_who_was_given_it_where_answers_are_late() {
    let scene = Scene::new("between-late", PATIENCE).await;
    for blocking in [false, true] {
        scene.proxy.delay(LATE / 2);
        for Passed { kind, lock, held, waiting } in scene.held_and_wanted(blocking).await {
            drop(held);
            let tried = acquiring(&lock, Wants::Tries, blocking);
            let (tried, _) = soon("the answer", tried).await.unwrap();
            let tried = tried.unwrap_err();
            let (next, _) = soon("the lock", waiting).await.unwrap();
            let next = next.unwrap_or_else(|error| panic!("{kind:?}: {error:#}"));
            assert!(tried.is_busy(), "{kind:?}, blocking: {blocking}: {tried:#}");
            // A permit is taken anew, and until then nobody has it.
            if kind != Kind::Permit {
                let named = tried.holder().map(|holder| &*holder.node);
                let is_next = named.is_some_and(|node| next.node_path().ends_with(node));
                assert!(is_next, "{kind:?}, blocking: {blocking}: {tried:#}");
            }
            next.release().await.unwrap();
        }
    }
    scene.end().await;
}
