//! A lock that passes from one caller of a process to the next, while ZooKeeper does not answer whether
//! another process waits for it: it is not busy, because nobody is known to hold it.

use std::time::Duration;

use tokio::task::spawn_blocking;
use zklock::{ErrorKind, Handoffs, LockError, LockOptions, Mutex, MutexGuard};
use zklock_test_support::Proxy;

use crate::bed::{Bed, soon};

const T: Duration = Duration::from_secs(6);

/// Shorter than a lease.
const TIMEOUT: Duration = Duration::from_secs(2);

struct Scene {
    bed: Bed,
    proxy: Proxy,
    mutex: Mutex,
}

impl Scene {
    async fn new(root: &str) -> Self {
        let bed = Bed::shared(root);
        let proxy = bed.proxy();
        let builder = bed.builder_at(&proxy.addr()).session_timeout(T);
        let session = bed.adopt(builder.connect().await.unwrap());
        // Each handoff asks whether another process waits.
        let options = LockOptions::new().handoffs(Handoffs::NONE);
        let mutex = session.mutex("a").unwrap().with_options(options);
        Scene { bed, proxy, mutex }
    }

    /// Somebody holds the lock, and another caller waits for it, in a task or on a thread.
    async fn held_and_wanted(&self, blocking: bool) -> (MutexGuard, Waiting) {
        let held = soon("the lock", self.mutex.acquire()).await.unwrap().detach();
        let mutex = self.mutex.clone();
        let next = match blocking {
            true => spawn_blocking(move || mutex.blocking_acquire_timeout(TIMEOUT)),
            false => tokio::spawn(async move { mutex.acquire_timeout(TIMEOUT).await }),
        };
        // It waits in the process, which no server shows.
        tokio::time::sleep(Duration::from_millis(200)).await;
        (held, next)
    }

    async fn tried(&self, blocking: bool) -> Result<MutexGuard, LockError> {
        let mutex = self.mutex.clone();
        match blocking {
            true => spawn_blocking(move || mutex.blocking_try_acquire()).await.unwrap(),
            false => mutex.try_acquire().await,
        }
    }
}

type Waiting = tokio::task::JoinHandle<Result<MutexGuard, LockError>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_unavailable_where_nobody_answers() {
    let scene = Scene::new("between-silence").await;
    for blocking in [false, true] {
        let (held, next) = scene.held_and_wanted(blocking).await;
        scene.proxy.black_hole(true);
        drop(held);
        let tried = scene.tried(blocking).await.unwrap_err();
        assert_eq!(tried.kind(), ErrorKind::Unavailable, "blocking: {blocking}: {tried:#}");
        let refused = soon("the deadline", next).await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "blocking: {blocking}: {refused:#}");
        scene.proxy.heal();
    }
    scene.bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_is_told_who_was_given_it_where_answers_are_late() {
    let scene = Scene::new("between-late").await;
    let busy = scene.bed.busy(&[]).await;
    for blocking in [false, true] {
        scene.proxy.delay(Duration::from_millis(50));
        let (held, next) = scene.held_and_wanted(blocking).await;
        drop(held);
        let tried = scene.tried(blocking).await.unwrap_err();
        let next = soon("the lock", next).await.unwrap().unwrap();
        let holder = tried.holder().map(|holder| &*holder.node);
        assert!(tried.is_busy(), "blocking: {blocking}: {tried:#}");
        assert!(next.path().ends_with(holder.unwrap()), "blocking: {blocking}: {tried:#}");
        next.release().await.unwrap();
        scene.proxy.heal();
    }
    drop(busy);
    scene.bed.end().await;
}
