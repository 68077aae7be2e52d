//! What all locks with a name have in common: options, acquiring, reentrancy.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::acquire::acquire_loop::Target;
use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::deadline::Deadline;
use crate::base::error::{ErrorKind, LockError};
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::policy::Handoffs;
use crate::base::settings::Settings;
use crate::coordinator::traits::NodeKind;
use crate::guard::context::{self, Frame};
use crate::guard::typed::Guard;
use crate::guard::typed::kind::Kind;
use crate::guard::view::GuardView;
use crate::inspect::site::Site;
use crate::layout::driver::{LockDriver, check, is_same_layout, mixed};
use crate::local::grant::{Grant, Hold, Kept};
use crate::local::itself::{Perhaps, stuck};
use crate::local::queue::Queue;
use crate::local::state::{QueuePolicy, Waiter};
use crate::local::wait::{Patience, Wait};
use crate::local::wait_queue::Joined;
use crate::name::lock_name::LockName;
use crate::name::path::ZnodePath;
use crate::observe::spans::Acquiring;
use crate::session::handle::Session;
use crate::session::slow::Slow;

/// A lock with a name, which is acquired in a mode. Its clones share their contents: ten thousand
/// waiting tasks have one clone each.
#[derive(Clone, Debug)]
pub struct NamedLock(Arc<Shared>);

#[derive(Clone, Debug)]
struct Shared {
    session: Session,
    name: LockName,
    directory: ZnodePath,
    settings: Settings,
    /// What is wrong with its options.
    flaw: Option<LockError>,
    label: Option<Arc<str>>,
    driver: Arc<dyn LockDriver>,
    queue: OnceLock<Arc<Queue>>,
}

impl NamedLock {
    /// A lock that is acquired in this mode, with those default options of its session that the mode
    /// supports.
    pub fn new(session: &Session, name: LockName, mode: Mode) -> Self {
        let directory = name.under(session.root());
        let settings = session.settings().of_session(mode);
        let (session, driver) = (session.clone(), session.driver().clone());
        let (flaw, label, queue) = (None, shared_label(&settings), OnceLock::new());
        let shared = Shared { session, name, directory, settings, flaw, label, driver, queue };
        NamedLock(Arc::new(shared))
    }

    /// Sets options of a lock that is acquired in this mode.
    pub fn with_options(mut self, options: &LockOptions, mode: Mode) -> Self {
        let shared = Arc::make_mut(&mut self.0);
        shared.settings = shared.settings.with(options);
        shared.label = shared_label(&shared.settings);
        let checked = shared.settings.check(mode, shared.session.settings());
        shared.flaw = checked.err().map(|error| error.on(shared.name.to_shared()));
        shared.queue = OnceLock::new();
        self
    }

    /// Sets the layout, which must support these modes.
    pub fn with_driver(
        mut self,
        driver: Arc<dyn LockDriver>,
        modes: &[Mode],
    ) -> Result<Self, LockError> {
        for mode in modes {
            check(&*driver, *mode).map_err(|error| error.on(self.0.name.to_shared()))?;
        }
        let shared = Arc::make_mut(&mut self.0);
        (shared.driver, shared.queue) = (driver, OnceLock::new());
        Ok(self)
    }

