//! Layouts: what a lock looks like in ZooKeeper, and who holds it.
//!
//! A [`LockDriver`] says how the nodes of a lock are named and made, and decides from a list of them
//! who holds it. The drivers that are shipped follow Curator, kazoo and the algorithms of the texts.

pub mod contender;
pub mod curator;
pub mod driver;
pub mod kazoo;
pub mod nested;
pub mod permits;
pub mod plain;
pub mod refined;
pub mod rules;
pub mod verdict;

pub use curator::Curator;
pub use driver::LockDriver;
pub use kazoo::Kazoo;
pub use plain::{HostNodes, Numbered, OneNode, ReadWriteNodes};
pub use refined::{MaxLeases, Removed};
pub use verdict::Verdict;
