//! The locks of a schedule: kinds, layouts and options.

use std::time::Duration;

use zklock_core::base::error::LockError;
use zklock_core::base::options::LockOptions;
use zklock_core::base::policy::{Handoffs, StopAt};
use zklock_core::layout::Kazoo;
use zklock_core::lock::AnyLock;
use zklock_core::session::Session;

use crate::executor::World;
use crate::profile::Profile;

/// What a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// One holder.
    Mutex,
    /// Readers, or one writer.
    ReadWrite,
    /// So many permits.
    Permits(u32),
}

/// A lock that all processes know.
#[derive(Clone, Debug)]
pub struct LockPlan {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub family: Family,
    /// Its options.
    pub options: LockOptions,
    /// Whether it lingers: then it is refused to who asks once.
    pub lingers: bool,
    /// Whether it is laid out as kazoo does.
    pub kazoo: bool,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// More shares than there are readers.
const ROOM: u32 = 1_000;

impl LockPlan {
    /// Draws the locks of a schedule.
    pub fn draw(world: &World, profile: &Profile) -> Vec<LockPlan> {
        let mut locks = Vec::new();
        for name in NAMES.into_iter().take(profile.locks as usize) {
            let usual = LockOptions::default();
            let mut plan = LockPlan {
                name,
                family: Family::Mutex,
                options: usual,
                lingers: false,
                kazoo: false,
            };
            if profile.kinds {
                plan.family = match world.choose(5) {
                    0 | 1 => Family::Mutex,
                    2 | 3 => Family::ReadWrite,
                    _ => Family::Permits(1 + world.choose(3)),
                };
                plan.kazoo = world.seldom(2, 200) == 1;
            }
            plan.draw_options(world);
            locks.push(plan);
        }
        locks
    }

    fn draw_options(&mut self, world: &World) {
        let millis = |choices: &[u64]| {
            let at = world.choose(choices.len() as u32) as usize;
            Duration::from_millis(choices[at])
        };
        let mut options = LockOptions::default();
        if world.seldom(2, 200) == 1 {
            options = options.handoffs(Handoffs::NONE);
        }
        if world.seldom(2, 200) == 1 {
            options = options.revocable(true);
        }
        if world.seldom(2, 150) == 1 {
            options = options.stop_at(StopAt::Suspect);
        }
        match world.seldom(5, 400) {
            1 => options = options.fair(true),
            2 if self.family == Family::Mutex => {
                options = options.linger(millis(&[20, 200, 2_000]));
                self.lingers = true;
            }
            3 if self.family == Family::Mutex => {
                options = options.lock_delay(millis(&[100, 1_000]));
            }
            4 if self.family == Family::Mutex => {
                options = options.hold_at_least(millis(&[20, 300]));
            }
            _ => {}
        }
        self.options = options;
    }

    /// Whether it is a semaphore.
    pub fn has_permits(&self) -> bool {
        matches!(self.family, Family::Permits(_))
    }

    /// How much of the lock a guard takes, and how much there is.
    pub fn share(&self, lock: &AnyLock) -> (u32, u32) {
        match (self.family, lock) {
            (Family::Permits(limit), AnyLock::Permits(_, permits)) => (*permits, limit),
            (_, AnyLock::Read(_)) => (1, ROOM),
            _ => (ROOM, ROOM),
        }
    }

    /// The lock in a session, in a mode that is drawn, with so long to wait.
    ///
    /// # Errors
    ///
    /// What the library says of the options.
    pub fn lock(
        &self,
        world: &World,
        session: &Session,
        timeout: Option<(Duration, u32)>,
    ) -> Result<AnyLock, LockError> {
        let mut options = self.options;
        if let Some((timeout, tries)) = timeout {
            options = options.timeout(timeout).retries(tries);
        }
        Ok(match self.family {
            Family::Mutex => {
                let lock = session.mutex(self.name)?;
                let lock = if self.kazoo { lock.driver(Kazoo::default())? } else { lock };
                AnyLock::Mutex(lock.with_options(options))
            }
            Family::ReadWrite => {
                let lock = session.rw_lock(self.name)?;
                let lock = if self.kazoo { lock.driver(Kazoo::default())? } else { lock };
                let lock = lock.with_options(options);
                if world.choose(3) == 0 { AnyLock::Write(lock) } else { AnyLock::Read(lock) }
            }
            Family::Permits(limit) => {
                let lock = session.semaphore(self.name, limit)?;
                let lock = if self.kazoo { lock.driver(Kazoo::default())? } else { lock };
                let permits = 1 + world.choose(limit);
                AnyLock::Permits(lock.with_options(options), permits)
            }
        })
    }
}
