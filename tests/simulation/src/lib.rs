//! Deterministic simulation: the whole library, as it is shipped, on a simulated ZooKeeper, on one
//! thread, in virtual time. One list of choices decides everything, so that what was seen once can
//! be seen again.

pub mod chooser;
pub mod conformance;
pub mod ensemble;
pub mod executor;
mod faults;
pub mod host;
pub mod profile;
pub mod rules;
pub mod schedule;
pub mod store;
pub mod workload;
