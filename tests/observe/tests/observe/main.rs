//! The metrics that a program collects.

// What cannot be had fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod board;
mod metrics;
