//! The I/O thread of a session.
//!
//! The client connects here, and everything of ours that no caller waits for runs here. A runtime
//! of the user's may go away, be paused, have no timers, or be blocked by its user: none of that
//! may stop the heartbeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use crate::error::{ErrorKind, LockError};

static COUNT: AtomicU64 = AtomicU64::new(1);

/// Keeps the thread alive; the thread ends when this is dropped.
#[derive(Debug)]
pub struct IoThread {
    handle: Handle,
    stop: Arc<Notify>,
}

impl IoThread {
    /// Starts a thread.
    pub fn start() -> Result<Self, LockError> {
        let failed = |error: std::io::Error| {
            LockError::new(ErrorKind::Unavailable, "no thread for the session").because(error)
        };
        let runtime = Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let (handle, stop) = (runtime.handle().clone(), Arc::new(Notify::new()));
        let stopped = stop.clone();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        std::thread::Builder::new()
            .name(format!("zklock-io-{number}"))
            .spawn(move || runtime.block_on(stopped.notified()))
            .map_err(failed)?;
        Ok(IoThread { handle, stop })
    }

    /// Where to spawn.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
