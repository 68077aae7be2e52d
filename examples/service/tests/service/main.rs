//! The service: several processes on a real ZooKeeper, and its failures in one.

// What cannot be had fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod failures;
mod fleet;
mod http;
mod metrics;
mod process;
