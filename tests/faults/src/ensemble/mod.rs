//! Three servers under fire, clients in processes of their own, and a history of what they said.

mod agent;
#[path = "../../../examples/built.rs"]
mod built;
mod clients;
mod draw;
mod faults;
mod figures;
mod hands;
mod history;
mod left;
mod load;
mod peers;
mod random;
mod removal;
mod run;
mod work;

pub use run::{Plan, Report, run};
