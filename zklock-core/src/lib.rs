//! The machinery of zklock.

pub mod backend;
pub mod clock;
pub mod coordinator;
pub mod deadline;
