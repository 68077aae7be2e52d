//! The locks.

pub mod any;
pub mod info;
pub mod multi;
pub mod mutex;
pub mod named;
pub mod permits;
pub mod rwlock;
pub mod semaphore;
pub mod spec;

pub use any::{AnyGuard, AnyLock};
pub use info::LockInfo;
pub use multi::{MultiGuard, MultiLock};
pub use mutex::Mutex;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
