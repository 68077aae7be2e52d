//! The coordinator: the requests to ZooKeeper, and two implementations, for ZooKeeper itself and
//! embedded in memory.

pub mod access;
pub(crate) mod client_task;
pub mod connector;
pub mod io_thread;
pub(crate) mod limits;
pub mod link;
pub mod memory;
pub mod node;
pub mod operation;
pub mod request_error;
pub mod requests;
pub(crate) mod wakes;
pub mod watch;
pub mod zookeeper;
