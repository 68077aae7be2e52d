//! The locks.

pub mod mutex;

pub use mutex::Mutex;
