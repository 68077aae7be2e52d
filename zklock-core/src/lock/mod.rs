//! The locks.

pub mod exclusive;
pub mod mutex;
pub mod named;
pub mod rwlock;

pub use exclusive::Exclusive;
pub use mutex::Mutex;
pub use rwlock::RwLock;
