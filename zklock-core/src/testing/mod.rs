//! Locks for users' tests.

mod locks;

pub use locks::TestLocks;
