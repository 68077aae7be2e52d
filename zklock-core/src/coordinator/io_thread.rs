//! The I/O thread of a session, for all its connections.
//!
//! The client library connects on this thread, and all work of the library that no caller waits for
//! runs here. A runtime of the application may end, be paused, have no timers, or be blocked: none
//! of this may stop the heartbeats.
//!
//! The thread polls the network itself. With a runtime in between, each reply would first wake the
//! reactor's thread and then this one.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_executor::Executor;
use futures_lite::future::Boxed;
use tokio::sync::Notify;

use crate::base::clock::Timers;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::coordinator::client_task::watched;
use crate::coordinator::wakes::{self, wake_callers};

static COUNT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static IS_IO_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller runs on an I/O thread.
pub fn is_io_thread() -> bool {
    IS_IO_THREAD.get()
}

/// Keeps the thread alive. When this is dropped, the thread ends, and its tasks are dropped.
#[derive(Debug)]
pub struct IoThread {
    handle: IoHandle,
    stop: Arc<Notify>,
}

/// Spawns tasks on an I/O thread while the thread lives.
#[derive(Clone, Debug)]
pub struct IoHandle(Weak<Executor<'static>>);

impl IoHandle {
    /// Spawns `work`, or drops it if the thread has ended. It is in a box, because the executor's code is
    /// compiled again for each type of future: that was a tenth of all that the compiler made of this crate.
    pub fn spawn(&self, work: Boxed<()>) {
        if let Some(executor) = self.0.upgrade() {
            executor.spawn(work).detach();
        }
    }
}

/// Makes the client library run its tasks on the I/O thread on which it connects.
struct ClientTasks(IoHandle);

impl spawns_core::Spawn for ClientTasks {
    fn spawn(&self, task: spawns_core::Task) {
        self.0.spawn(watched(Box::into_pin(task.future)));
    }
}

impl IoThread {
    /// Starts a thread.
    pub fn start() -> Result<Self, LockError> {
        let executor = Arc::new(Executor::new());
        let callers: Boxed<()> = Box::pin(wake_callers());
        executor.spawn(callers).detach();
        let (handle, stop) = (IoHandle(Arc::downgrade(&executor)), Arc::new(Notify::new()));
        let (client, stopped) = (ClientTasks(handle.clone()), stop.clone());
        spawn_thread(move || {
            IS_IO_THREAD.set(true);
            let _scope = spawns_core::enter(&client);
            // A task that panics, perhaps one of the client library, ends alone.
            let run = || async_io::block_on(executor.run(stopped.notified()));
            while catch_unwind(AssertUnwindSafe(run)).is_err() {}
            wakes::end();
        })?;
        Ok(IoThread { handle, stop })
    }

    /// The handle to spawn with.
    pub fn handle(&self) -> &IoHandle {
        &self.handle
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// Returns the timers of all sessions. They wake no I/O thread.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] if the system cannot start a thread.
pub fn timers() -> Result<Timers, LockError> {
    Timers::start().map_err(|error| no_thread(&error))
}

fn spawn_thread(body: impl FnOnce() + Send + 'static) -> Result<(), LockError> {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let builder = std::thread::Builder::new().name(format!("zklock-io-{number}"));
    builder.spawn(body).map(drop).map_err(|error| no_thread(&error))
}

fn no_thread(error: &std::io::Error) -> LockError {
    LockError::new(
        ErrorKind::Unavailable,
        format!(
            "the system cannot start a thread for the \
                                                    session: {error}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn a_task_that_panics_ends_alone() {
        let io = IoThread::start().unwrap();
        let (tell, told) = channel();
        io.handle().spawn(Box::pin(async { panic!("as the client might") }));
        io.handle().spawn(Box::pin(async move { tell.send(()).unwrap() }));
        told.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn what_runs_is_dropped_with_the_thread_and_nothing_starts_after() {
        let io = IoThread::start().unwrap();
        let handle = io.handle().clone();
        for work in 0..2 {
            let (tell, told) = channel::<()>();
            handle.spawn(Box::pin(async move {
                let _tell = tell;
                std::future::pending::<()>().await;
            }));
            if work == 0 {
                io.stop.notify_one();
            }
            assert_eq!(
                told.recv_timeout(SOON),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
            );
        }
    }
}
