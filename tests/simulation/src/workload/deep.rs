//! Asking again and again, each time by who has it: two and three deep.
//!
//! Guards go in any order, are kept by other tasks, and outlive those in whose scope they were acquired.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_lite::future::zip;
use zklock_core::base::error_kind::ErrorKind;
use zklock_core::guard::context::carry;
use zklock_core::lock::{AnyGuard, AnyLock};

use super::plan::ROOM;
use super::polls::{Cut, cut_short};
use super::task::{Count, Task};
use crate::rules::{Asking, Holding, Inner};

/// How many calls there are inside of an outermost guard.
const CALLS: u32 = 9;

/// How deep they go.
const DEEPEST: usize = 3;

/// Where a call asks.
#[derive(Clone, Debug)]
struct Place {
    lock: usize,
    /// The scopes around it, the outermost first.
    around: Vec<u64>,
    /// How many more calls there may be.
    left: Arc<AtomicU32>,
    /// Whether it may wait for as long as it takes: not for what its own task has.
    patient: bool,
}

impl Place {
    /// The same in the scope of a guard.
    fn inside(&self, scope: u64) -> Self {
        let mut place = self.clone();
        place.around.push(scope);
        place
    }

    fn impatient(&self) -> Self {
        Place { patient: false, ..self.clone() }
    }

    /// Takes one of the calls.
    fn begins(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let deep = self.around.len() > DEEPEST;
        !deep && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// A guard that was acquired inside, with what is noted of it, which is dropped before it.
#[derive(Debug)]
struct Deep {
    lock: usize,
    noted: Inner,
    _holding: Option<Holding>,
    guard: AnyGuard,
    detached: bool,
    _asking: Asking,
}

impl Deep {
    /// Whether who acquired it is not to wait for it when it begins anew.
    fn is_given_up(&self) -> bool {
        !self.detached && !self.guard.is_valid()
    }
}

/// A guard around others, and those that were acquired inside of it and are still there.
#[derive(Debug)]
pub(super) struct Nest {
    outermost: Option<Inner>,
    left: Vec<Deep>,
}

impl Nest {
    /// The guard around the others steps down. Whether others hold the lock with it.
    pub(super) fn steps_down(&self) -> Option<bool> {
        self.outermost.as_ref().map(Inner::steps_down)
    }

    /// The guard around the others has not stepped down.
    pub(super) fn goes_on(&self) {
        if let Some(outermost) = &self.outermost {
            outermost.goes_on();
        }
    }

    /// The guard around the others goes.
    pub(super) fn ends(&mut self) {
        self.outermost = None;
    }

    /// Whether all others of its task are lost with it.
    pub(super) fn is_given_up(&self) -> bool {
        self.left.iter().all(Deep::is_given_up)
    }
}

type Calls<'a> = Pin<Box<dyn Future<Output = Vec<Deep>> + Send + 'a>>;

impl Task {
    /// Asks for the same lock inside, and there again.
    pub(super) async fn nest_deep(&self, lock: usize, guard: &AnyGuard) -> Nest {
        let outermost = self.crew.ledger.opens(self.acquirer(), (lock, &self.process), guard);
        let (around, calls) = (vec![outermost.id()], Arc::new(AtomicU32::new(CALLS)));
        let mut place = Place { lock, around, left: calls, patient: true };
        self.say(|| format!("nests in {}, as {}", guard.node_path(), outermost.id()));
        let mut left = Vec::new();
        for _ in 0..=self.choose(3) {
            left.extend(self.go_inside(&place, guard).await);
            place.patient = left.is_empty();
        }
        if self.choose(2) == 0 {
            for deep in std::mem::take(&mut left) {
                self.let_go_inside(deep).await;
            }
        }
        Nest { outermost: Some(outermost), left }
    }

    /// Calls in the scope of a guard: of this task, of another one, or two side by side. Returns the guards that they
    /// leave behind.
    fn go_inside<'a>(&'a self, place: &'a Place, guard: &'a AnyGuard) -> Calls<'a> {
        Box::pin(async move {
            match self.choose(6) {
                1 | 2 => {
                    self.carry_deep(place, guard);
                    self.sleep(self.short()).await;
                    Vec::new()
                }
                3 => {
                    // What one of them leaves behind is in the way of the other.
                    let place = place.impatient();
                    let both = zip(self.ask_deep(&place), self.ask_deep(&place));
                    let both = cut_short(self.process.world(), guard.scope(both), self.cut(40));
                    let (mut one, other) = both.await.unwrap_or_default();
                    one.extend(other);
                    one
                }
                5 => {
                    // Each of the two may leave something in the way of the other.
                    self.carry_deep(place, guard);
                    self.carry_deep(place, guard);
                    self.sleep(self.short()).await;
                    Vec::new()
                }
                _ => {
                    let call = guard.scope(self.ask_deep(place));
                    let left = cut_short(self.process.world(), call, self.cut(40)).await;
                    left.unwrap_or_default()
                }
            }
        })
    }

