//! The layouts of locks in ZooKeeper that are shipped.

pub mod curator;
pub mod kazoo;
pub mod plain;
pub mod refined;

pub use curator::Curator;
pub use kazoo::Kazoo;
pub use plain::{HostNodes, Numbered, OneNode, ReadWriteNodes};
pub use refined::{MaxLeases, Removed};
