//! The coordinator: what is asked of ZooKeeper, and the two that answer, ZooKeeper itself and the
//! embedded one in memory.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod io_thread;
mod limits;
pub mod memory;
pub mod traits;
pub mod zookeeper;
