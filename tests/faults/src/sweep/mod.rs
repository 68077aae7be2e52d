//! Every frame of an opening session, an acquire and a release, broken in every way.

mod case;
mod frames;
mod run;

pub use case::{Case, Fault, Heal, Scene, all, some};
pub use run::{Outcome, Sweep};
