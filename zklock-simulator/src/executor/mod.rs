//! One thread that runs the tasks of all simulated processes in virtual time.

mod alarms;
mod process;
mod standing;
mod timer;
mod trace;
mod world;

pub use process::{Process, ProcessId, current_task};
pub use timer::Timer;
pub use world::World;
pub(crate) use world::wake_up;

#[cfg(test)]
mod tests;
