//! Holding a lock, and letting go of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_lite::future::{or, zip};
use zklock_core::base::error::LockError;
use zklock_core::base::error_kind::ErrorKind;
use zklock_core::base::token::FencingToken;
use zklock_core::guard::downgrade::DowngradeError;
use zklock_core::guard::view::GuardView;
use zklock_core::lock::AnyGuard;

use super::nested::Inside;
use super::polls::{Cut, cut_off, nervously};
use super::task::{Count, Task};
use crate::rules::{self, Asking, Entry, Holding};

/// How many tasks wait for the end of one guard together.
const TOGETHER: u32 = 3;

impl Task {
    /// Notes that it has a guard, perhaps as the answer to a question.
    pub(super) fn note(
        &self,
        lock: usize,
        share: (u32, u32),
        view: GuardView,
        asking: Option<&Asking>,
    ) -> Holding {
        self.note_as(lock, share, view, asking, false)
    }

    /// Notes that it has a guard that it had before, in another form.
    fn note_again(&self, lock: usize, share: (u32, u32), view: GuardView) -> Holding {
        self.note_as(lock, share, view, None, true)
    }

    fn note_as(
        &self,
        lock: usize,
        share: (u32, u32),
        view: GuardView,
        asking: Option<&Asking>,
        again: bool,
    ) -> Holding {
        let process = self.process.clone();
        let lock_has_permits = self.crew.locks[lock].has_permits();
        let who = self.acquirer();
        let entry = Entry { lock, share, process, view, lock_has_permits, again, who };
        self.crew.ledger.granted(&self.name, entry, asking)
    }

