//! Going on although other people's code panics.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use tokio::sync::Notify;

/// Calls what may panic, where the caller has more to do: the log is the application's, and one that is
/// written to a closed stream panics.
pub fn unharmed(call: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(call)));
}

/// Tells all who wait for a change, where the caller has more to do: a waker of the application may panic.
pub fn tell_all(changed: &Notify) {
    unharmed(|| changed.notify_waiters());
}

/// Makes wakers that wake a caller, and do not panic if the caller's waker does.
#[derive(Debug, Default)]
pub struct Unharming(Option<Arc<Caller>>);

impl Unharming {
    /// Such a waker; the same as the last one if that woke the same caller.
    pub fn waker(&mut self, caller: &Waker) -> Waker {
        let last = self.0.take().filter(|last| last.0.will_wake(caller));
        let new = || Arc::new(Caller(caller.clone()));
        Waker::from(self.0.insert(last.unwrap_or_else(new)).clone())
    }
}

/// Waits, and is woken by such a waker: code that wakes several callers would leave the others asleep after one
/// whose waker panics.
pub async fn unharming<F: Future>(mut waiting: Pin<&mut F>) -> F::Output {
    let mut callers = Unharming::default();
    poll_fn(|cx| {
        let waker = callers.waker(cx.waker());
        waiting.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

#[derive(Debug)]
struct Caller(Waker);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        // It may be dropped here, which may panic as well.
        unharmed(move || self.0.wake_by_ref());
    }

    fn wake_by_ref(self: &Arc<Self>) {
        unharmed(|| self.0.wake_by_ref());
    }
}
