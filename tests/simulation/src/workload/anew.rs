//! Acquiring anew what was lost, by who has not let go of it yet.

use std::time::Duration;

use futures_lite::future::or;
use zklock_core::base::error::LockError;
use zklock_core::guard::view::GuardView;

use super::polls::cut_short;
use super::task::Task;
use crate::rules;

impl Task {
    /// While its other branch asks inside of what it holds, this one perhaps begins anew as soon as that is lost.
    pub(super) async fn begin_beside(&self, lock: usize, view: GuardView) {
        if !self.crew.profile.anew || self.choose(3) > 0 {
            return;
        }
        or(view.lost(), self.sleep(self.duration())).await;
        if !view.is_valid() {
            // The other branch may have detached what this one would wait for.
            self.begin_anew(lock, false).await;
        }
    }

    /// Acquires anew a lock that it has lost and not let go of: for as long as it takes, if it has nothing else that it
    /// would wait for.
    pub(super) async fn begin_anew(&self, lock: usize, patient: bool) {
        let (plan, world) = (&self.crew.locks[lock], self.process.world());
        if self.crew.ledger.is_closing(&self.process) {
            return;
        }
        // What is held for too long is not lost.
        let patient = patient && plan.most().is_none();
        let how = if patient { self.choose(6) } else { 5 };
        let timeout = Duration::from_millis([50, 300, 2_000][self.choose(3) as usize]);
        let Ok(asked) = plan.lock(world, &self.session, Some((timeout, 1))) else { return };
        let how = if how == 3 && plan.lingers { 4 } else { how };
        let share = plan.share(&asked);
        self.say(|| format!("begins anew with {}: {how}", plan.name));
        let most = match how {
            0..=2 => u64::MAX,
            3 => 0,
            _ => timeout.as_micros() as u64,
        };
        let asking = self.crew.ledger.asks(lock, &self.process, most);
        let alone = patient && self.crew.ledger.has_it_alone(lock, &self.process);
        let since = (self.process.nanos(), self.process.pauses());
        let answer = cut_short(world, Task::acquire(&asked, how), self.cut(12)).await;
        if how >= 3 {
            self.check_deadline(since, timeout);
        }
        match answer {
            Some(Ok(guard)) => {
                let holding = self.note(lock, share, guard.view(), Some(&asking));
                drop(asking);
                self.sleep(self.short()).await;
                drop(holding);
                drop(guard);
            }
            Some(Err(error)) => {
                drop(asking);
                if alone {
                    self.check_not_itself(&error);
                }
                self.judge_of(plan, &error, Some(how));
            }
            None => self.say(|| "is dropped".to_owned()),
        }
    }

    /// Who has nothing but what it lost does not wait for itself.
    fn check_not_itself(&self, error: &LockError) {
        if error.is_busy() && format!("{error:#}").contains("itself") {
            self.crew.ledger.fail(rules::KEPT_OUT, format!("{}: {error:#}", self.name));
        }
    }
}
