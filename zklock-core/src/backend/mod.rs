//! The backends: what a [`Coordinator`](crate::coordinator::Coordinator) is made of.

pub mod memory;
pub mod zookeeper;
