//! What a session lives by: time, a place for its tasks, identifiers, and who it is.
//!
//! All of it comes from this one value. A simulation gives a machine of its own, and then everything
//! else is as it is in production.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::error::LockError;
use crate::base::machine::Machine;
use crate::base::owner::Owner;
use crate::coordinator::io_thread::{IoThread, timers};
use crate::layout::contender::Attempt;
use crate::session::spawner::Spawner;

/// On what a session runs.
#[derive(Clone, Debug)]
pub enum Host {
    /// On a thread of its own.
    Thread,
    /// On the threads and by the time of its callers, as the embedded coordinator does.
    Callers,
    /// On a machine that somebody plays.
    Machine(Arc<dyn Machine>),
}

/// What a session lives by.
#[derive(Clone, Debug)]
pub struct Runtime {
    clock: Clock,
    spawner: Spawner,
}

impl Runtime {
    /// Starts it. Where it has a thread, that ends when the answer is dropped.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::base::error::ErrorKind::Unavailable) if the system has no thread for it.
    pub fn start(host: Host) -> Result<(Self, Option<IoThread>), LockError> {
        Ok(match host {
            Host::Thread => {
                let io = IoThread::start()?;
                let spawner = Spawner::Thread(io.handle().clone());
                (Runtime { clock: Clock::Boot(timers()?), spawner }, Some(io))
            }
            Host::Callers => (Runtime { clock: Clock::Caller, spawner: Spawner::Inline }, None),
            Host::Machine(machine) => {
                let spawner = Spawner::Machine(machine.clone());
                (Runtime { clock: Clock::Machine(machine), spawner }, None)
            }
        })
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where background work goes.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    fn machine(&self) -> Option<&dyn Machine> {
        match &self.clock {
            Clock::Machine(machine) => Some(&**machine),
            Clock::Boot(_) | Clock::Caller => None,
        }
    }

    /// A fresh identifier for the creation of a node.
    pub fn attempt(&self) -> Attempt {
        self.machine().map_or_else(Attempt::new, |machine| Attempt::of(machine.identifier()))
    }

    /// This process, now.
    pub fn owner(&self, app: Option<&str>) -> Owner {
        Owner::on(self.machine(), app)
    }

    /// This process as that of a holder, who was granted the lock so long ago.
    pub fn holder(&self, app: Option<&str>, granted_ago: Duration) -> Owner {
        Owner { since: None, ..self.granted_ago(self.owner(app), granted_ago) }
    }

    /// Says of an owner since how long the present holder has held the lock.
    pub fn granted_ago(&self, owner: Owner, ago: Duration) -> Owner {
        owner.granted_ago_on(self.machine(), ago)
    }
}
