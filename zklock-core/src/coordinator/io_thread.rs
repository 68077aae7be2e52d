//! The I/O thread of a session, for all its connections.
//!
//! The client connects here, and everything of ours that no caller waits for runs here. A runtime
//! of the user's may go away, be paused, have no timers, or be blocked by its user: none of that
//! may stop the heartbeats.
//!
//! The thread waits for the network itself. With a runtime between, each reply first woke the
//! reactor's thread and then this one.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_executor::Executor;
use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use crate::base::error::{ErrorKind, LockError};

static COUNT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static IS_IO_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller runs on an I/O thread.
pub fn is_io_thread() -> bool {
    IS_IO_THREAD.get()
}

/// Keeps the thread alive; the thread ends when this is dropped, and what runs on it is dropped.
#[derive(Debug)]
pub struct IoThread {
    handle: IoHandle,
    stop: Arc<Notify>,
}

/// Starts work on an I/O thread as long as that lives.
#[derive(Clone, Debug)]
pub struct IoHandle(Weak<Executor<'static>>);

impl IoHandle {
    /// Starts `work`, or drops it if the thread has ended.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(executor) = self.0.upgrade() {
            executor.spawn(work).detach();
        }
    }
}

/// Has the client put its tasks on the I/O thread on which it is connected.
struct ClientTasks(IoHandle);

impl spawns_core::Spawn for ClientTasks {
    fn spawn(&self, task: spawns_core::Task) {
        self.0.spawn(Box::into_pin(task.future));
    }
}

impl IoThread {
    /// Starts a thread.
    pub fn start() -> Result<Self, LockError> {
        let executor = Arc::new(Executor::new());
        let (handle, stop) = (IoHandle(Arc::downgrade(&executor)), Arc::new(Notify::new()));
        let (client, stopped) = (ClientTasks(handle.clone()), stop.clone());
        spawn_thread("io", move || {
            IS_IO_THREAD.set(true);
            let _scope = spawns_core::enter(&client);
            // A task that panics, of the client's perhaps, ends alone.
            let run = || async_io::block_on(executor.run(stopped.notified()));
            while catch_unwind(AssertUnwindSafe(run)).is_err() {}
        })?;
        Ok(IoThread { handle, stop })
    }

    /// Where to spawn.
    pub fn handle(&self) -> &IoHandle {
        &self.handle
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// The runtime of the timers of all sessions. It does nothing else, so a timer is as cheap as
/// tokio can make it and no I/O thread is woken for it.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] if the system has no thread for it.
pub fn timers() -> Result<Handle, LockError> {
    static TIMERS: OnceCell<Handle> = OnceCell::new();
    let start = || {
        let runtime =
            Builder::new_current_thread().enable_time().build().map_err(|e| no_thread(&e))?;
        let handle = runtime.handle().clone();
        spawn_thread("timers", move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(handle)
    };
    TIMERS.get_or_try_init(start).cloned()
}

fn spawn_thread(role: &str, body: impl FnOnce() + Send + 'static) -> Result<(), LockError> {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let builder = std::thread::Builder::new().name(format!("zklock-{role}-{number}"));
    builder.spawn(body).map(drop).map_err(|error| no_thread(&error))
}

fn no_thread(error: &std::io::Error) -> LockError {
    LockError::new(ErrorKind::Unavailable, format!("no thread for the session: {error}"))
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
        io.handle().spawn(async { panic!("as the client might") });
        io.handle().spawn(async move { tell.send(()).unwrap() });
        told.recv_timeout(SOON).unwrap();
    }

    #[test]
    fn what_runs_is_dropped_with_the_thread_and_nothing_starts_after() {
        let io = IoThread::start().unwrap();
        let handle = io.handle().clone();
        for work in 0..2 {
            let (tell, told) = channel::<()>();
            handle.spawn(async move {
                let _tell = tell;
                std::future::pending::<()>().await;
            });
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
