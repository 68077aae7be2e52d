//! A mutex in memory: the limit of what tasks of one process can reach.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Side;
use crate::drive::{Failure, Lock};
use crate::pool::{Pool, runtime};
use crate::workload::Shape;

struct Task(Arc<Mutex<()>>);

impl Lock for Task {
    type Held = OwnedMutexGuard<()>;

    async fn acquire(&mut self) -> Result<Self::Held, Failure> {
        Ok(self.0.clone().lock_owned().await)
    }

    async fn release(&mut self, held: Self::Held) -> Result<(), Failure> {
        drop(held);
        Ok(())
    }
}

/// One mutex for each lock.
pub(crate) fn side(shape: Shape) -> Result<Box<dyn Side>, Failure> {
    let mutexes: Vec<_> = (0..shape.locks).map(|_| Arc::new(Mutex::new(()))).collect();
    let tasks = (0..shape.tasks).map(|task| Task(mutexes[task % shape.locks].clone())).collect();
    Ok(Pool::<Task>::side(runtime()?, shape, tasks))
}
