//! Events for metrics and logs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use crate::base::error::{Holder, LockError};
use crate::base::mode::Mode;
use crate::base::pattern::Pattern;
use crate::base::session_state::SessionState;
use crate::base::token::FencingToken;
use crate::base::unharmed::unharmed;

/// How a caller was given a lock.
///
/// ```
/// use zklock::GrantedBy;
///
/// // It cost ZooKeeper nothing. A downgrade makes a node.
/// let is_cheap = |by: GrantedBy| matches!(by, GrantedBy::Handoff | GrantedBy::Scope);
/// assert!(is_cheap(GrantedBy::Scope) && !is_cheap(GrantedBy::Downgrade));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GrantedBy {
    /// By a node that was created for it in ZooKeeper.
    Node,
    /// By a caller of this process, which passed it on, or shares its node as another reader.
    Handoff,
    /// By a call around, which holds it.
    Scope,
    /// By its own caller, a writer that became a reader, which waited for nobody.
    Downgrade,
}

/// Why a lock was lost.
///
/// ```
/// use zklock::LossReason;
///
/// let is_our_network =
///     |reason: LossReason| matches!(reason, LossReason::Silence | LossReason::Suspect);
/// assert!(is_our_network(LossReason::Silence) && !is_our_network(LossReason::Deleted));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// No write was answered in time, so the lease ran out.
    Silence,
    /// The session became suspect, and the lock is lost at that point
    /// ([`StopAt::Suspect`](crate::base::policy::StopAt::Suspect)).
    Suspect,
    /// The ZooKeeper session ended: it expired, or was closed.
    SessionEnded,
    /// Somebody else deleted its node.
    Deleted,
    /// This process [broke](crate::inspect::Site::break_holder) it. What another process broke is
    /// [`Deleted`](LossReason::Deleted).
    Broken,
    /// A body ended because somebody asked for the release
    /// ([`OnRevoked::Cancel`](crate::base::cancel_policy::OnRevoked::Cancel)). The lock was held until
    /// then, and is released as usual: nobody else held it at the same time.
    Revoked,
}

