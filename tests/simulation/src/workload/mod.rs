//! What the tasks of the simulated processes do with the library.

mod anew;
mod bodies;
mod corners;
mod deep;
mod doors;
mod fences;
mod hold;
mod looks;
mod multi;
mod nested;
mod outside;
mod plan;
mod polls;
mod rare;
mod scares;
mod task;

pub use corners::{Corner, Together};
pub(crate) use looks::looks;
pub(crate) use plan::{BESIDE, MOST_PERMITS, RIGHTS};
pub use plan::{Family, Layout, LockPlan};
pub(crate) use polls::{dropped, drops_none};
pub(crate) use scares::Frightened;
pub(crate) use task::close;
pub use task::{Crew, run};
