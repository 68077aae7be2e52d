//! Three servers under fire, clients in processes of their own, and a history of what they said.

mod agent;
mod faults;
mod history;
mod left;
mod random;
mod run;
mod work;

pub use run::{Plan, Report, run};
