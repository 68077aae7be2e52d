//! What all locks with a name have in common: options, acquiring, reentrancy.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_lite::future::or;

use crate::acquire::target::Target;
use crate::base::caller::Caller;
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::on_drop::OnDrop;
use crate::base::options::LockOptions;
use crate::base::policy::Handoffs;
use crate::base::settings::Settings;
use crate::coordinator::node::NodeKind;
use crate::guard::context::{self, Frame};
use crate::guard::kind::Kind;
use crate::guard::typed::Guard;
use crate::guard::view::GuardView;
use crate::layout::check::check;
use crate::layout::driver::LockDriver;
use crate::layout::refusals::mixed;
use crate::local::grant::{Grant, Kept};
use crate::local::itself::{Perhaps, stuck, telling};
use crate::local::lock_queue::{LockQueue, Locks};
use crate::local::queue::{InQueue, Joined, goes_on};
use crate::local::wait::{Patience, Wait};
use crate::local::waiter::{QueuePolicy, Waiter};
use crate::lock::info::{Asking, LockInfo, Waits};
use crate::name::lock_name::LockName;
use crate::session::handle::Session;

/// A lock with a name, which is acquired in a mode. Its clones share their contents: ten thousand
/// waiting tasks have one clone each.
#[derive(Clone, Debug)]
pub struct NamedLock(Arc<Shared>);

#[derive(Clone, Debug)]
struct Shared {
    info: LockInfo,
    queue: OnceLock<Arc<LockQueue>>,
}

impl Deref for NamedLock {
    type Target = LockInfo;

    fn deref(&self) -> &LockInfo {
        &self.0.info
    }
}

impl NamedLock {
    /// A lock that is acquired in this mode, with those default options of its session that the mode
    /// supports.
    pub fn new(session: &Session, name: LockName, mode: Mode) -> Self {
        let place = (name.path_under(session.root()), session.driver().clone());
        let info = LockInfo::new(session, name, mode, place);
        NamedLock(Arc::new(Shared { info, queue: OnceLock::new() }))
    }

    /// Sets options of a lock that is acquired in this mode.
    pub fn with_options(mut self, options: &LockOptions, mode: Mode) -> Self {
        let shared = Arc::make_mut(&mut self.0);
        shared.info.set(options, mode);
        shared.queue = OnceLock::new();
        self
    }

    /// Sets the layout, which must support these modes; `None` leaves it as it is.
    pub fn with_driver(mut self, driver: Option<Arc<dyn LockDriver>>, modes: &[Mode]) -> Self {
        let Some(driver) = driver else { return self };
        let shared = Arc::make_mut(&mut self.0);
        let flaw = modes.iter().find_map(|mode| check(&*driver, *mode).err());
        shared.info.misfit = flaw.map(|error| shared.info.on(error));
        (shared.info.driver, shared.queue) = (driver, OnceLock::new());
        self
    }

    /// Whether the innermost call around the caller that holds this lock does so in this mode, or in one that
    /// includes it. A writer further out does not count: a reader in it may run beside other readers.
    pub fn is_held_in_scope(&self, mode: Mode) -> bool {
        context::find(|grant| self.is_of(grant)).is_some_and(|frame| {
            let includes = includes(frame.own.mode, mode);
            includes && GuardView::of_one(&frame).is_valid()
        })
    }

    fn is_of(&self, grant: &Grant) -> bool {
        let queue = &grant.queue;
        queue.session().id() == self.session.id()
            && queue.path() == self.path()
            && grant.mode != Mode::Permit
    }

    /// Acquires the lock, nested or in the queue.
    pub async fn enter<K: Kind>(
        &self,
        who: Caller,
        patience: impl Patience,
        unscoped: bool,
    ) -> Result<Guard<K>, LockError> {
        if let Some(flaw) = self.flaw() {
            return Err(flaw.clone());
        }
        let since = self.session.clock().now();
        // All that is kept of how it waits.
        let began = (since, patience.one_try());
        let asking = Asking { who, wait: patience.to_wait(), since, unscoped };
        // Only the usual wait is outside of the match, whose value a waiter would keep.
        let joined = match self.way_in(asking) {
            WayIn::Usual(joined) => joined,
            WayIn::Rare(rare) => return self.ended(rare.await, began),
        };
        let result = patience.wait(joined).await.and_then(|hold| self.guard(hold, unscoped));
        self.ended(result, began)
    }

