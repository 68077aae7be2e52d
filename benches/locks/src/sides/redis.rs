//! The Redis lock of the crate `rslock`, on a `redis-server` of our own.
//!
//! It polls: a waiter asks again after a random part of its retry delay, so it is not fair and
//! its longest wait says more than its throughput.

use std::time::Duration;

use rslock::LockManager;

use super::Side;
use crate::drive::{Failure, Lock};
use crate::pool::{Pool, runtime};
use crate::workload::Shape;

/// The least that makes it retry at all; its default of 200 ms would leave the lock idle.
const RETRY_DELAY: Duration = Duration::from_millis(1);

const TTL: Duration = Duration::from_secs(30);

struct Task {
    manager: LockManager,
    key: String,
}

impl Lock for Task {
    type Held = rslock::Lock;

    async fn acquire(&mut self) -> Result<rslock::Lock, Failure> {
        Ok(self.manager.acquire_no_guard(self.key.as_bytes(), TTL).await?)
    }

    async fn release(&mut self, held: rslock::Lock) -> Result<(), Failure> {
        self.manager.unlock(&held).await;
        Ok(())
    }
}

/// As many connections as sessions.
pub(crate) fn side(port: u16, shape: Shape) -> Result<Box<dyn Side>, Failure> {
    let runtime = runtime()?;
    let mut tasks = Vec::new();
    for _ in 0..shape.sessions {
        let mut manager = LockManager::new(vec![format!("redis://127.0.0.1:{port}")]);
        manager.set_retry(u32::MAX, RETRY_DELAY);
        for task in 0..shape.tasks {
            let key = format!("bench-{}", task % shape.locks);
            tasks.push(Task { manager: manager.clone(), key });
        }
    }
    Ok(Pool::<Task>::side(runtime, shape, tasks))
}
