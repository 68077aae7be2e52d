//! What few do: breaking locks, names below names, drivers that panic, one lock through two handles.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zklock_core::base::error_kind::ErrorKind;
use zklock_core::base::mode::Mode;
use zklock_core::base::policy::StopAt;
use zklock_core::layout::contender::{Attempt, Contender};
use zklock_core::layout::{Curator, LockDriver, OneNode, Verdict};
use zklock_core::lock::{AnyGuard, AnyLock};

use super::plan::{Family, Layout, LockPlan};
use super::polls::cut_short;
use super::scares::scare;
use super::task::Task;
use crate::executor::World;
use crate::rules;

/// Longer than a lock is held, as a rule.
const WHILE: Duration = Duration::from_millis(300);

/// Curator's layout, by a driver that panics now and then.
struct Nervous(Arc<World>);

impl fmt::Debug for Nervous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nervous")
    }
}

impl LockDriver for Nervous {
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        Curator.prefix(attempt, mode)
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        Curator.parse(name)
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        if self.0.choose(4) == 1 {
            scare();
        }
        Curator.verdict(queue, mine)
    }
}

impl Task {
    pub(super) async fn do_what_few_do(&self, lock: usize) {
        match self.choose(4) {
            0 => self.break_it(lock).await,
            1 => self.ask_below(lock).await,
            2 => self.take_all().await,
            _ => self.ask_nervously().await,
        }
    }

    /// Breaks the lock of whoever held it when this task looked.
    async fn break_it(&self, lock: usize) {
        let plan = &self.crew.locks[lock];
        let asked = plan.lock(self.process.world(), &self.session, None);
        let Ok(AnyLock::Mutex(mutex)) = asked else { return };
        let site = mutex.site();
        let world = self.process.world();
        self.crew.ledger.inspects(lock, &self.process);
        let queue = cut_short(world, site.contenders(), self.cut(8)).await;
        self.crew.ledger.inspects(lock, &self.process);
        let Some(Ok(queue)) = queue else { return };
        let Some(holder) = queue.first().filter(|holder| !holder.here) else { return };
        self.sleep(self.short()).await;
        let (store, since) = (self.crew.ledger.store(), self.process.world().now());
        let path = format!("{}/{}", plan.directory(), holder.node);
        self.say(|| format!("breaks {path}"));
        store.deletes(lock);
        self.crew.ledger.breaks(&path, holder.czxid);
        let broken = cut_short(world, site.break_holder(holder), self.cut(8)).await;
        store.deletes(lock);
        self.say(|| format!("broke {path}: {broken:?}"));
        for other in store.ensemble().deleted_by(&path, &self.process, since) {
            // One that comes at this moment cannot be told apart where names recur; and two tasks of a
            // process may break one after the other.
            if !self.crew.ledger.is_aimed_at(other.czxid.unsigned_abs()) && other.born < since {
                let what = format!("{}: {path} of another one is deleted", self.name);
                self.crew.ledger.fail(rules::EXACT, what);
            }
        }
    }

    /// Takes a lock whose directory looks like a contender for another one.
    async fn ask_below(&self, lock: usize) {
        let plan = &self.crew.locks[lock];
        // A mark needs a directory that stays, which can only be made while nobody uses it.
        if plan.has_permits() || plan.rests() {
            return;
        }
        let name = match plan.layout {
            Layout::Curator if self.choose(2) == 1 => "leases/x-lease-0000000000",
            Layout::Kazoo if self.choose(2) == 1 => "00000000000000000000000000000000",
            Layout::Curator => "x-lock-0000000000",
            Layout::Kazoo => "x__lock__0000000000",
            _ => return,
        };
        let Ok(below) = self.session.mutex(format!("{}/{name}", plan.name)) else { return };
        if let Ok(guard) = below.acquire_timeout(WHILE).await {
            self.sleep(self.short()).await;
            drop(guard.release().await);
        }
    }

    /// Takes a lock whose driver may panic: nobody is worse off for that.
    async fn ask_nervously(&self) {
        let lock = self.session.mutex("nervous");
        let driver = Nervous(self.process.world().clone());
        let Ok(lock) = lock.map(|lock| lock.with_driver(driver)) else { return };
        if let Ok(guard) = lock.acquire_timeout(WHILE).await {
            self.sleep(self.short()).await;
            drop(guard.release().await);
        }
    }

    /// Asks for a mutex that it holds by a handle that does not share its node, outside of any scope.
    pub(super) async fn ask_beside(&self, plan: &LockPlan, guard: &AnyGuard) {
        let AnyGuard::Mutex(_) = guard else { return };
        if plan.family != Family::Mutex || plan.layout != Layout::Curator || plan.rests() {
            return;
        }
        let stop_at = if plan.stops_early() { StopAt::Lost } else { StopAt::Suspect };
        let options = plan.options.stop_at(stop_at).timeout(WHILE).retries(1);
        let Ok(beside) = self.session.mutex(plan.name) else { return };
        self.say(|| format!("asks for {} again, by another handle", plan.name));
        let start = self.process.world().now();
        let answer = beside.with_options(options).acquire_tries().await;
        let long = self.process.world().now() - start + self.crew.timeout;
        // Perhaps it has not been told yet.
        let broken = self.crew.ledger.store().meddled_at().is_some();
        match answer {
            Ok(other) if guard.is_valid() && other.is_valid() && !broken => {
                let what = format!("{}: has {} twice", self.name, plan.name);
                self.crew.ledger.fail(rules::EXCLUSION, what);
            }
            Err(error) if error.kind() == ErrorKind::Unauthorized && self.is_refused() => {}
            Err(error)
                if guard.is_valid()
                    && self.crew.ledger.quiet_for(long)
                    && !(error.is_busy() && format!("{error:#}").contains("itself")) =>
            {
                self.crew.ledger.fail(rules::ITSELF, format!("{}: {error:#}", self.name));
            }
            _ => {}
        }
    }

    /// Asks for a mutex that it holds in another session of its process, in a layout that does not exclude
    /// the one in use.
    pub(super) async fn ask_in_another_layout(&self, plan: &LockPlan, guard: &AnyGuard) {
        let AnyGuard::Mutex(_) = guard else { return };
        let sound = self.crew.profile.faults == 0;
        if !sound || plan.family != Family::Mutex || plan.layout != Layout::Curator {
            return;
        }
        let Some((session, label)) = self.another_session() else { return };
        self.say(|| format!("asks for {} in another layout", plan.name));
        let lock = session.mutex(plan.name).map(|lock| lock.with_driver(OneNode));
        if let Ok(lock) = lock
            && let Ok(other) = lock.acquire_timeout(WHILE).await
            && other.is_valid()
            && guard.is_valid()
        {
            let what = format!("{}: has {} in two layouts", self.name, plan.name);
            self.crew.ledger.fail(rules::LAYOUTS, what);
        }
        self.close(session, label).await;
    }
}
