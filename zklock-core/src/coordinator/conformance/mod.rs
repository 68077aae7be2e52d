//! The conformance suite: what every backend must do, as tests that run on each.
//!
//! A backend brings a [`Harness`], which opens sessions and breaks them. Then
//! [`conformance_tests!`](crate::conformance_tests) makes one `#[test]` of every case, and
//! [`run_all`] runs them one after the other. What is asked for here was first seen on ZooKeeper
//! 3.8; the embedded coordinator was then made to do the same.
//!
//! A case panics when the backend does not conform.

// It is a test suite, although it is not compiled as one.
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
pub use runner::{Case, all, run, run_all};
