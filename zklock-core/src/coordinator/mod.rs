//! The coordinator: the requests to ZooKeeper, and two implementations, for ZooKeeper itself and
//! embedded in memory.

pub mod access;
pub mod io_thread;
pub(crate) mod limits;
pub mod memory;
pub mod traits;
pub(crate) mod wakes;
pub mod zookeeper;