    /// Holds for some time, and lets go in one way or another.
    pub(super) async fn hold(
        &self,
        lock: usize,
        share: (u32, u32),
        guard: AnyGuard,
        asking: Asking,
    ) {
        let world = self.process.world();
        let (mut guard, mut share) = (guard, share);
        let mut holding = self.note(lock, share, guard.view(), Some(&asking));
        drop(asking);
        let watched = world.seldom(2, 200) == 1 && !matches!(guard, AnyGuard::Write(_));
        let first = holding.id();
        if watched {
            self.watch_end(&holding, guard.view());
        }
        let mut inside = None;
        if world.seldom(2, self.crew.profile.nests) == 1 {
            let beside = self.begin_beside(lock, guard.view());
            let (left, ()) = zip(self.nest(lock, guard, &mut inside), beside).await;
            match left {
                Some(left) => guard = left,
                None => return,
            }
        }
        let changes = if inside.is_some() { 500 } else { self.crew.profile.nests };
        let usual = self.crew.profile.steps_down && matches!(guard, AnyGuard::Write(_));
        if (world.seldom(2, changes) == 1) != usual {
            // Those who hold for long change what they hold late.
            let late = self.crew.profile.long > 500;
            self.sleep(if late { self.duration() * 2 / 3 } else { self.short() }).await;
            match guard {
                AnyGuard::Write(writer) => {
                    self.say(|| "downgrades".to_owned());
                    let until = self.crew.ledger.valid_until(holding.id());
                    let (view, owner) = (writer.view(), self.node_of(&writer.view()));
                    let (asked, begun) = (writer.is_revoked(), world.now());
                    let cut = self.cut(10);
                    // It is a reader at the earliest now: the room for others is theirs from then on.
                    drop(holding);
                    let nested = inside.as_ref().and_then(Inside::steps_down);
                    let answer = cut_off(world, writer.downgrade(), cut).await;
                    let Some(answer) = answer else {
                        self.say(|| "is dropped while it downgrades".to_owned());
                        // It goes on by itself, until it is known which of the two nodes is there.
                        self.crew.ledger.left_stepping_down(&view);
                        let left = self.part("step-down");
                        drop(self.crew.ledger.uses(&left.name, lock, &self.process));
                        if inside.is_none() {
                            self.expect_end(view);
                        }
                        return;
                    };
                    if let Some(nested) = nested {
                        let answer = answer.as_ref().map_err(|refused| refused.error().kind());
                        self.crew.ledger.check_step_down(&self.name, nested, answer);
                    }
                    match answer {
                        Ok(reader) => {
                            if asked && !reader.is_revoked() {
                                let what = format!(
                                    "{}: {} forgets who asked",
                                    self.name,
                                    reader.node_path()
                                );
                                self.crew.ledger.fail(rules::WISH, what);
                            }
                            share = (1, share.1);
                            if !reader.is_revoked() {
                                let path = reader.node_path();
                                self.crew.ledger.steps_down((lock, &self.process), path, begun);
                            }
                            holding = self.note(lock, share, reader.view(), None);
                            guard = AnyGuard::Read(reader);
                            if let Some(inside) = &inside {
                                inside.set_downgraded();
                            }
                            if self.crew.profile.deep && self.choose(2) == 1 {
                                let nest = self.nest_deep(lock, &guard).await;
                                inside = Some(Inside::Calls(nest));
                            }
                        }
                        Err(refused) if self.may_go_on(lock, &refused, &inside) => {
                            let writer = refused.into_guard();
                            holding = self.note_again(lock, share, writer.view());
                            guard = AnyGuard::Write(writer);
                            if let Some(inside) = &inside {
                                inside.goes_on();
                            } else {
                                self.ask_inside(&self.crew.locks[lock], &guard).await;
                            }
                        }
                        // With its guard it lets go, at once or after it has tried again.
                        Err(refused) if refused.error().kind() == ErrorKind::Lost => {
                            self.crew.ledger.check_lost(&self.process, lock, owner, until);
                            let again = self.choose(2) == 1;
                            let error = if again {
                                self.steps_down_lost(refused).await
                            } else {
                                Some(refused.into())
                            };
                            return error.iter().for_each(|error| self.judge(error, None));
                        }
                        Err(refused) => {
                            let (error, token) = (LockError::from(refused), view.fencing_token());
                            return self.judge_held(lock, token, &error);
                        }
                    }
                }
                AnyGuard::Permits(mut permits) if permits.permits() > 1 => {
                    let all = permits.permits();
                    let few = 1 + self.choose(all - 1);
                    self.say(|| format!("splits {few} off"));
                    drop(holding);
                    let lost = !permits.is_valid();
                    if let Some(part) = permits.split(few) {
                        let taken = few.min(share.0);
                        self.hold_part(lock, (taken, share.1), AnyGuard::Permits(part));
                        share.0 -= taken;
                    }
                    if lost && permits.is_valid() {
                        let what = format!("{}: {} is valid again", self.name, permits.node_path());
                        self.crew.ledger.fail(rules::FOR_GOOD, what);
                    }
                    holding = self.note_again(lock, share, permits.view());
                    guard = AnyGuard::Permits(permits);
                }
                other => guard = other,
            }
        }
        let told = (self.crew.profile.wakers > 0).then(|| self.watch_together(&guard));
        let long = self.duration();
        if world.choose(2) == 0 {
            holding.awaits();
            let lost = async {
                guard.lost().await;
                if guard.is_valid() {
                    let what = format!("{}: {} is valid", self.name, guard.node_path());
                    self.crew.ledger.fail(rules::LOST, what);
                }
            };
            or(self.sleep(long), lost).await;
            holding.is_told();
        } else {
            self.sleep(long).await;
        }
        let anew = self.crew.profile.anew && !guard.is_valid() && self.choose(4) > 0;
        if anew {
            let patient = inside.as_ref().is_none_or(Inside::is_given_up);
            self.begin_anew(lock, patient).await;
        }
        self.say(|| {
            let valid = if guard.is_valid() { "" } else { ", which is lost" };
            format!("lets go of {}{valid}", guard.node_path())
        });
        drop(holding);
        if let Some(inside) = &mut inside {
            inside.ends();
        }
        if watched && inside.is_none() {
            self.crew.ledger.ends(first, &self.process);
        }
        let told = told.filter(|_| inside.is_none());
        let (how, view) = (world.choose(3), guard.view());
        let alone = matches!(guard, AnyGuard::Mutex(_) | AnyGuard::Write(_))
            && inside.is_none()
            && self.crew.ledger.is_alone(lock, &self.process);
        if alone {
            self.crew.ledger.leaves(lock, self.node_of(&view));
        }
        // Those inside are known where they are in scopes.
        let plain = inside.is_none() || self.crew.profile.deep;
        match how {
            0 if alone => {
                let lost = !view.is_valid();
                let released = guard.release().await;
                self.says_lost(&view, lost, &released);
                // Who is told that the lock was lost is not told whether its node may be deleted.
                let lost = |error: &LockError| error.kind() == ErrorKind::Lost;
                if released.as_ref().map_or_else(lost, |()| true) {
                    let (path, czxid) = self.node_of(&view);
                    self.crew.ledger.check_released(&self.name, lock, (&path, czxid));
                }
            }
            0 if plain => {
                let (lost, begun) = (inside.is_none() && !view.is_valid(), world.now());
                let released = guard.release().await;
                self.says_lost(&view, lost, &released);
                let lost = |error: &LockError| error.kind() == ErrorKind::Lost;
                if released.as_ref().map_or_else(lost, |()| true) {
                    let here = (lock, &self.process);
                    self.crew.ledger.has_released(&self.name, here, self.node_of(&view), begun);
                }
            }
            0 => drop(guard.release().await),
            1 => drop(guard),
            _ => drop(cut_off(world, guard.release(), Cut::of(1 + world.choose(6))).await),
        }
        if let Some(told) = told {
            self.expect_told(told);
        }
    }

