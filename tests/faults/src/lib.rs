//! Faults on real ZooKeeper, and what the locks do about them.
//!
//! - [`sweep`] breaks the connection at every frame of an opening session, an acquire and a release.
//! - [`ensemble`] puts three servers and several processes under fire.
//! - [`soak`] runs locks at full speed and looks at what is left.
//! - [`record`] writes histories for the checker.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken test bed must fail the test at once"
)]

pub mod ensemble;
pub mod locks;
pub mod record;
pub mod soak;
pub mod sweep;
