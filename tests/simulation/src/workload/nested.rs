//! Asking for a lock again, by who has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_lite::future::zip;
use zklock_core::base::error::LockError;
use zklock_core::base::error_kind::ErrorKind;
use zklock_core::guard::context::carry;
use zklock_core::lock::{AnyGuard, AnyLock};

use super::deep::Nest;
use super::plan::{Family, LockPlan};
use super::polls::{Cut, cut_short};
use super::task::Task;
use crate::rules;

/// What may be left inside of a guard.
#[derive(Debug)]
pub(super) enum Inside {
    /// A call that another task makes, which is told when the writer around it is a reader.
    Call(Arc<AtomicBool>),
    /// Calls in calls.
    Calls(Nest),
}

impl Inside {
    /// The writer around it steps down. Whether that is certainly refused, or certainly not, if it is known.
    pub(super) fn steps_down(&self) -> Option<bool> {
        match self {
            Inside::Call(_) => None,
            Inside::Calls(nest) => nest.steps_down(),
        }
    }

    /// The writer around it has not stepped down.
    pub(super) fn goes_on(&self) {
        if let Inside::Calls(nest) = self {
            nest.goes_on();
        }
    }

    /// The guard around it goes.
    pub(super) fn ends(&mut self) {
        if let Inside::Calls(nest) = self {
            nest.ends();
        }
    }

    /// Whether all that its own task has is lost with the guard around it.
    pub(super) fn is_given_up(&self) -> bool {
        match self {
            Inside::Call(_) => true,
            Inside::Calls(nest) => nest.is_given_up(),
        }
    }