    /// Looks at an error of whoever has a guard.
    fn judge_held(&self, lock: usize, token: FencingToken, error: &LockError) {
        if error.is_held_too_long() && self.crew.ledger.may_be_held_too_long(lock, token) {
            return self.is_held_too_long(error);
        }
        self.judge(error, None);
    }

    /// Whoever releases what was lost before is told so.
    fn says_lost(&self, view: &GuardView, lost: bool, released: &Result<(), LockError>) {
        if lost && released.is_ok() {
            let what = format!("{}: {} was lost, and is released", self.name, view.node_path());
            self.crew.ledger.fail(rules::SAYS_LOST, what);
        }
    }

    /// Several tasks wait for the end of a guard together. How many of them are told.
    fn watch_together(&self, guard: &AnyGuard) -> Arc<AtomicU32> {
        let told = Arc::new(AtomicU32::new(0));
        for _ in 0..TOGETHER {
            let (task, told, view) = (self.part("watcher"), told.clone(), guard.view());
            self.process.spawn(async move {
                let world = task.process.world();
                nervously(world, view.lost(), task.crew.profile.wakers).await;
                told.fetch_add(1, Ordering::Relaxed);
            });
        }
        told
    }

    /// A guard has ended: all are told who wait for that together, whoever has a waker that panics.
    fn expect_told(&self, told: Arc<AtomicU32>) {
        let task = self.part("watcher");
        self.process.spawn(async move {
            let mut pauses = None;
            // Who stood still meanwhile has as long again.
            while pauses.replace(task.process.pauses()) != Some(task.process.pauses()) {
                task.sleep(task.crew.timeout).await;
            }
            let told = told.load(Ordering::Relaxed);
            if told < TOGETHER {
                let what = format!("{}: {told} of {TOGETHER} are told of the end", task.name);
                task.crew.ledger.fail(rules::ENDED, what);
            }
        });
    }

    /// The node of a guard.
    pub(super) fn node_of(&self, view: &GuardView) -> (String, i64) {
        (view.node_path().to_owned(), view.fencing_token().czxid() as i64)
    }

