//! The layouts of locks in ZooKeeper that are shipped.

pub mod curator;

pub use curator::Curator;