    /// The writer around it is a reader now.
    pub(super) fn set_downgraded(&self) {
        if let Inside::Call(downgraded) = self {
            downgraded.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether this is the lock of the guard, in a mode that its own includes.
fn is_again(guard: &AnyGuard, again: &AnyLock) -> bool {
    matches!(
        (guard, again),
        (AnyGuard::Mutex(_), AnyLock::Mutex(_))
            | (AnyGuard::Read(_), AnyLock::Read(_))
            | (AnyGuard::Write(_), AnyLock::Read(_) | AnyLock::Write(_))
    )
}

/// What needs no answer of a server takes less, in microseconds.
const AT_ONCE: u64 = 200;

/// Long enough for all that wait.
const PATIENT: Option<(Duration, u32)> = Some((Duration::from_secs(2), 1));

impl Task {
    /// Asks for the same lock in one way or another. Whoever lets go meanwhile has nothing left.
    pub(super) async fn nest(
        &self,
        lock: usize,
        guard: AnyGuard,
        inside: &mut Option<Inside>,
    ) -> Option<AnyGuard> {
        let plan = &self.crew.locks[lock];
        if self.crew.profile.deep && !plan.has_permits() {
            *inside = Some(Inside::Calls(self.nest_deep(lock, &guard).await));
            return Some(guard);
        }
        match self.choose(if self.crew.profile.rare { 7 } else { 5 }) {
            5 => self.ask_beside(plan, &guard).await,
            6 => self.ask_in_another_layout(plan, &guard).await,
            1 if plan.family != Family::Permits(0) => self.join(plan, &guard).await,
            2 => self.read_again(lock, &guard).await,
            3 => *inside = self.carry(lock, &guard),
            _ => self.ask_inside(plan, &guard).await,
        }
        Some(guard)
    }

    fn again(&self, plan: &LockPlan, wait: Option<(Duration, u32)>) -> Option<AnyLock> {
        plan.lock(self.process.world(), &self.session, wait).ok()
    }

    /// Whoever holds a lock has it again at once, to read also if it writes.
    pub(super) async fn ask_inside(&self, plan: &LockPlan, guard: &AnyGuard) {
        let Some(again) = self.again(plan, Some((Duration::from_millis(50), 1))) else { return };
        self.say(|| format!("asks for {} again, inside", plan.name));
        let may = is_again(guard, &again);
        // A reader never becomes a writer, and is told so before anybody is asked.
        let upgrades = matches!((guard, &again), (AnyGuard::Read(_), AnyLock::Write(_)));
        let cut = Cut::of(if self.choose(2) == 1 { 1 + self.choose(8) } else { 0 });
        let (world, start) = (self.process.world(), self.process.world().now());
        let inside = guard.scope(cut_short(world, again.acquire_tries(), cut)).await;
        let at_once = world.now() < start + AT_ONCE;
        if let Some(answer) = inside.as_ref().filter(|_| may) {
            self.check_again(plan, answer);
        }
        match inside {
            Some(Ok(inside)) if upgrades && guard.is_valid() => {
                let what =
                    format!("{}: {} writes inside of a reader", self.name, inside.node_path());
                self.crew.ledger.fail(rules::UPGRADE, what);
            }
            Some(Err(error))
                if upgrades
                    && guard.is_valid()
                    && !(at_once && error.kind() == ErrorKind::Deadlock) =>
            {
                let late = world.now() - start;
                let what = format!("{}: {error:#} to a reader, {late} µs late", self.name);
                self.crew.ledger.fail(rules::UPGRADE, what);
            }
            Some(Ok(inside)) => {
                self.sleep(self.short()).await;
                drop(inside);
            }
            Some(Err(error))
                if may && plan.is_reentrant() && guard.is_valid() && !error.is_unavailable() =>
            {
                let what = format!("{}: {} is held already: {error:#}", self.name, plan.name);
                self.crew.ledger.fail(rules::NESTED, what);
            }
            _ => {}
        }
    }

    /// Where the lock is not reentrant, who asks again inside is told so.
    fn check_again<T>(&self, plan: &LockPlan, answer: &Result<T, LockError>) {
        let refused = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Deadlock);
        if !plan.is_reentrant() && !refused {
            let what =
                answer.as_ref().err().map_or("it is granted".to_owned(), ToString::to_string);
            self.crew
                .ledger
                .fail(rules::NOT_AGAIN, format!("{}: {}: {what}", self.name, plan.name));
        }
    }

    /// Two calls inside, side by side.
    async fn join(&self, plan: &LockPlan, guard: &AnyGuard) {
        let (Some(one), Some(other)) = (self.again(plan, PATIENT), self.again(plan, PATIENT))
        else {
            return;
        };
        self.say(|| format!("asks for {} again, inside and twice", plan.name));
        let alone = |lock: &AnyLock| !matches!(lock, AnyLock::Read(_) | AnyLock::Permits(..));
        let exclusive = alone(&one) && alone(&other);
        let within = AtomicU32::new(0);
        let call = async |lock: AnyLock| {
            let answer = lock.acquire_tries().await;
            if is_again(guard, &lock) {
                self.check_again(plan, &answer);
            }
            if let Ok(inside) = answer {
                if within.fetch_add(1, Ordering::Relaxed) > 0 && exclusive {
                    let what = format!("{}: two at a time in {}", self.name, inside.node_path());
                    self.crew.ledger.fail(rules::NESTED, what);
                }
                self.sleep(self.short()).await;
                within.fetch_sub(1, Ordering::Relaxed);
                drop(inside);
            }
        };
        guard.scope(zip(call(one), call(other))).await;
    }

    /// Who reads is let in again, also before a writer that waits for it.
    async fn read_again(&self, lock: usize, guard: &AnyGuard) {
        let plan = &self.crew.locks[lock];
        let AnyGuard::Read(_) = guard else { return };
        // With a node of its own behind a waiting writer, it waits for itself, as `RwLock` says.
        if plan.is_fair() {
            return;
        }
        let wait = Some((Duration::from_millis(400), 1));
        let Some(AnyLock::Read(again)) = self.again(plan, wait) else { return };
        self.say(|| format!("reads {} again", plan.name));
        let start = self.process.world().now();
        match AnyLock::Read(again).acquire_tries().await {
            Ok(inside) => drop(inside.release().await),
            Err(error) => {
                let long = self.process.world().now() - start + self.crew.timeout;
                if error.is_busy() && guard.is_valid() && self.crew.ledger.quiet_for(long) {
                    let what = format!("{}: {} is read already", self.name, plan.name);
                    self.crew.ledger.fail(rules::NESTED, what);
                }
            }
        }
    }

    /// Another task asks, inside.
    fn carry(&self, lock: usize, guard: &AnyGuard) -> Option<Inside> {
        let plan = &self.crew.locks[lock];
        let again = self.again(plan, Some((Duration::from_millis(300), 1)))?;
        self.say(|| format!("lets another task ask for {}, inside", plan.name));
        let (task, inside) = (self.part("carried"), Arc::new(AtomicBool::new(false)));
        // Perhaps while the one around it is stepping down, which takes as long as an answer.
        let (downgraded, wait) = (inside.clone(), self.short() + u64::from(self.choose(4)) * 300);
        // Names recur in some layouts.
        let writer = guard.fencing_token().czxid();
        let using = self.crew.ledger.uses(&task.name, lock, &self.process);
        let inner_plan = plan.clone();
        let call = async move {
            let _using = using;
            task.sleep(wait).await;
            // If the lock is let go of meanwhile, the call takes it anew.
            let _asking = task.crew.ledger.may_hold(lock, &task.process);
            let Ok(inner) = again.acquire_tries().await else { return };
            let (valid, since) = (inner.is_valid(), task.process.world().now());
            for _ in 0..4 {
                let writes =
                    matches!(inner, AnyGuard::Write(_)) && inner.fencing_token().czxid() == writer;
                if writes && inner.is_valid() && downgraded.load(Ordering::Relaxed) {
                    let what = format!("{}: {} is a reader's by now", task.name, inner.node_path());
                    task.crew.ledger.fail(rules::NESTED, what);
                }
                let lost = valid && !inner.is_valid() && !inner_plan.stops_early();
                let long = task.process.world().now() - since + task.crew.timeout;
                let ends =
                    inner_plan.most().is_some() || task.crew.ledger.is_closing(&task.process);
                if lost && !ends && task.crew.ledger.quiet_for(long) {
                    let what = format!("{}: {} is lost, inside", task.name, inner.node_path());
                    task.crew.ledger.fail(rules::REASON, what);
                }
                task.sleep(2_000).await;
            }
            drop(inner);
        };
        let carried = guard.scope_sync(|| carry(call));
        self.process.spawn(carried);
        Some(Inside::Call(inside))
    }
}
