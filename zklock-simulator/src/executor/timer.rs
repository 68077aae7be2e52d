//! Waiting for a moment of the world.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::executor::alarms::AlarmId;
use crate::executor::world::World;

/// The future of [`World::sleep_until`]. It leaves nothing behind when it is dropped.
pub struct Timer {
    world: Arc<World>,
    at: u64,
    set: Option<AlarmId>,
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Timer {
    pub(super) fn new(world: Arc<World>, at: u64) -> Self {
        Timer { world, at, set: None }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.world.now() >= self.at {
            return Poll::Ready(());
        }
        let set = self.world.set_waker(self.set, self.at, cx.waker());
        self.set = Some(set);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(id) = self.set {
            self.world.cancel(id);
        }
    }
}
