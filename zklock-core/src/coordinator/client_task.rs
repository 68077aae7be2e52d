//! The client library's task for one ZooKeeper session, and its end.
//!
//! The library tells when its session is over, but for three cases. Then the task ends here:
//!
//! - A panic ends it, for instance one of the application's log. If it was not connected at that moment, the
//!   library says for ever that it is trying to connect.
//! - It gives a session up [after a time](times::give_up), which it learns where a connection attempt waits. If
//!   this machine refuses each attempt at once, because there is no route or no file descriptor is left, it
//!   tries on without a pause within one poll, and nothing else runs on its thread any more.
//! - It closes a session when the last reply has been dropped. Callers may keep one without polling it.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::base::times;
use crate::coordinator::link::Link;

thread_local! {
    /// The task that was spawned last on this thread.
    static SPAWNED: RefCell<Option<Arc<ClientTask>>> = const { RefCell::new(None) };
}

/// What is known of the task.
pub(crate) struct ClientTask {
    /// Why the session is over, if the client library does not report it.
    over: watch::Sender<Option<Link>>,
    start: Instant,
    serving: OnceLock<Serving>,
    /// When the library has certainly received something, in nanoseconds after the start.
    received: AtomicU64,
    /// When the library was last not connected; 0 for never.
    down_at: AtomicU64,
    /// When something was asked for that was answered. Where a server lets the session in, and the connection
    /// breaks before it has answered anything else, the library goes on to say that it is connected.
    answered: AtomicU64,
    /// Whether the session was given up.
    gave_up: AtomicBool,
    /// When the task ends because its session was closed long ago.
    closes_at: AtomicU64,
}

/// The session that the task serves.
struct Serving {
    is_connected: Box<dyn Fn() -> bool + Send + Sync>,
    /// For how long the library may have received nothing while it is connected, in nanoseconds.
    silence: u64,
    /// How long after it has received something it is at its end, in nanoseconds.
    gives_up: u64,
}

impl fmt::Debug for ClientTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTask").field("over", &*self.over.borrow()).finish_non_exhaustive()
    }
}

impl Default for ClientTask {
    fn default() -> Self {
        ClientTask {
            over: watch::Sender::new(None),
            start: Instant::now(),
            serving: OnceLock::new(),
            received: AtomicU64::new(0),
            down_at: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            gave_up: AtomicBool::new(false),
            closes_at: AtomicU64::new(u64::MAX),
        }
    }
}

impl ClientTask {
    /// Polls what opens a session, and returns the task that it has spawned on an I/O thread. Elsewhere nobody
    /// looks after the task.
    pub(crate) async fn of<T>(opening: impl Future<Output = T>) -> (T, Arc<ClientTask>) {
        let (mut opening, mut spawned) = (pin!(opening), None);
        let opened = poll_fn(|cx| {
            SPAWNED.take();
            let polled = opening.as_mut().poll(cx);
            spawned = SPAWNED.take().or(spawned.take());
            polled
        })
        .await;
        (opened, spawned.unwrap_or_default())
    }

    /// The session is open. The library leaves a connection that is silent for the time `leave`.
    pub(crate) fn serves(
        &self,
        session_timeout: Duration,
        leave: Duration,
        is_connected: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        self.received.fetch_max(self.now(), Ordering::AcqRel);
        let (silence, gives_up) =
            (nanos(times::silent(leave)), nanos(times::give_up(session_timeout)));
        let is_connected = Box::new(is_connected);
        let _ = self.serving.set(Serving { is_connected, silence, gives_up });
    }

    /// The time, in nanoseconds after the start.
    pub(crate) fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    /// What was asked for at this time was answered.
    pub(crate) fn answered(&self, asked: u64) {
        self.received.fetch_max(asked, Ordering::AcqRel);
        self.answered.fetch_max(asked, Ordering::AcqRel);
    }

    /// Whether the session was given up, as the client library does when it has reached no server for long.
    pub(crate) fn gave_up(&self) -> bool {
        self.gave_up.load(Ordering::Acquire)
    }

    /// Why the session is over, if the client library does not report it.
    pub(crate) fn over(&self) -> &watch::Sender<Option<Link>> {
        &self.over
    }

