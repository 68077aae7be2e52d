//! Acquiring a node: the only loop that waits in ZooKeeper, and the node that it holds at the end.

pub mod acquire_loop;
mod enqueue;
pub mod kinds;
pub mod lease;
mod looking;
pub mod obstacle;
pub mod send_order;
pub mod stand_in;
mod watching;
