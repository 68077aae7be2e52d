//! Methods that block a thread: `blocking_acquire` and its relatives, on the types that tasks use.
//!
//! They work inside and outside of a runtime: the session's own I/O thread does the work, and the
//! caller's thread sleeps. On a thread of a multi-threaded runtime they delay the other tasks of
//! that thread, which is logged as a warning after one second; use `spawn_blocking` there.
//!
//! While the thread is blocked, a task that only this thread can run makes no progress. Where a blocking
//! acquire would certainly wait for such a task, it fails at once with
//! [`Deadlock`](crate::base::error_kind::ErrorKind::Deadlock): for a holder, or a waiter ahead, on
//! the same thread of a current-thread runtime or of a `LocalSet`; and for a waiter, or the holder's scope, in
//! the same task. Six such waits are not recognised, and end with the call's deadline, if it has one:
//!
//! - A `LocalSet` that a multi-threaded runtime drives looks like one of its workers, until the future that is
//!   given to `block_on` has acquired a lock on that thread with an async method.
//! - A semaphore whose limit is in a node refuses nobody: the limit may be raised meanwhile.
//! - A lock is used with different options, such as `fair` and not `fair`: a holder elsewhere hands it on to a
//!   waiter on this thread whose options differ from those of the call.
//! - The holder acquired the lock by another session of the same process, which has queues of its own.
//! - The handle of another runtime was entered: the thread looks like one of that runtime.
//! - The call has no budget of tokio, as inside of `tokio::task::unconstrained` and [`block_on`]: the thread looks
//!   like one that runs no tasks.
//!
//! ```
//! let session = zklock::Session::embedded();
//! let mutex = session.mutex("orders")?;
//! let guard = mutex.blocking_acquire()?;
//! assert!(guard.scope_sync(|| mutex.is_held_in_scope()));
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
