//! The sides: what is measured beside each other.

mod bare;
mod bed;
mod client_lock;
mod external;
mod notify;
mod redis;
mod tokio_mutex;
mod zklock;

use std::time::Duration;

pub(crate) use bare::make_directory;
pub(crate) use bed::{Bed, start_curator};
pub(crate) use external::{serve, shared};

use self::zklock::Use;
use crate::cpu;
use crate::drive::Failure;
use crate::measured::Measured;
use crate::workload::{Shape, Workload};

/// A side that is ready to run rounds of one workload; its connections stay open in between.
pub(crate) trait Side {
    /// Runs one round.
    fn round(&mut self, time: Duration) -> Result<Measured, Failure>;

    /// The processor time that its clients have used so far: here, unless they run elsewhere.
    fn cpu(&self) -> Result<Duration, Failure> {
        Ok(cpu::of_this_process())
    }
}

/// Makes a side ready. The error says what to install, or why not.
pub(crate) fn prepare(
    bed: &mut Bed,
    name: &str,
    workload: &Workload<'_>,
) -> Result<Box<dyn Side>, Failure> {
    let shape = workload.shape;
    Ok(match name {
        "curator" => shared(bed.curator()?, shape),
        "kazoo" => shared(bed.kazoo()?, shape),
        "redis" => redis::side(bed.redis(false)?, shape)?,
        "redis-fsync" => redis::side(bed.redis(true)?, shape)?,
        "zklock-processes" => external::processes(&bed.connect(), shape)?,
        "tokio-mutex" => tokio_mutex::side(shape)?,
        other => external::alone(&bed.connect(), other, shape)?,
    })
}

/// Makes a side ready in this process that needs a ZooKeeper only.
pub(crate) fn connect(connect: &str, name: &str, shape: Shape) -> Result<Box<dyn Side>, Failure> {
    match name {
        "zklock" => zklock::tasks(connect, shape, Use::Awaited),
        "zklock-drop" => zklock::tasks(connect, shape, Use::Dropped),
        "zklock-linger" => zklock::tasks(connect, shape, Use::Lingering),
        "zklock-tries" => zklock::tasks(connect, shape, Use::Tries),
        "zklock-blocking" => zklock::threads(connect, shape),
        "create+delete" => bare::side(connect, shape, bare::Ask::Nothing, 1),
        "create|list+delete" => bare::side(connect, shape, bare::Ask::List, 1),
        "create|list+delete-4" => bare::side(connect, shape, bare::Ask::List, 4),
        "notify" => notify::side(connect),
        "client-lock" => client_lock::side(connect, shape),
        other => Err(format!("there is no side `{other}`").into()),
    }
}
