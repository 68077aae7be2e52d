//! The embedded coordinator: ZooKeeper's rules in memory, for demonstrations and unit tests.
//!
//! It has no thread and no background task. Expiry, reaping and delays are evaluated on each
//! access, on one clock ([`Clock::Caller`](crate::base::clock::Clock::Caller)), and each waiter for
//! something that happens with time holds its own timer. So it works under a paused clock, in the
//! runtimes of many tests, and outside of any runtime. Every reply is ready at its first poll,
//! unless a fault is injected or the store answers late.
//!
//! # Where it differs from a server
//!
//! - There are no ACLs, no quotas and no `/zookeeper` subtree.
//! - An empty container is removed exactly one interval after its last child was deleted; a server
//!   checks once per interval, and removes it at any time up to that.
//! - Only successful writes use a transaction number.

// Without the feature, no link can break, and the code that heals it has no caller. It is compiled
// all the same, so that applications run the code that the tests ran.
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
    pub use super::request::{Request, target};
}

#[cfg(test)]
mod tests;
