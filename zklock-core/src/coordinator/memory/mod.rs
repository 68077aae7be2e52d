//! The embedded coordinator: ZooKeeper's rules in memory, for demos, for unit tests, and as the
//! ground of a deterministic simulation.
//!
//! It has no thread and no background task. Expiry, reaping and delays are evaluated whenever
//! somebody asks, on one clock ([`Clock::Caller`](crate::base::clock::Clock::Caller)), and whoever waits
//! for something that happens by lapse of time holds a timer of its own. So it works under a
//! paused clock, across the runtimes of many tests, and outside any runtime. Every reply is ready
//! at its first poll unless a fault says otherwise, or the store was told to answer late.
//!
//! # Where it differs from a server
//!
//! - There are no ACLs, no quotas and no `/zookeeper` subtree.
//! - An empty container is removed exactly one interval after its last child went; a server looks
//!   once an interval and removes it at any moment up to that.
//! - Only writes that succeed take a transaction number.

// Without the feature nobody can break a link, and what heals it has no caller. It is compiled all
// the same, so that users run the very code that the tests ran.
#![cfg_attr(not(any(test, feature = "testing")), allow(dead_code, unreachable_pub))]

mod alarm;
mod coordinator;
mod fault;
#[cfg(any(test, feature = "testing"))]
mod faults;
mod flow;
mod lapse;
mod late;
mod path;
mod pending;
mod request;
mod session;
mod state;
mod store;
mod tree;
mod watches;

pub use coordinator::{Embedded, EmbeddedConnector, EmbeddedCoordinator, EmbeddedOptions};
#[cfg(any(test, feature = "testing"))]
pub use fault::{Fault, Logged};
#[cfg(any(test, feature = "testing"))]
pub use faults::Faults;
#[cfg(any(test, feature = "testing"))]
pub use request::Op;

/// What the simulated ensemble of the tests has in common with the embedded coordinator.
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod shared {
    pub use super::path::{check_written, split};
    pub use super::request::Request;
}

#[cfg(test)]
mod tests;