    /// Another task asks in the scope of a guard, perhaps when that has gone.
    fn carry_deep(&self, place: &Place, guard: &AnyGuard) {
        let (task, lock) = (self.part("carried"), place.lock);
        let using = self.crew.ledger.uses(&task.name, lock, &self.process);
        let running = Count::new(&self.crew, |crew| &crew.running);
        let place = Place { patient: true, ..place.clone() };
        let wait = self.short() * u64::from(1 + self.choose(3));
        self.say(|| format!("lets another task ask in {:?}", place.around.last()));
        let (inner, timid) = (self.part("carried"), !self.crew.profile.anew);
        let inside = async move {
            inner.sleep(wait).await;
            let mut left = inner.ask_deep(&place).await;
            while timid && !left.is_empty() {
                inner.let_go_inside(left.remove(0)).await;
            }
            left
        };
        let inside = guard.scope_sync(|| carry(inside));
        self.process.spawn(async move {
            let _counted = (using, running);
            let left = inside.await;
            task.outlast(left).await;
        });
    }

    /// Asks inside, and perhaps again inside of that. Returns what it leaves behind.
    async fn ask_deep(&self, place: &Place) -> Vec<Deep> {
        if !place.begins() || self.crew.ledger.is_closing(&self.process) {
            return Vec::new();
        }
        let (world, of) = (self.process.world(), (place.lock, &self.process));
        let timeout = Duration::from_millis([10, 50, 300][self.choose(3) as usize]);
        let how = if place.patient { self.choose(6) } else { 3 + self.choose(3) };
        let plan = &self.crew.locks[place.lock];
        // What lingers cannot be tried.
        let how = if how == 3 && plan.lingers { 4 } else { how };
        let Ok(asked) = plan.lock(world, &self.session, Some((timeout, 1))) else {
            return Vec::new();
        };
        self.say(|| {
            let mode = match &asked {
                AnyLock::Read(_) => " to read",
                AnyLock::Write(_) => " to write",
                _ => "",
            };
            format!("asks for {}{mode} in {:?}: {how}", plan.name, place.around)
        });
        let asking = self.crew.ledger.may_hold(place.lock, &self.process);
        let question = self.crew.ledger.asks_inside(of, &place.around, &asked);
        let since = (self.process.nanos(), self.process.pauses());
        let answer = cut_short(world, Task::acquire(&asked, how), self.cut(12)).await;
        if how >= 3 {
            self.check_deadline(since, timeout);
        }
        let Some(answer) = answer else {
            self.say(|| "is dropped, inside".to_owned());
            return Vec::new();
        };
        self.crew.ledger.check_answer(&self.name, &question, &answer);
        asking.has_answer();
        let guard = match answer {
            Ok(guard) => guard,
            Err(error) => {
                self.say(|| format!("{error:#}"));
                return Vec::new();
            }
        };
        let (noted, nested) = self.crew.ledger.enters(&self.name, of, &place.around, &guard);
        drop(question);
        let holding = (!nested).then(|| {
            // It is noted as one of several is: it says nothing of handoffs.
            self.crew.ledger.is_older(place.lock);
            let holding = self.note(place.lock, plan.share(&asked), guard.view(), None);
            self.crew.ledger.is_older(place.lock);
            holding
        });
        let place = place.inside(noted.id());
        let how = self.choose(12);
        let guard = match how {
            1 => guard.detach(),
            2 if nested => self.steps_down_inside(guard).await,
            _ => guard,
        };
        let (lock, detached) = (place.lock, how == 1);
        if detached {
            noted.is_detached();
        }
        let deep = Deep { lock, noted, _holding: holding, guard, detached, _asking: asking };
        self.stay(place, deep).await
    }

    /// A writer inside never becomes a reader: one around it writes.
    async fn steps_down_inside(&self, guard: AnyGuard) -> AnyGuard {
        let AnyGuard::Write(writer) = guard else { return guard };
        self.say(|| "is to step down, inside".to_owned());
        match writer.downgrade().await {
            Ok(reader) => {
                self.crew.ledger.check_step_down(&self.name, true, Ok(()));
                AnyGuard::Read(reader)
            }
            Err(refused) => AnyGuard::Write(refused.into_guard()),
        }
    }

