//! What the tasks of the simulated processes do with the library.

mod hold;
mod plan;
mod polls;
mod task;

pub use plan::LockPlan;
pub use task::{Crew, run};