    /// The queue of this lock, to look at.
    pub fn site(&self) -> Site {
        Site::new(&self.0.session, self.0.name.clone(), self.0.driver.clone())
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.0.session
    }

    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        &self.0.name
    }

    /// The path of its directory.
    pub fn path(&self) -> &str {
        self.0.directory.as_str()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// A wait for replies only, not for other contenders. Refused with `linger`: to a try in
    /// another process, a lingering node looks held.
    pub fn once(&self) -> Result<Wait, LockError> {
        if self.0.settings.linger.is_zero() {
            return Ok(Wait::once(&self.0.settings));
        }
        let why = "a lock with `linger` cannot be tried: its idle node looks held to tries in \
                   other processes; use `acquire_timeout`, or remove `linger`";
        Err(self.error(ErrorKind::InvalidOption, why))
    }

    /// A wait of at most `timeout`.
    pub fn within(&self, timeout: Duration) -> Result<Wait, LockError> {
        Wait::within(timeout).map_err(|error| error.on(self.0.name.to_shared()))
    }

    /// A wait with the tries of the options.
    pub fn tries(&self) -> Wait {
        Wait::tries(&self.0.settings)
    }

    /// Whether a call around the caller holds this lock, in this mode or one that includes it.
    pub fn is_held_here(&self, mode: Mode) -> bool {
        context::find(|grant| self.is_of(grant)).is_some_and(|frame| {
            let includes = includes(frame.grant().mode(), mode);
            includes && GuardView::of_one(&frame).is_valid()
        })
    }

    fn is_of(&self, grant: &Grant) -> bool {
        let queue = grant.queue();
        queue.session().id() == self.0.session.id()
            && queue.path() == self.path()
            && grant.mode() != Mode::Permit
    }

    /// Acquires the lock, nested or in the queue.
    pub async fn enter<K: Kind>(
        &self,
        who: Caller,
        patience: impl Patience,
        unscoped: bool,
    ) -> Result<Guard<K>, LockError> {
        if let Some(flaw) = &self.0.flaw {
            return Err(flaw.clone());
        }
        let how = patience.how();
        let started = self.0.session.clock().now();
        // All that is kept of `how` while it waits.
        let began = (started, patience.one_try());
        let joined = match self.way_in(who, (how, started), unscoped) {
            WayIn::Usual(joined) => joined,
            WayIn::Rare(rare) => return self.ended(rare.await, began),
        };
        let result = patience.wait(joined).await.and_then(|hold| self.guard(hold, unscoped));
        self.ended(result, began)
    }

    /// Tells the observers how an acquire ended.
    fn ended<K: Kind>(
        &self,
        result: Result<Guard<K>, LockError>,
        began: (Instant, impl Into<Option<Duration>>),
    ) -> Result<Guard<K>, LockError> {
        if let Ok(guard) = &result {
            guard.begin_span();
        }
        let end = || result.as_ref().map(Guard::as_granted).map_err(LockError::clone);
        self.0.session.tell_end((&self.0.name, K::MODE), end, began);
        result
    }

    fn way_in<K: Kind>(
        &self,
        who: Caller,
        (how, started): (Wait, Instant),
        unscoped: bool,
    ) -> WayIn<'_, K> {
        let around = context::current();
        let began = (started, how.one_try());
        let span = Acquiring::begin((&self.0.name, K::MODE), self.0.session.clock(), began);
        if let Some(frame) = context::find_in(&around, |grant| self.is_of(grant)) {
            let nesting = self.nest(frame, who, (how, started), unscoped);
            return WayIn::Rare(traced(span, nesting));
        }
        let (joined, perhaps) = self.join(who, around, K::MODE, how, started);
        let limit = self.0.settings.warn_waiting;
        let warns = limit < Duration::MAX && matches!(joined, Joined::Waits(_));
        if perhaps.is_none() && span.is_none() && !warns {
            return WayIn::Usual(joined);
        }
        let (lock, label) = (self.0.name.to_shared(), self.0.label.clone());
        let slow = Slow { lock, who, label, since: started, limit };
        let waiting = async move {
            let waiting = async {
                match perhaps {
                    None => how.wait(joined).await,
                    Some(perhaps) => perhaps.tell(who, how.wait(joined)).await,
                }
            };
            let granted = slow.waiting(self.0.session.clock(), waiting).await;
            granted.and_then(|hold| self.guard(hold, unscoped))
        };
        WayIn::Rare(traced(span, waiting))
    }

    /// Takes a place in the queue. The result also says whether this may be a wait for oneself.
    fn join(
        &self,
        who: Caller,
        around: Option<Arc<Frame>>,
        mode: Mode,
        how: Wait,
        since: Instant,
    ) -> (Joined<Queue>, Option<Perhaps>) {
        let (once, queue_policy, label) =
            (how.is_once(), self.queue_policy(), self.0.label.clone());
        let is_own = context::is_own(who, &around);
        let who = context::scoped(who, &around);
        let waiting = Waiter { who, mode, since, once, queue_policy, label, ahead: 0 };
        let joined = match self.has_own_nodes() {
            true => self.own_queue().map(|queue| queue.join(waiting, is_own)),
            false => self.queue().map(|queue| queue.join(waiting, is_own)),
        };
        joined.unwrap_or_else(|error| (Joined::Refused(error), None))
    }

    fn guard<K: Kind>(&self, hold: Hold, unscoped: bool) -> Result<Guard<K>, LockError> {
        let granted = Guard::granted(hold, &self.0.settings, unscoped);
        granted.map_err(|error| error.on(self.0.name.to_shared()))
    }

    /// Acquires the lock inside a call that holds it, in turn with the siblings. If that call
    /// releases the lock meanwhile, the acquire joins the queue, with the rest of its time.
    async fn nest<K: Kind>(
        &self,
        frame: Arc<Frame>,
        who: Caller,
        (how, started): (Wait, Instant),
        unscoped: bool,
    ) -> Result<Guard<K>, LockError> {
        let mut next = Some(frame);
        while let Some(frame) = next {
            if let Some(guard) = self.take_turn(&frame, who, (how, started), unscoped).await? {
                return Ok(guard);
            }
            next = context::find(|grant| self.is_of(grant));
        }
        // The grant is checked at the present time, not at that of the call.
        let now = self.0.session.clock().now();
        let how = how.begun(started, now);
        let (joined, perhaps) = self.join(who, context::current(), K::MODE, how, now);
        let granted = match perhaps {
            None => how.wait(joined).await,
            Some(perhaps) => perhaps.tell(who, how.wait(joined)).await,
        };
        granted.and_then(|hold| self.guard(hold, unscoped))
    }

    /// Takes a turn inside a call that holds the lock; `None` if that call no longer holds it.
    async fn take_turn<K: Kind>(
        &self,
        frame: &Frame,
        who: Caller,
        (how, started): (Wait, Instant),
        unscoped: bool,
    ) -> Result<Option<Guard<K>>, LockError> {
        let held = frame.grant().queue().layout();
        if !is_same_layout(held, &*self.0.driver) {
            return Err(mixed(held, &*self.0.driver).on(self.0.name.to_shared()));
        }
        if !includes(frame.grant().mode(), K::MODE) {
            let why = "a call around this one holds it for reading, and a reader never becomes a \
                       writer: two readers that tried would wait for each other; acquire it for \
                       writing at first";
            return Err(self.error(ErrorKind::Deadlock, why));
        }
        if !self.0.settings.reentrant {
            let why = "a call around this one holds it, and it is not reentrant";
            return Err(self.error(ErrorKind::Deadlock, why));
        }
        let kept = if unscoped { Kept::ByGuard } else { Kept::InScope };
        let asked = frame.ask(who, K::MODE, kept);
        if !how.is_once() && asked.is_stuck(&who) {
            return Err(stuck().on(self.0.name.to_shared()));
        }
        let clock = self.0.session.clock().clone();
        let (own, busy) = (asked.own(who), || self.busy_inside(frame));
        let turn = async {
            let turn = match how {
                Wait::Forever => asked.turn().await,
                Wait::Once(_) => asked.turn_now(),
                Wait::Tries(timeout, tries) | Wait::Begun(_, timeout, tries) => {
                    let begun = if let Wait::Begun(at, ..) = how { at } else { started };
                    let end = begun + timeout.saturating_mul(tries);
                    let deadline = Deadline::at(clock.clone(), end);
                    deadline.bound(asked.turn()).await.ok().flatten()
                }
            };
            turn.ok_or_else(busy)
        };
        let turn = match own {
            None => turn.await?,
            Some(own) => {
                let perhaps = Perhaps::new(clock.clone(), self.0.name.to_shared(), own);
                perhaps.tell(who, turn).await?
            }
        };
        let Some(hold) = frame.hold_again() else { return Ok(None) };
        let view = GuardView::of_one(frame);
        if !frame.grant().lease().is_valid() || view.is_over_time() {
            return Err(view.lost_error());
        }
        if self.0.settings.is_revocable() {
            frame.grant().watch();
        }
        let nested = Guard::new(hold, Some(turn));
        let nested = nested.map_err(|error| error.on(self.0.name.to_shared()))?;
        let (at_most, around) = (self.0.settings.hold_at_most, frame.limit().cloned());
        Ok(Some(nested.limited(at_most, clock.now(), around)))
    }

    fn busy_inside(&self, frame: &Frame) -> LockError {
        let holder = frame.grant().queue().holder_here(None);
        let busy = self.error(ErrorKind::Busy, "by another call nested in the same scope");
        busy.held_by(holder)
    }

    fn error(&self, kind: ErrorKind, detail: &str) -> LockError {
        LockError::new(kind, detail).on(self.0.name.to_shared())
    }

    /// Whether every acquire has its own node: a lock with `hold_at_least` is not handed on. In a
    /// layout with a single node, only the queue of this process keeps an order.
    fn has_own_nodes(&self) -> bool {
        let is_queue = self.0.driver.kind() == NodeKind::EphemeralSequential;
        self.0.settings.fair && is_queue || !self.0.settings.hold_at_least.is_zero()
    }

    fn queue_policy(&self) -> QueuePolicy {
        let stop_at = self.0.settings.stop_at;
        if self.0.settings.fair || self.has_own_nodes() {
            return QueuePolicy { handoffs: Handoffs::NONE, linger: Duration::ZERO, stop_at };
        }
        let Settings { handoffs, linger, .. } = self.0.settings;
        QueuePolicy { handoffs, linger, stop_at }
    }

    /// The queue of this lock in this process, which is looked up once for this handle.
    fn queue(&self) -> Result<&Arc<Queue>, LockError> {
        match self.0.queue.get() {
            Some(queue) => Ok(queue),
            None => {
                let Settings { stop_at, vanished, .. } = self.0.settings;
                let queue = Queue::of(&self.0.session, self.target(), (stop_at, vanished))?;
                Ok(self.0.queue.get_or_init(|| queue))
            }
        }
    }

    /// A queue for a single acquire of a lock that is not handed on.
    fn own_queue(&self) -> Result<Arc<Queue>, LockError> {
        Queue::single(self.queue()?)
    }

    fn target(&self) -> Target {
        Target {
            lock: self.0.name.to_shared(),
            pattern: self.0.name.pattern_number(),
            directory: self.0.directory.clone(),
            beside: None,
            app: self.0.session.shared_app().cloned(),
            driver: self.0.driver.clone(),
            marks: self.0.settings.marks(),
            limit: None,
        }
    }
}

