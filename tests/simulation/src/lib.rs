//! Deterministic simulation: the whole library, as it is shipped, on a simulated ZooKeeper, on one
//! thread, in virtual time. One list of choices decides everything, so that what was seen once can
//! be seen again.

pub mod conformance;
pub mod cores;
mod ending;
mod faults;
pub mod found;
pub mod kept;
mod log;
pub mod origin;
pub mod profile;
pub mod rules;
pub mod schedule;
pub mod store;
pub mod workload;

pub use zklock_simulator::{chooser, ensemble, executor, few, host};

/// Schedules make and drop many small things, and nothing else takes as long: with the system's
/// allocator they take a tenth longer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
