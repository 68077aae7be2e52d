//! The conformance suite: the behaviour that every coordinator must have, as tests.
//!
//! An implementation provides a [`Harness`], which opens sessions and breaks them. Then
//! [`conformance_tests!`] makes a `#[test]` of every case. The expected behaviour was first observed on
//! ZooKeeper 3.8; the embedded coordinator was then made to behave in the same way.
//!
//! A case panics if the coordinator does not conform.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[doc(hidden)]
pub mod cases;
mod embedded;
mod harness;
mod lab;
mod runner;

pub use embedded::embedded;
pub use harness::{Harness, Step};
pub use lab::Lab;
pub use runner::{Case, all, run};