/// Waits inside the span of the acquire, if there is one.
fn traced<'a, K: Kind>(
    span: Option<Acquiring>,
    waiting: impl Future<Output = Result<Guard<K>, LockError>> + Send + 'a,
) -> Pin<Box<dyn Future<Output = Result<Guard<K>, LockError>> + Send + 'a>> {
    match span {
        None => Box::pin(waiting),
        Some(span) => Box::pin(span.around(waiting, |guard| Some(guard.as_granted()))),
    }
}

/// How an acquire waits. Rare cases are boxed, so that the future of a waiter stays small.
enum WayIn<'a, K: Kind> {
    /// In the queue.
    Usual(Joined<Queue>),
    /// Inside a call that holds the lock, or in the queue with a check for a wait for oneself, or with a
    /// warning.
    Rare(Pin<Box<dyn Future<Output = Result<Guard<K>, LockError>> + Send + 'a>>),
}

/// The label, if there is one, for the waiters of a handle.
pub fn shared_label(settings: &Settings) -> Option<Arc<str>> {
    (!settings.label.is_empty()).then(|| Arc::from(&*settings.label))
}

/// Whether a holder in one mode may act in another one.
fn includes(held: Mode, wanted: Mode) -> bool {
    held != Mode::Read || wanted == Mode::Read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_turned_away_by_somebody_who_went_meanwhile_is_told_at_once() {
        let session = Session::embedded();
        let lock = NamedLock::new(&session, LockName::new("a").unwrap(), Mode::Mutex);
        let (queue, start) = (lock.queue().unwrap().clone(), session.clock().now());
        let error = Wait::Once(Duration::from_secs(1)).wait(Joined::Busy(queue)).await.unwrap_err();
        assert!(error.is_busy(), "{error}");
        assert_eq!(session.clock().now(), start);
    }
}
