//! The machinery of zklock.

pub mod backend;
pub mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod coordinator;
pub mod deadline;
