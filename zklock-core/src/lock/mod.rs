//! The locks.

pub mod mutex;
pub mod named;
pub mod rwlock;
pub mod semaphore;

pub use mutex::Mutex;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
