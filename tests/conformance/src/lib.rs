//! The harness that runs the conformance suite on a real ZooKeeper: every session goes through a
//! relay of its own, which can stall it and cut it off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;
mod relay;

pub use harness::{SESSION_TIMEOUT, Server, server};
