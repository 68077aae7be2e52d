//! Holding a lock, and letting go of it.

use std::time::Duration;

use futures_lite::future::or;
use zklock_core::lock::AnyGuard;

use super::polls::for_polls;
use super::task::Task;
use crate::rules::{Entry, Holding};

impl Task {
    /// Notes that it has a guard.
    pub(super) fn note(&self, lock: usize, share: (u32, u32), guard: &AnyGuard) -> Holding {
        self.note_as(lock, share, guard, true)
    }

    fn note_as(&self, lock: usize, share: (u32, u32), guard: &AnyGuard, of_token: bool) -> Holding {
        let (view, process) = (guard.view(), self.process.clone());
        let lock_has_permits = self.crew.locks[lock].has_permits();
        let entry = Entry { lock, share, process, view, lock_has_permits, of_token };
        self.crew.ledger.granted(&self.name, entry)
    }

    /// Holds for some time, and lets go in one way or another.
    pub(super) async fn hold(&self, lock: usize, share: (u32, u32), guard: AnyGuard) {
        let world = self.process.world();
        let mut guard = guard;
        let mut holding = self.note(lock, share, &guard);
        if world.seldom(2, 200) == 1 {
            self.sleep(self.short()).await;
            match guard {
                AnyGuard::Write(writer) => {
                    self.say(|| "downgrades".to_owned());
                    // It is a reader at the earliest now: the room for others is theirs from then on.
                    drop(holding);
                    match writer.downgrade().await {
                        Ok(reader) => {
                            guard = AnyGuard::Read(reader);
                            holding = self.note_as(lock, (1, share.1), &guard, false);
                        }
                        // With its guard it lets go.
                        Err(error) => return self.judge(&error.into(), None),
                    }
                }
                other => guard = other,
            }
        }
        if world.seldom(2, 100) == 1 {
            self.nest(lock, &guard).await;
        }
        let long = self.duration();
        if world.choose(2) == 0 {
            holding.awaits();
            or(self.sleep(long), guard.lost()).await;
        } else {
            self.sleep(long).await;
        }
        self.say(|| {
            let valid = if guard.is_valid() { "" } else { ", which is lost" };
            format!("lets go of {}{valid}", guard.path())
        });
        drop(holding);
        match world.choose(3) {
            0 => drop(guard.release().await),
            1 => drop(guard),
            _ => drop(for_polls(guard.release(), Some(1 + world.choose(3))).await),
        }
    }

    /// Asks for the same lock inside.
    async fn nest(&self, lock: usize, guard: &AnyGuard) {
        let world = self.process.world();
        let plan = &self.crew.locks[lock];
        let wait = Some((Duration::from_millis(50), 1));
        let Ok(again) = plan.lock(world, &self.session, wait) else { return };
        self.say(|| format!("asks for {} again, inside", plan.name));
        let polls = (world.choose(2) == 1).then(|| 1 + world.choose(4));
        let inside = guard.scope(for_polls(again.acquire_tries(), polls)).await;
        if let Some(Ok(inside)) = inside {
            self.sleep(self.short()).await;
            drop(inside);
        }
    }

    pub(super) fn short(&self) -> u64 {
        u64::from(self.process.world().choose(12)) * 2_000
    }

    /// Mostly short, sometimes about as long as a session lasts.
    fn duration(&self) -> u64 {
        let world = self.process.world();
        match world.seldom(9, 100) {
            0 => self.short(),
            long => self.crew.timeout / 4 * u64::from(long),
        }
    }
}