    /// The session is over, if nothing else has ended it.
    pub(crate) fn end(&self, why: Link) {
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert(why);
            first
        });
    }

    /// The session was closed: after this time the task ends, whoever keeps a reply.
    pub(crate) fn close_within(&self, limit: Duration) {
        let at = self.now().saturating_add(nanos(limit));
        self.closes_at.fetch_min(at, Ordering::AcqRel);
    }

    /// Whether it is not to be polled any more.
    fn is_spent(&self, now: u64) -> bool {
        let received = self.received.load(Ordering::Acquire);
        let gives_up = |serving: &Serving| now >= received.saturating_add(serving.gives_up);
        if self.serving.get().is_some_and(gives_up) {
            // In this order: whoever closes it meanwhile has given it up, or has closed it.
            self.end(Link::Expired);
            self.gave_up.store(true, Ordering::Release);
            return true;
        }
        now >= self.closes_at.load(Ordering::Acquire)
    }

    /// The task has been polled. A connection that has been silent for longer has been left by now.
    fn polled(&self, now: u64) {
        let Some(serving) = self.serving.get() else { return };
        let down_at = self.down_at.load(Ordering::Acquire);
        if !(serving.is_connected)() {
            self.down_at.store(now.max(1), Ordering::Release);
        } else if down_at == 0 || self.answered.load(Ordering::Acquire) > down_at {
            self.received.fetch_max(now.saturating_sub(serving.silence), Ordering::AcqRel);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The task as an I/O thread runs it.
pub(crate) fn watched(
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let task = Arc::new(ClientTask::default());
    SPAWNED.set(Some(task.clone()));
    Box::pin(Watched { work, task })
}

struct Watched {
    work: Pin<Box<dyn Future<Output = ()> + Send>>,
    task: Arc<ClientTask>,
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.task.now();
        if self.task.is_spent(now) {
            return Poll::Ready(());
        }
        let polled = self.work.as_mut().poll(cx);
        if polled.is_pending() {
            self.task.polled(now);
        }
        polled
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // It can no longer close its session, which will expire.
        self.task.end(Link::Expired);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::atomic::AtomicU32;
    use std::task::Waker;

    const T: Duration = Duration::from_secs(10);
    const LEAVE: Duration = Duration::from_secs(2);

    fn poll(watched: &mut (impl Future<Output = ()> + Unpin)) -> Poll<()> {
        Pin::new(watched).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// A task that began so long ago, and whether it is connected.
    fn begun(ago: Duration) -> (Watched, Arc<AtomicBool>, Arc<AtomicU32>) {
        let task = ClientTask { start: Instant::now() - ago, ..ClientTask::default() };
        let (connected, polls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
        let (is_connected, counted) = (connected.clone(), polls.clone());
        task.serves(T, LEAVE, move || is_connected.load(Ordering::Acquire));
        task.received.store(0, Ordering::Release);
        let work = poll_fn(move |_| {
            counted.fetch_add(1, Ordering::AcqRel);
            Poll::Pending
        });
        (Watched { work: Box::pin(work), task: Arc::new(task) }, connected, polls)
    }

    #[test]
    fn who_has_received_nothing_for_too_long_is_not_polled_again() {
        for (ago, is_over) in [(T, false), (T * 13 / 10, false), (T * 7 / 5, true)] {
            let (mut watched, connected, polls) = begun(ago);
            connected.store(false, Ordering::Release);
            assert_eq!((poll(&mut watched).is_ready(), ago), (is_over, ago));
            assert_eq!(polls.load(Ordering::Acquire), u32::from(!is_over));
        }
    }

    #[test]
    fn who_is_connected_goes_on_and_begins_to_count_when_it_is_not() {
        let (mut watched, connected, _) = begun(T * 13 / 10);
        assert!(poll(&mut watched).is_pending());
        connected.store(false, Ordering::Release);
        // A connection is left after that silence at the latest.
        let received = watched.task.received.load(Ordering::Acquire);
        let ago = watched.task.now() - received;
        assert!(ago >= (LEAVE * 9 / 8).as_nanos() as u64, "{ago}");
        let now = |later: Duration| received + later.as_nanos() as u64;
        assert!(!watched.task.is_spent(now(T * 13 / 10)));
        assert!(watched.task.is_spent(now(T * 7 / 5)));
        watched.task.answered(watched.task.now());
        assert!(!watched.task.is_spent(now(T * 7 / 5)));
        assert!(watched.task.gave_up());
    }

    /// A server has let the session in, and the connection broke just then.
    #[test]
    fn who_has_answered_nothing_since_the_reconnect_is_not_believed_to_be_connected() {
        let (mut watched, connected, _) = begun(T * 13 / 10);
        connected.store(false, Ordering::Release);
        assert!(poll(&mut watched).is_pending());
        connected.store(true, Ordering::Release);
        assert!(poll(&mut watched).is_pending());
        assert_eq!(watched.task.received.load(Ordering::Acquire), 0);
        // Nor by what was asked for before.
        let believed = |watched: &mut Watched, ago: Duration| {
            watched.task.answered(watched.task.now() - nanos(ago));
            watched.task.received.store(0, Ordering::Release);
            assert!(poll(watched).is_pending());
            watched.task.received.load(Ordering::Acquire) > 0
        };
        assert!(!believed(&mut watched, LEAVE));
        std::thread::sleep(Duration::from_millis(1));
        assert!(believed(&mut watched, Duration::ZERO));
    }

    #[test]
    fn who_is_closed_ends_although_a_reply_is_kept() {
        let (mut watched, _, polls) = begun(Duration::ZERO);
        watched.task.close_within(T);
        assert!(poll(&mut watched).is_pending());
        watched.task.close_within(Duration::ZERO);
        assert!(poll(&mut watched).is_ready());
        assert_eq!(polls.load(Ordering::Acquire), 1);
    }

    #[test]
    fn whatever_ends_a_task_its_session_is_over() {
        for (told, expected) in [(None, Link::Expired), (Some(Link::Closed), Link::Closed)] {
            let (watched, ..) = begun(Duration::ZERO);
            let task = watched.task.clone();
            if let Some(why) = told {
                task.end(why);
            }
            drop(watched);
            assert_eq!(*task.over().borrow(), Some(expected));
        }
    }

    #[test]
    fn who_opens_a_session_gets_the_task_that_it_spawned() {
        let other = watched(Box::pin(pending()));
        let mut kept = None;
        let opening = poll_fn(|_| {
            kept.get_or_insert_with(|| watched(Box::pin(pending())));
            Poll::Ready(())
        });
        let ((), task) = futures_lite::future::block_on(ClientTask::of(opening));
        drop(other);
        assert_eq!(*task.over().borrow(), None);
        drop(kept);
        assert_eq!(*task.over().borrow(), Some(Link::Expired));
        let ((), none) = futures_lite::future::block_on(ClientTask::of(async {}));
        assert_eq!(*none.over().borrow(), None);
    }
}
