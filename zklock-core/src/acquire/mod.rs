//! Acquiring a node: the only loop that waits in ZooKeeper, and the node that it holds at the end.

pub mod acquire_loop;
mod enqueue;
mod far_behind;
pub(crate) mod granting;
pub mod kinds;
pub mod lease;
mod looking;
pub(crate) mod making;
pub mod obstacle;
mod room;
pub mod seen;
pub mod send_order;
pub mod setback;
pub mod stand_in;
mod staying;
pub mod target;
mod watching;
