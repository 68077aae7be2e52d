//! A simulated ZooKeeper, in virtual time and on one thread: `zklock::testing::sim` runs the tests of
//! users on it, and `tests/simulation` the whole library.

pub mod chooser;
pub mod ensemble;
pub mod executor;
pub mod few;
pub mod host;
pub mod sim;
