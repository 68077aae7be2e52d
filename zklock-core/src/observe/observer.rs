//! Events for metrics and logs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::base::error::{Holder, LockError};
use crate::base::session_state::SessionState;
use crate::base::token::FencingToken;

/// Something that happened to a lock or to its session.
///
/// ```
/// use zklock::Event;
///
/// fn line(event: &Event) -> Option<String> {
///     match event {
///         Event::Acquired { lock, waited, .. } => Some(format!("{lock} after {waited:?}")),
///         Event::Lost { lock } => Some(format!("{lock} lost")),
///         _ => None,
///     }
/// }
/// assert_eq!(line(&Event::Lost { lock: "orders".into() }).as_deref(), Some("orders lost"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The session's state changed.
    State {
        /// The new state.
        state: SessionState,
    },
    /// A lock was granted.
    Acquired {
        /// Its name.
        lock: Arc<str>,
        /// The token of the grant.
        token: FencingToken,
        /// How long the caller had waited.
        waited: Duration,
    },
    /// One of several tries ended without the lock; the place in the queue is kept.
    TryEnded {
        /// The lock's name.
        lock: Arc<str>,
        /// Which try it was, from 1.
        number: u32,
        /// Who holds it, if ZooKeeper could say so in time.
        holder: Option<Holder>,
    },
    /// An acquire ended without the lock.
    NotAcquired {
        /// The lock's name.
        lock: Arc<str>,
        /// Why.
        error: LockError,
    },
    /// A lock was released. If `error` is `None` it was handed to the next of this process, or its
    /// node is deleted (after a drop, is being deleted), or the node stays for the rest of its
    /// [shortest hold](crate::base::options::LockOptions::hold_at_least).
    Released {
        /// The lock's name.
        lock: Arc<str>,
        /// Why the deletion is not yet confirmed; the releaser goes on trying.
        error: Option<LockError>,
    },
    /// A lock was lost while it was held.
    Lost {
        /// Its name.
        lock: Arc<str>,
    },
    /// Somebody asked the holder of a lock to let go.
    Revoked {
        /// The lock's name.
        lock: Arc<str>,
    },
    /// The server refused for good to delete a node. It goes with its ZooKeeper session, which is
    /// closed when its last guard is gone; new acquires use a fresh one.
    StuckNode {
        /// The node's path.
        path: String,
        /// What the server said.
        error: LockError,
    },
    /// The server shows a node that its leader does not know, so its data are not those of the
    /// others, and stay so until somebody makes it fetch them anew. Its ZooKeeper session is closed
    /// when its last guard is gone; new acquires use a fresh one, on a server that does not show the
    /// node.
    Diverged {
        /// The node's path.
        path: String,
    },
    /// This observer was too slow to be told of everything: so many events before the next are
    /// missing.
    Dropped {
        /// How many.
        count: u64,
    },
}

/// Receives the events of a session, one after the other, on a thread of its own: a slow observer
/// delays no lock. One that lags more than 4,096 events behind misses some, and is told how many by
/// [`Event::Dropped`]. One that panics is logged, and goes on with the next event.
///
/// ```
/// use zklock::{Event, Observer};
///
/// #[derive(Debug)]
/// struct CountLost(std::sync::atomic::AtomicUsize);
///
/// impl Observer for CountLost {
///     fn event(&self, event: &Event) {
///         if let Event::Lost { .. } = event {
///             self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         }
///     }
/// }
/// ```
pub trait Observer: Send + Sync + fmt::Debug + 'static {
    /// Is told what happened.
    ///
    /// ```
    /// use zklock::{Event, Observer};
    ///
    /// /// Prints what becomes of locks.
    /// #[derive(Debug)]
    /// struct Print;
    ///
    /// impl Observer for Print {
    ///     fn event(&self, event: &Event) {
    ///         println!("{event:?}");
    ///     }
    /// }
    /// Print.event(&Event::Lost { lock: "orders".into() });
    /// ```
    fn event(&self, event: &Event);
}

/// How many events an observer may lag behind before some are dropped.
const MOST_WAITING: usize = 4096;

/// Where a session's events go.
#[derive(Clone, Debug, Default)]
pub struct Events(Option<Arc<[Listener]>>);

/// One observer, on a thread of its own.
#[derive(Debug)]
struct Listener {
    sender: SyncSender<Event>,
    dropped: Arc<AtomicU64>,
}

impl Listener {
    fn start(observer: Arc<dyn Observer>) -> Option<Self> {
        let (sender, receiver) = sync_channel::<Event>(MOST_WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let missed = dropped.clone();
        let tell = move |event: &Event| {
            let told = catch_unwind(AssertUnwindSafe(|| observer.event(event)));
            if told.is_err() {
                tracing::error!(
                    ?observer,
                    ?event,
                    "an observer panicked; it goes on with the next event"
                );
            }
        };
        let deliver = move || {
            for event in receiver {
                let count = missed.swap(0, Ordering::AcqRel);
                if count > 0 {
                    tell(&Event::Dropped { count });
                }
                tell(&event);
            }
        };
        let thread = std::thread::Builder::new().name("zklock-observer".into()).spawn(deliver);
        if let Err(error) = &thread {
            tracing::warn!(%error, "no thread for the observer, it is told nothing");
        }
        thread.ok().map(|_| Listener { sender, dropped })
    }

    fn tell(&self, event: Event) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(event)
            && self.dropped.fetch_add(1, Ordering::AcqRel) == 0
        {
            tracing::warn!("an observer is too slow, and is not told of everything");
        }
    }
}

impl Events {
    /// Delivers to these observers.
    pub fn to(observers: impl IntoIterator<Item = Arc<dyn Observer>>) -> Self {
        let listeners: Vec<_> = observers.into_iter().filter_map(Listener::start).collect();
        Events((!listeners.is_empty()).then(|| listeners.into()))
    }

    /// Tells of an event, which is only made if somebody listens. Never waits.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        let Some(listeners) = &self.0 else { return };
        let event = event();
        if let Some((last, others)) = listeners.split_last() {
            others.iter().for_each(|listener| listener.tell(event.clone()));
            last.tell(event);
        }
    }
}
