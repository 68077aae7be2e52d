//! The locks.

pub mod exclusive;
pub mod mutex;

pub use exclusive::Exclusive;
pub use mutex::Mutex;
