//! Blocking twins of the locks and the template, for threads.
//!
//! They work with or without a runtime around them: the session's own I/O thread does the work,
//! the caller's thread sleeps. On a thread of a multi-threaded runtime they hold up the other
//! tasks of that thread, which is warned about after a second; use `spawn_blocking` there.

pub mod guard;
pub mod multi;
pub mod mutex;
pub mod park;
pub mod rwlock;
pub mod semaphore;
pub mod template;

pub use guard::{Guard, MutexGuard, RwLockReadGuard, RwLockWriteGuard, SemaphorePermit};
pub use multi::{MultiGuard, MultiLock};
pub use mutex::Mutex;
pub use park::block_on;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
pub use template::ZkLockTemplate;
