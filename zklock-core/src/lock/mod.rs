//! The locks.

pub mod exclusive;
pub mod mutex;
pub mod named;
pub mod rwlock;
pub mod semaphore;

pub use exclusive::Exclusive;
pub use mutex::Mutex;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