    /// A writer inside that outlives all with which it was nested becomes a reader, which nothing is around.
    async fn step_down_alone(&self, deep: Deep) -> Deep {
        let writes = matches!(deep.guard, AnyGuard::Write(_)) && deep._holding.is_none();
        // Inside of a mutex it has the node of that, and is refused.
        let mixed = self.crew.locks[deep.lock].mixed && self.crew.profile.mixes < 1_000;
        let usual = self.crew.profile.steps_down;
        if !writes || mixed || !deep.noted.is_alone() || !usual && self.choose(3) != 1 {
            return deep;
        }
        let Deep { lock, noted, _holding, guard, detached, _asking } = deep;
        let AnyGuard::Write(writer) = guard else {
            return Deep { lock, noted, _holding, guard, detached, _asking };
        };
        self.say(|| format!("steps down, as {} and alone", noted.id()));
        // It is a reader at the earliest now: the room for others is theirs from then on.
        drop(noted);
        let (guard, _holding) = match writer.downgrade().await {
            Ok(reader) => {
                // As of any guard that was acquired inside, nothing is said of handoffs.
                self.crew.ledger.is_older(lock);
                let holding = self.note(lock, (1, ROOM), reader.view(), None);
                self.crew.ledger.is_older(lock);
                (AnyGuard::Read(reader), Some(holding))
            }
            Err(refused) => {
                let kind = refused.error().kind();
                if kind != ErrorKind::Unsupported || !self.crew.locks[lock].mixed {
                    self.crew.ledger.check_step_down(&self.name, false, Err::<(), _>(kind));
                }
                let writer = refused.into_guard();
                if !writer.is_valid() {
                    self.crew.ledger.lost_stepping_down(&writer);
                }
                (AnyGuard::Write(writer), None)
            }
        };
        let noted = self.crew.ledger.opens(self.acquirer(), (lock, &self.process), &guard);
        self.sleep(self.short()).await;
        Deep { lock, noted, _holding, guard, detached, _asking }
    }

    /// Holds a guard, and asks inside of it; then lets go of all that it has, in any order, or leaves it to others.
    async fn stay(&self, mut place: Place, deep: Deep) -> Vec<Deep> {
        let mut all = Vec::new();
        for _ in 0..self.choose(3) {
            all.extend(self.go_inside(&place, &deep.guard).await);
            place.patient &= all.is_empty();
        }
        self.sleep(self.long_inside()).await;
        all.push(deep);
        let mut left = Vec::new();
        while !all.is_empty() {
            let next = all.remove(self.choose(all.len() as u32) as usize);
            match self.choose(6) {
                1 => self.leave_to_another(next),
                2 => left.push(next),
                3 | 4 if self.crew.profile.anew => left.push(next),
                _ => self.let_go_inside(next).await,
            }
        }
        left
    }

    /// Another task keeps a guard for some time.
    fn leave_to_another(&self, deep: Deep) {
        let task = self.keeper("keeper");
        let running = Count::new(&self.crew, |crew| &crew.running);
        self.say(|| format!("leaves {} to another task", deep.noted.id()));
        self.process.spawn(async move {
            let _running = running;
            task.sleep(task.long_inside()).await;
            task.let_go_inside(deep).await;
        });
    }

    /// Keeps what was acquired in the scope of another task, outside of it, and begins anew if that is lost.
    async fn outlast(&self, left: Vec<Deep>) {
        let mut kept = Vec::new();
        for deep in left {
            kept.push(self.step_down_alone(deep).await);
        }
        if let Some(first) = kept.first() {
            self.sleep(self.long_inside()).await;
            let lost = !first.guard.is_valid();
            if lost && self.choose(4) > 0 {
                self.begin_anew(first.lock, kept.iter().all(Deep::is_given_up)).await;
            }
        }
        for deep in kept {
            self.let_go_inside(deep).await;
        }
    }

    /// How long a guard is held inside: when everything goes well again, others are to be served in time.
    fn long_inside(&self) -> u64 {
        let calm = self.crew.calm.load(Ordering::Relaxed);
        if calm { self.short() } else { self.duration() }
    }

    /// Lets go of a guard that was acquired inside, in one way or another.
    async fn let_go_inside(&self, deep: Deep) {
        let deep = self.step_down_alone(deep).await;
        self.say(|| format!("lets go of {}", deep.noted.id()));
        let Deep { noted, _holding, guard, _asking, .. } = deep;
        drop((noted, _holding));
        match self.choose(4) {
            1 => drop(guard.release().await),
            2 => {
                let cut = Cut::of(1 + self.choose(6));
                drop(cut_short(self.process.world(), guard.release(), cut).await);
            }
            _ => drop(guard),
        }
        if self.choose(2) == 1 {
            self.sleep(self.short()).await;
        }
    }
}
