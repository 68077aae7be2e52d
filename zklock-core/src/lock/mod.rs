//! The locks.

pub mod mutex;
pub mod named;
pub mod rwlock;

pub use mutex::Mutex;
pub use rwlock::RwLock;
