//! A double of the library for tests of the attribute: it locks nothing and writes down what
//! happens, so that orders can be compared without a server.
//!
//! The module [`__private`] has the signatures and the semantics that generated code relies on;
//! what the real one does beyond (sessions, queues, leases) is no concern of the attribute.

#![allow(missing_docs, missing_debug_implementations)]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod error;
pub mod events;

pub use error::LockError;
pub use zklock_macros::zk_locked;

/// Stands for a session.
pub struct Session(pub &'static str);
