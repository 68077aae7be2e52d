//! The backends: what a [`Coordinator`](crate::coordinator::Coordinator) is made of.

mod limits;
pub mod memory;
pub mod zookeeper;
