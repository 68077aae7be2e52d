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
mod output;

pub use error::LockError;
pub use zklock_macros::{lock_name, zk_locked};

/// Stands for a layout.
pub trait LockDriver: std::fmt::Debug + Send + Sync + 'static {}

/// For those who write a layout.
pub mod driver {
    pub use super::LockDriver;
}

pub mod layout {
    //! Layouts that stand for real ones.

    /// Stands for kazoo's.
    #[derive(Clone, Debug, Default)]
    pub struct Kazoo {
        _identifier: Option<String>,
    }

    impl super::LockDriver for Kazoo {}
}

/// Stands for the guard around the caller.
pub struct Current;

impl Current {
    pub const fn is_revoked(&self) -> bool {
        false
    }
}

pub const fn current() -> Current {
    Current
}

/// Stands for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockName(pub(crate) String);

impl LockName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Stands for options.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockOptions {
    pub fair: Option<bool>,
}

impl LockOptions {
    pub const fn new() -> Self {
        Self { fair: None }
    }

    pub const fn fair(mut self, fair: bool) -> Self {
        self.fair = Some(fair);
        self
    }
}

/// Stands for a session.
pub struct Session(pub &'static str);