/// An event of a lock or of its session. All variants may get further fields.
///
/// ```
/// use zklock::Event;
///
/// fn line(event: &Event) -> Option<String> {
///     match event {
///         Event::Acquired { lock, waited, .. } => Some(format!("{lock} after {waited:?}")),
///         Event::Lost { lock, reason, .. } => Some(format!("{lock} lost: {reason:?}")),
///         _ => None,
///     }
/// }
/// # let _ = line;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The session's state changed.
    #[non_exhaustive]
    State {
        /// The new state.
        state: SessionState,
    },
    /// A lock was granted. A writer that becomes a reader is [released](Event::Released), and directly
    /// after that the reader is granted the lock; nobody gets in between.
    #[non_exhaustive]
    Acquired {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The fencing token of the grant.
        token: FencingToken,
        /// The time that the caller waited.
        waited: Duration,
        /// The number of the try in which it was granted, from 1.
        tries: u32,
        /// The number of callers of this process that were ahead when it came, and of contenders in
        /// ZooKeeper that were ahead of its node at first; 0 if the lock was free.
        ahead: usize,
        /// How.
        by: GrantedBy,
    },
    /// A try of a call with a deadline ended without the lock. The place in the queue is kept, except after
    /// the last one. Calls that ask once (`try_acquire`), are nested, or are refused tell no try.
    #[non_exhaustive]
    TryEnded {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The number of the try, from 1.
        number: u32,
        /// The holder, if ZooKeeper answered in time.
        holder: Option<Holder>,
    },
    /// An acquire ended without the lock.
    #[non_exhaustive]
    NotAcquired {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The reason; for a busy lock, [`holder`](LockError::holder) is its holder.
        error: LockError,
        /// The time that the caller waited.
        waited: Duration,
    },
    /// A caller gave up its wait: the future of its acquire was dropped.
    #[non_exhaustive]
    Cancelled {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The time that the caller waited.
        waited: Duration,
    },
    /// A holder passed the lock to the next caller of this process, without a request.
    #[non_exhaustive]
    HandedOn {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The fencing token of the new grant; of several readers, that of the first.
        token: FencingToken,
    },
    /// A lock was released. If `error` is `None`, the lock has passed to the next waiter of this
    /// process, or its node is deleted (after a drop, is being deleted), or the node stays until
    /// the end of the [shortest hold](crate::base::options::LockOptions::hold_at_least).
    #[non_exhaustive]
    Released {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The fencing token of the grant.
        token: FencingToken,
        /// The time since the grant, up to the call of `release` or the drop. A nested call has the
        /// grant of the call around.
        held: Duration,
        /// Whether a call around still holds it.
        nested: bool,
        /// Why the server refused to delete the node. It is not tried again: the node goes with its
        /// ZooKeeper session.
        error: Option<LockError>,
    },
    /// The session is suspect, and so is this lock, which it holds: it is lost if the connection does
    /// not come back in time.
    #[non_exhaustive]
    Suspect {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The czxid of its node.
        czxid: u64,
        /// The fencing token, as in [`Lost`](Event::Lost).
        token: Option<FencingToken>,
    },
    /// A lock was lost while it was held.
    #[non_exhaustive]
    Lost {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The czxid of its node.
        czxid: u64,
        /// The fencing token of the latest grant under its node, which may have been released already: a
        /// node may be kept for the next caller. `None` if nobody was granted the lock yet. With
        /// [`LossReason::Revoked`], that of the caller whose body ended.
        token: Option<FencingToken>,
        /// The reason.
        reason: LossReason,
    },
    /// A lock was held for longer than its
    /// [`hold_at_most`](crate::base::options::LockOptions::hold_at_most). An async body is dropped,
    /// and the lock is released; a plain body holds the lock until it returns. The time of a writer
    /// that becomes a reader goes on, and it is told once that it is over.
    #[non_exhaustive]
    HeldTooLong {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The fencing token of the grant.
        token: FencingToken,
        /// The longest time.
        at_most: Duration,
    },
    /// Somebody asked the holder of a lock to release it.
    #[non_exhaustive]
    Revoked {
        /// The lock's name.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode.
        mode: Mode,
        /// The czxid of its node.
        czxid: u64,
        /// The fencing token, as in [`Lost`](Event::Lost).
        token: Option<FencingToken>,
    },
    /// A heartbeat was answered: the held nodes that it checked exist. There are none on an embedded
    /// coordinator.
    #[non_exhaustive]
    Heartbeat {
        /// The number of held nodes that were checked.
        nodes: usize,
        /// The time until the answer.
        took: Duration,
        /// The number of nodes on this connection that are to be deleted, and of directories that are being made or
        /// deleted, which the servers have not confirmed yet.
        undeleted: usize,
    },
    /// The server refused for good to delete a node, or to list the directory of one whose creation
    /// was not answered. The node is deleted when its ZooKeeper session ends, which is closed once
    /// its last guard is gone; new acquires use another ZooKeeper session.
    #[non_exhaustive]
    StuckNode {
        /// The lock's name; `None` of a node that was never held: its acquire was given up.
        lock: Option<Arc<str>>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name, where the name is known.
        pattern: Option<&'static str>,
        /// The mode, where the name is known.
        mode: Option<Mode>,
        /// The node's path, without its number if that is not known.
        path: String,
        /// The server's reason.
        error: LockError,
    },
    /// The server shows a node that its leader does not know: its data differ from those of the
    /// other servers, until an operator repairs it. New acquires use another ZooKeeper session, on
    /// a server that does not show the node; the old one is closed once its last guard is gone.
    #[non_exhaustive]
    Diverged {
        /// The name of the lock whose acquire found it.
        lock: Arc<str>,
        /// The [pattern](crate::name::lock_name::LockName::pattern) of its name.
        pattern: &'static str,
        /// The mode of that acquire.
        mode: Mode,
        /// The node's path.
        path: String,
    },
    /// This observer was too slow: this number of events was dropped. They are newer than those that it
    /// receives directly after this one, which were waiting for it at that time.
    #[non_exhaustive]
    Dropped {
        /// The number of dropped events.
        count: u64,
    },
}

