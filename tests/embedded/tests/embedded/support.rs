//! Sessions on a store that the test can break.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use zklock::{AnyLock, Embedded, Session};
use zklock_core::coordinator::connector::Connector;
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::requests::Coordinator;

/// A store with a session on it, where every answer comes at once.
pub(crate) fn prompt() -> (Embedded, Session) {
    let store = Embedded::new();
    let session = on(&store);
    (store, session)
}

/// The same, where answers come late.
pub(crate) fn store() -> (Embedded, Session) {
    let (store, session) = prompt();
    be_late(&store);
    (store, session)
}

/// A store where answers come late.
pub(crate) fn late() -> Embedded {
    let store = Embedded::new();
    be_late(&store);
    store
}

/// By up to so much.
const LATE: Duration = Duration::from_millis(4);

/// Lets answers come late, each time by other delays; by those of an earlier run, if `ZKLOCK_SEED`
/// says which.
fn be_late(store: &Embedded) {
    let given = std::env::var("ZKLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(()));
    // Shown if the test fails.
    println!("answers come late: ZKLOCK_SEED={seed}");
    store.answer_late(seed, LATE);
}

/// One more session on a store.
pub(crate) fn on(store: &Embedded) -> Session {
    Session::embedded_builder(store).app("test").open().unwrap()
}

/// A plain client of the store, to look at it from outside.
pub(crate) async fn client(store: &Embedded) -> Arc<dyn Coordinator> {
    store.connector(Duration::from_secs(3600)).connect().await.unwrap()
}

/// The data of a node.
pub(crate) async fn data(store: &Embedded, path: &str) -> String {
    let (data, _) = client(store).await.get(path).await.unwrap();
    String::from_utf8(data).unwrap()
}

/// About so long: the clocks are known to within milliseconds.
pub(crate) fn about(elapsed: Duration, expected: Duration) {
    assert!(elapsed >= expected, "{elapsed:?} instead of {expected:?}");
    assert!(elapsed < expected + Duration::from_millis(50), "{elapsed:?} instead of {expected:?}");
}

/// The names of the nodes in a lock's directory, once all has arrived that is on its way.
pub(crate) async fn contenders(store: &Embedded, path: &str) -> Vec<String> {
    tokio::time::sleep(2 * LATE).await;
    client(store).await.children(path).await.unwrap_or_default()
}

/// Drops the future of an acquire while it waits for a reply that does not come: each time for the next one
/// that it needs, until it needs no more. Returns the kinds of those requests.
pub(crate) async fn cancelled_before_each_reply(
    lock: impl Fn(&Session) -> AnyLock,
    nothing_is_left: impl AsyncFn(&Embedded),
) -> Vec<Op> {
    let mut unanswered = Vec::new();
    for number in 0.. {
        let (store, session) = store();
        let lock = lock(&session);
        lock.acquire().await.unwrap().release().await.unwrap();
        let before = session.zookeeper_session().unwrap();
        store.record();
        store.faults(before.id).inject(Fault::forget_reply().skip(number as u64));
        // Before anything is asked for again.
        let acquired = tokio::time::timeout(Duration::from_millis(100), lock.acquire()).await;
        let asked = store.recorded();
        let Some(lost) = asked.get(number) else { break };
        if acquired.is_err() {
            unanswered.push(lost.op);
        }
        drop(acquired);
        // Long enough to ask again, and not for the end of the session.
        tokio::time::sleep(Duration::from_secs(5)).await;
        nothing_is_left(&store).await;
        lock.try_acquire().await.unwrap().release().await.unwrap();
        assert_eq!(session.zookeeper_session().unwrap(), before, "{lost:?}");
    }
    unanswered
}

/// Counts who is inside at once.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
    total: AtomicUsize,
}

impl Inside {
    /// Goes in, gives others a chance, goes out.
    pub(crate) async fn pass(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.total.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    /// The most that were inside at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// How many went in.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }
}

/// Work that goes on inside the call that wakes it, before that call returns.
pub(crate) struct Inline(Mutex<Option<Work>>);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Inline {
    /// Runs it as far as it comes.
    pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) -> Arc<Inline> {
        let inline = Arc::new(Inline(Mutex::new(Some(Box::pin(work)))));
        inline.clone().wake();
        inline
    }

    /// Whether it came to its end.
    pub(crate) fn is_done(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        // Work that wakes itself is not for this.
        let mut work = self.0.try_lock().unwrap();
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        if work.as_mut().is_some_and(|work| work.as_mut().poll(&mut cx).is_ready()) {
            *work = None;
        }
    }
}

/// Runs all in one task, to their ends.
pub(crate) async fn join_all<F: Future<Output = ()>>(futures: impl IntoIterator<Item = F>) {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
