//! Layouts: what a lock looks like in ZooKeeper, and which node holds it.
//!
//! A [`LockDriver`] determines how the nodes of a lock are named and created, and decides from a
//! list of them which one holds the lock. The drivers of this crate follow Curator, kazoo, and
//! hand-written locks from widely copied articles.

pub mod check;
pub mod contender;
pub mod curator;
pub mod driver;
pub mod kazoo;
pub mod kinds;
pub mod nested;
pub mod new_node;
pub mod permits;
pub mod plain;
pub mod refined;
pub mod refusals;
pub mod rules;
pub mod semaphore_layout;
pub mod shipped;
pub mod to_driver;
pub mod verdict;

pub use curator::Curator;
pub use driver::LockDriver;
pub use kazoo::Kazoo;
pub use plain::{HostNodes, Numbered, OneNode, ReadWriteNodes};
pub use refined::{MaxLeases, Removed};
pub use verdict::Verdict;
