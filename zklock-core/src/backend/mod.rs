//! The backends: what a [`Coordinator`](crate::coordinator::Coordinator) is made of.

pub mod io_thread;
mod limits;
pub mod memory;
pub mod zookeeper;
