//! Methods that block a thread: `blocking_acquire` and its relatives, on the types that tasks use.
//!
//! They work inside and outside of a runtime: the session's own I/O thread does the work, and the
//! caller's thread sleeps. On a thread of a multi-threaded runtime they delay the other tasks of
//! that thread, which is logged as a warning after one second; use `spawn_blocking` there.
//!
//! ```
//! let session = zklock::Session::embedded();
//! let mutex = session.mutex("orders")?;
//! let guard = mutex.blocking_acquire()?;
//! assert!(guard.scope_sync(|| mutex.is_held_here()));
//! guard.blocking_release()?;
//! # Ok::<(), zklock::LockError>(())
//! ```

mod any;
mod guard;
mod named;
mod park;
mod semaphore;
pub(crate) mod template;

pub use park::block_on;
