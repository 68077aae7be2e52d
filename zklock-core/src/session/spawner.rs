//! Runs the tasks of a session that no caller waits for.

use std::any::type_name;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_lite::future::{Boxed, or};
use tokio::sync::Notify;
use tokio::task::{Unconstrained, unconstrained};

use crate::base::machine::Machine;
use crate::coordinator::io_thread::IoHandle;

/// Runs futures in the background.
#[derive(Clone, Debug)]
pub enum Spawner {
    /// On the session's I/O thread.
    Thread(IoHandle),
    /// On the thread that wakes them: for the embedded coordinator, which has no thread of its own,
    /// and whose replies are ready at once.
    Inline,
    /// On a simulated machine.
    Machine(Arc<dyn Machine>),
}

impl Spawner {
    /// Starts `work`. The inline spawner polls it before this call returns.
    pub fn spawn<W: Future<Output = ()> + Send + 'static>(&self, work: W) {
        self.start(type_name::<W>(), Box::pin(work));
    }

    fn start(&self, name: &'static str, work: Boxed<()>) {
        match self {
            Spawner::Thread(handle) => handle.spawn(work),
            Spawner::Machine(machine) => machine.spawn(name, work),
            Spawner::Inline => {
                let task = Arc::new(Task {
                    // A task that polls this one lends it its cooperative budget, and a budget that
                    // is used up would make it wake itself for ever.
                    work: Mutex::new(Some(unconstrained(work))),
                    state: AtomicU8::new(IDLE),
                });
                task.wake();
            }
        }
    }

    /// Starts the work that `make` returns, until `stop` is notified.
    pub fn spawn_until<W: Future<Output = ()> + Send + 'static>(
        &self,
        stop: impl AsRef<Notify> + Send + 'static,
        make: impl FnOnce() -> W + Send + 'static,
    ) {
        // Created and boxed inside the task: on its way into the task it would be moved several
        // times, and freeing what another thread allocated costs more. What makes it is small.
        self.spawn(async move { or(Box::pin(make()), stop.as_ref().notified()).await });
    }
}

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const WOKEN: u8 = 2;

/// A future that is polled by the thread that wakes it.
struct Task {
    work: Mutex<Option<Unconstrained<Boxed<()>>>>,
    state: AtomicU8,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // If it is idle, the waking thread polls it; if it is running, that thread makes it poll
        // once more.
        if self.state.swap(WOKEN, Ordering::AcqRel) != IDLE {
            return;
        }
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        loop {
            self.state.store(RUNNING, Ordering::Release);
            let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(future) = work.as_mut() else { return };
            if let Poll::Ready(()) = Pin::new(future).poll(&mut cx) {
                // It stays in the state `RUNNING`, so that nobody polls a finished task again.
                *work = None;
                return;
            }
            drop(work);
            let idle =
                self.state.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if idle.is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::Notify;

    #[test]
    fn inline_work_that_is_ready_is_done_at_once() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        Spawner::Inline.spawn(async move {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn inline_work_goes_on_where_it_is_woken() {
        let (count, notify) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let (counted, notified) = (count.clone(), notify.clone());
        Spawner::Inline.spawn(async move {
            for _ in 0..3 {
                notified.notified().await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        for done in 1..=3 {
            notify.notify_one();
            assert_eq!(count.load(Ordering::Relaxed), done);
        }
        notify.notify_one();
    }

    #[test]
    fn work_may_wake_itself_and_others() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        Spawner::Inline.spawn(async move {
            for _ in 0..100 {
                let mut yielded = false;
                std::future::poll_fn(|cx| {
                    if std::mem::replace(&mut yielded, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 100);
    }
}
