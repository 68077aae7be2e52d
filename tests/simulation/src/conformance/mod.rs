//! Random scripts of requests, cuts and pauses that run on the simulated ensemble and on a real one,
//! and must be answered alike.
//!
//! Only what is certain is compared. One session acts at a time, and after each step the others
//! catch up with a `sync`; so what each sees next, and which of its watches have fired by then, is
//! the same on every ensemble that keeps ZooKeeper's promises.

mod bed;
mod pause;
mod play;
mod report;
mod script;
mod simulated;

pub use bed::{Bed, SLOTS, Work};
pub use play::play;
pub use report::Report;
pub use script::{Ask, Class, Deaf, Script, Step};
pub use simulated::Simulated;
