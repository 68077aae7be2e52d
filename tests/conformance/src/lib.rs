//! The harness that runs the conformance suite on a real ZooKeeper: every session goes through a
//! proxy of its own, which can stall it and cut it off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;

pub use harness::{Server, server};
