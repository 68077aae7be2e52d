//! The machinery of zklock.

pub mod clock;
pub mod coordinator;
pub mod deadline;