    fn way_in<K: Kind>(&self, asking: Asking) -> WayIn<'_, K> {
        let around = context::current();
        let span = self.span(K::MODE, &asking);
        if let Some(frame) = context::find_in(&around, |grant| self.is_of(grant)) {
            let nesting = self.nest(frame, asking);
            return WayIn::Rare(match span {
                None => Box::pin(nesting),
                Some(span) => Box::pin(span.around(nesting, |guard| Some(guard.as_granted()))),
            });
        }
        match self.waits(asking, span, self.join(asking, around, K::MODE)) {
            Waits::Usual(joined) => WayIn::Usual(joined),
            Waits::Rare(rare) => WayIn::Rare(Box::pin(async move {
                rare.await.and_then(|hold| self.guard(hold, asking.unscoped))
            })),
        }
    }

    /// Takes a place in the queue. The result also says whether this may be a wait for oneself.
    fn join(
        &self,
        Asking { who, wait, since, .. }: Asking,
        around: Option<Arc<Frame>>,
        mode: Mode,
    ) -> InQueue<Locks> {
        let own_nodes = self.has_own_nodes();
        let (once, label) = (wait.is_once(), self.label.clone());
        let queue_policy = self.queue_policy(own_nodes);
        let is_own = context::is_own(who, &around);
        let who = context::scoped(who, &around);
        let waiting = Waiter { who, wants: mode, since, once, queue_policy, label, ahead: 0 };
        match self.queue() {
            Ok(queue) if own_nodes => LockQueue::single(queue).join(waiting, is_own),
            Ok(queue) => queue.join(waiting, is_own),
            Err(error) => (Joined::Refused(error), None),
        }
    }

    /// Acquires the lock inside a call that holds it, in turn with the siblings. If that call
    /// releases the lock meanwhile, the acquire joins the queue, with the rest of its time.
    async fn nest<K: Kind>(
        &self,
        frame: Arc<Frame>,
        asking: Asking,
    ) -> Result<Guard<K>, LockError> {
        let mut next = Some(frame);
        while let Some(frame) = next {
            // The guard of this scope has gone, and what is nested in it refuses nobody: a call further out may hold
            // the lock, or none.
            if !self.lets_in(&frame, K::MODE) && frame.has_ended() {
                next = context::find_in(&frame.outer, |grant| self.is_of(grant));
                continue;
            }
            if let Some(guard) = self.take_turn(&frame, asking).await? {
                return Ok(guard);
            }
            next = context::find(|grant| self.is_of(grant));
        }
        // The grant is checked at the present time, not at that of the call.
        let Asking { who, wait, since: started, unscoped } = asking;
        let since = self.session.clock().now();
        let wait = wait.begun(started, since);
        let asking = Asking { wait, since, ..asking };
        let (joined, perhaps) = self.join(asking, context::current(), K::MODE);
        let granted = telling(perhaps, who, wait.wait(joined)).await;
        granted.and_then(|hold| self.guard(hold, unscoped))
    }

    /// Takes a turn inside a call that holds the lock; `None` if that call no longer holds it.
    async fn take_turn<K: Kind>(
        &self,
        frame: &Frame,
        Asking { who, wait, since, unscoped }: Asking,
    ) -> Result<Option<Guard<K>>, LockError> {
        let held = frame.own.grant.queue.layout();
        if !self.driver.is_same_layout(held) {
            return Err(self.on(mixed(held, &*self.driver)));
        }
        if !includes(frame.own.mode, K::MODE) {
            let why = "a call around this one holds it for reading, and a reader never becomes a \
                       writer: two readers that tried would wait for each other; acquire it for \
                       writing at first";
            return Err(self.error(ErrorKind::Deadlock, why));
        }
        if !self.settings.reentrant {
            let why = "a call around this one holds it, and it is not reentrant";
            return Err(self.error(ErrorKind::Deadlock, why));
        }
        let kept = if unscoped { Kept::ByGuard } else { Kept::InScope };
        let asked = frame.ask(who, K::MODE, kept);
        if !wait.is_once() && asked.is_stuck(&who) {
            return Err(self.on(stuck()));
        }
        let clock = self.session.clock().clone();
        let own = asked.own(who);
        let perhaps = own.map(|own| Perhaps::new(clock.clone(), self.name.to_shared(), own));
        let view = GuardView::of_one(frame);
        let turn = async {
            let turn = match wait {
                Wait::Forever => asked.turn().await,
                Wait::Once(_) => asked.turn_now(),
                Wait::Tries(timeout, tries) | Wait::Begun(_, timeout, tries) => {
                    let begun = if let Wait::Begun(at, ..) = wait { at } else { since };
                    let end = begun + timeout.saturating_mul(tries);
                    let deadline = Deadline::at(clock.clone(), end);
                    deadline.bound(asked.turn()).await.ok().flatten()
                }
            };
            turn.map(Some).ok_or_else(|| {
                if frame.own.grant.is_open() && !frame.own.grant.lease.is_valid() {
                    return view.lost_error();
                }
                let holder = frame.own.grant.queue.holder_here(None);
                let why = "by another call nested in the same scope";
                self.error(ErrorKind::Busy, why).held_by(holder)
            })
        };
        // A sibling may end only after this call.
        let lost = async {
            frame.own.grant.lost().await;
            if frame.own.grant.is_open() { Err(view.lost_error()) } else { Ok(None) }
        };
        // If this is dropped, the observers are told: no queue sees that this call gave up.
        let cancelled = OnDrop::new(|| {
            if goes_on() {
                return;
            }
            let lock = (self.name.to_shared(), self.name.pattern());
            self.session.tell_cancelled(lock, K::MODE, since);
        });
        let turn = telling(perhaps, who, or(turn, lost)).await;
        cancelled.disarm();
        let Some(turn) = turn?.and_then(|turn| turn.within(frame)) else { return Ok(None) };
        let Some(hold) = frame.own.grant.hold_again() else { return Ok(None) };
        if !frame.own.grant.lease.is_valid() || view.is_over_time() {
            return Err(view.lost_error());
        }
        if self.settings.is_revocable() {
            frame.own.grant.watch();
        }
        let mut nested = Guard::new(hold, Some(turn)).map_err(|error| self.on(error))?;
        let (at_most, around) = (self.settings.hold_at_most, frame.own.limit.clone());
        nested.limit_to(at_most, clock.now(), around);
        Ok(Some(nested))
    }

    /// Whether the guard of a scope does not refuse a call inside that wants this mode.
    fn lets_in(&self, frame: &Frame, mode: Mode) -> bool {
        includes(frame.own.mode, mode) && self.settings.reentrant
    }

    /// Whether every acquire has its own node: a lock with `hold_at_least` is not handed on. In a
    /// layout with a single node, only the queue of this process keeps an order.
    fn has_own_nodes(&self) -> bool {
        let is_queue = self.driver.kind() == NodeKind::EphemeralSequential;
        self.settings.fair && is_queue || !self.settings.hold_at_least.is_zero()
    }

    fn queue_policy(&self, own_nodes: bool) -> QueuePolicy {
        let stop_at = self.settings.stop_at;
        if self.settings.fair || own_nodes {
            return QueuePolicy { handoffs: Handoffs::NONE, linger: Duration::ZERO, stop_at };
        }
        let Settings { handoffs, linger, .. } = self.settings;
        QueuePolicy { handoffs, linger, stop_at }
    }

    /// The queue of this lock in this process, which is looked up once for this handle.
    fn queue(&self) -> Result<&Arc<LockQueue>, LockError> {
        match self.0.queue.get() {
            Some(queue) => Ok(queue),
            None => {
                let Settings { stop_at, requeue, .. } = self.settings;
                let (directory, driver) = (self.directory.clone(), self.driver.clone());
                let target = Target::new(&self.session, &self.name, directory, driver);
                let target = Target { marks: self.settings.marks(), ..target };
                let queue = LockQueue::of(&self.session, target, (stop_at, requeue))?;
                Ok(self.0.queue.get_or_init(|| queue))
            }
        }
    }
}

/// How an acquire waits.
enum WayIn<'a, K: Kind> {
    /// In the queue, with nothing to do meanwhile.
    Usual(Joined<Locks>),
    /// Inside a call that holds the lock, or in the queue with something to do meanwhile; boxed, so that
    /// the future of a waiter stays small.
    Rare(Pin<Box<dyn Future<Output = Result<Guard<K>, LockError>> + Send + 'a>>),
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