/// How a lock was granted, for [`Event::Acquired`].
#[derive(Debug)]
pub struct Granted {
    /// The pattern of its name, as those have it who hold it.
    pub pattern: Pattern,
    /// The fencing token.
    pub token: FencingToken,
    /// The number of those who were ahead.
    pub ahead: u32,
    /// How.
    pub by: GrantedBy,
}

impl Event {
    /// A lock was granted so, after this time and number of tries.
    pub(crate) fn acquired(
        lock: Arc<str>,
        mode: Mode,
        Granted { pattern, token, ahead, by }: Granted,
        (waited, tries): (Duration, u32),
    ) -> Event {
        let (pattern, ahead) = (pattern.text(), ahead as usize);
        Event::Acquired { lock, pattern, mode, token, waited, tries, ahead, by }
    }
}

/// The number of tries that an acquire has begun after this time.
pub fn tries(waited: Duration, one_try: Option<Duration>) -> u32 {
    let over = one_try.map_or(0, |one| waited.as_nanos() / one.as_nanos().max(1));
    u32::try_from(over).unwrap_or(u32::MAX).saturating_add(1)
}

/// Receives the events of a session, one after the other, on a thread of its own, so that a slow
/// observer delays no lock. An observer that falls more than 4,096 events behind misses some, and
/// receives their number in [`Event::Dropped`]. A panic of an observer is logged, and the next
/// event is delivered.
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
    /// Called for each event.
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
    /// # let _ = Print;
    /// ```
    fn event(&self, event: &Event);
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn event(&self, event: &Event) {
        (**self).event(event);
    }
}

/// How many events an observer may be behind before events are dropped.
const MOST_WAITING: usize = 4096;

/// Delivers a session's events.
#[derive(Clone, Debug, Default)]
pub struct Events(Option<Arc<[Listener]>>);

/// One observer, with its thread.
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
                unharmed(|| {
                    tracing::error!(
                        ?observer,
                        ?event,
                        "an observer panicked; it still receives later events"
                    );
                });
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
            unharmed(|| {
                tracing::warn!(%error, "the system cannot start a thread for an observer, which \
                                    receives no events");
            });
        }
        thread.ok().map(|_| Listener { sender, dropped })
    }

    fn tell(&self, event: Event) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(event)
            && self.dropped.fetch_add(1, Ordering::AcqRel) == 0
        {
            // Whoever tells has more to do.
            unharmed(|| tracing::warn!("an observer is too slow, and misses events"));
        }
    }
}

impl Events {
    /// Delivers to these observers.
    pub fn to(observers: impl IntoIterator<Item = Arc<dyn Observer>>) -> Self {
        let listeners: Vec<_> = observers.into_iter().filter_map(Listener::start).collect();
        Events((!listeners.is_empty()).then(|| listeners.into()))
    }

    /// Whether there is an observer.
    #[inline]
    pub fn are_heard(&self) -> bool {
        self.0.is_some()
    }

    /// Delivers an event to all observers. The event is only created if there is an observer. Never
    /// blocks.
    #[inline]
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.are_heard() {
            self.tell_all(event());
        }
    }

    fn tell_all(&self, event: Event) {
        let Some(listeners) = &self.0 else { return };
        if let Some((last, others)) = listeners.split_last() {
            others.iter().for_each(|listener| listener.tell(event.clone()));
            last.tell(event);
        }
    }
}