    /// Whether a writer that was to step down goes on writing: a call inside has it too, the server
    /// refuses the reader's node, or another program has its name.
    fn may_go_on(&self, lock: usize, refused: &DowngradeError, inside: &Option<Inside>) -> bool {
        match refused.error().kind() {
            ErrorKind::Deadlock => inside.is_some(),
            ErrorKind::Unauthorized => self.is_refused() && inside.is_none(),
            // Somebody deleted the reader's node, and made another one.
            ErrorKind::InvalidName => {
                let deleted = self.crew.ledger.store().deleted_at(lock);
                let lately =
                    deleted.is_some_and(|at| at + self.crew.timeout > self.process.world().now());
                lately && self.crew.locks[lock].layout.is_plain()
            }
            _ => false,
        }
    }

    /// A writer that was lost in a downgrade is lost in the next one, too.
    async fn steps_down_lost(&self, refused: DowngradeError) -> Option<LockError> {
        self.say(|| "is lost, and downgrades again".to_owned());
        let (what, error) = match refused.into_guard().downgrade().await {
            Ok(reader) => (format!("holds {}", reader.node_path()), None),
            Err(refused) if refused.error().kind() == ErrorKind::Lost => {
                let (error, writer) = (refused.error().clone(), refused.into_guard());
                let view = writer.view();
                self.says_lost(&view, true, &writer.release().await);
                return Some(error);
            }
            Err(refused) => (format!("{:#}", refused.error()), Some(refused.into())),
        };
        self.crew.ledger.fail(rules::FOR_GOOD, format!("{}: lost, and then {what}", self.name));
        error
    }

    /// Holds what was split off, in a task of its own.
    fn hold_part(&self, lock: usize, share: (u32, u32), part: AnyGuard) {
        let task = self.keeper("part");
        let using = self.crew.ledger.uses(&task.name, lock, &self.process);
        let running = Count::new(&self.crew, |crew| &crew.running);
        self.process.spawn(async move {
            let _counted = (using, running);
            let holding = task.note_again(lock, share, part.view());
            task.sleep(task.duration()).await;
            task.say(|| format!("lets go of {}", part.node_path()));
            drop(holding);
            drop(part.release().await);
        });
    }

    /// Waits for the end of a guard, in a task of its own.
    fn watch_end(&self, holding: &Holding, view: GuardView) {
        let (task, id) = (self.part("watcher"), holding.id());
        self.crew.ledger.expects_end(id);
        self.process.spawn(async move {
            let world = task.process.world();
            nervously(world, view.lost(), task.crew.profile.wakers).await;
            if !task.crew.ledger.told_of_end(id) && view.is_valid() {
                let what = format!("{}: {} is valid", task.name, view.node_path());
                task.crew.ledger.fail(rules::LOST, what);
            }
        });
    }

    /// A guard was dropped: who waits for its end is told, in a task of its own.
    fn expect_end(&self, view: GuardView) {
        let task = self.part("watcher");
        self.process.spawn(async move {
            let told = async {
                view.lost().await;
                true
            };
            let late = async {
                let mut pauses = None;
                // Who stood still meanwhile has as long again.
                while pauses.replace(task.process.pauses()) != Some(task.process.pauses()) {
                    task.sleep(task.crew.timeout).await;
                }
                false
            };
            if !or(told, late).await || view.is_valid() {
                let what = format!("{}: {} has not ended", task.name, view.node_path());
                task.crew.ledger.fail(rules::ENDED, what);
            }
        });
    }

    pub(super) fn short(&self) -> u64 {
        u64::from(self.process.world().choose(12)) * 2_000
    }

    /// Mostly short, sometimes about as long as a session lasts.
    pub(super) fn duration(&self) -> u64 {
        let world = self.process.world();
        match world.seldom(9, self.crew.profile.long) {
            0 => self.short(),
            long => self.crew.timeout / 4 * u64::from(long),
        }
    }
}
