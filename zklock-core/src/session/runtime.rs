//! What a session needs from its environment: time, background tasks, identifiers, and a
//! description of the process.
//!
//! All of it comes from this one value. A simulation provides its own machine; everything else is
//! as in production.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::base::clock::{Clock, OfMachine};
use crate::base::error::LockError;
use crate::base::machine::Machine;
use crate::base::owner::{Owner, wall_clock};
use crate::coordinator::io_thread::{IoThread, timers};
use crate::layout::contender::Attempt;
use crate::session::spawner::Spawner;

/// Where a session runs.
#[derive(Clone, Debug)]
pub enum Host {
    /// On a thread of its own.
    Thread,
    /// On the threads and the clock of its callers, as the embedded coordinator does.
    Callers,
    /// On a simulated machine.
    Machine(Arc<dyn Machine>),
}

/// The environment of a session.
#[derive(Clone, Debug)]
pub struct Runtime {
    clock: Clock,
    spawner: Spawner,
}

impl Runtime {
    /// Starts the environment. If it has a thread, this ends when the returned value is dropped.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::base::error_kind::ErrorKind::Unavailable) if the system cannot start a
    /// thread.
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
                (Runtime { clock: Clock::Machine(Arc::new(OfMachine(machine))), spawner }, None)
            }
        })
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Runs background tasks.
    pub fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    fn machine(&self) -> Option<&dyn Machine> {
        self.clock.machine()
    }

    /// The time of day, for what is only shown.
    pub fn wall_clock(&self) -> SystemTime {
        wall_clock(self.machine())
    }

    /// A new identifier for the creation of a node.
    pub fn attempt(&self) -> Attempt {
        self.machine().map_or_else(Attempt::new, |machine| Attempt::of(machine.identifier()))
    }

    /// Describes this process at the present time.
    pub fn owner(&self, app: Option<&str>) -> Owner {
        Owner::on(self.machine(), app)
    }

    /// Describes this process as a holder that was granted the lock `granted_ago`.
    pub fn holder(&self, app: Option<&str>, granted_ago: Duration) -> Owner {
        Owner { since: None, ..self.granted_ago(self.owner(app), granted_ago) }
    }

    /// Sets for how long the present holder has held the lock.
    pub fn granted_ago(&self, owner: Owner, ago: Duration) -> Owner {
        owner.granted_ago_on(self.machine(), ago)
    }
}
