//! Blocking a thread on a future.

use std::future::Future;

use crate::base::caller::is_polled;
use crate::base::clock::{Clock, with_real_time};
use crate::base::times;

/// Runs a future to its end on this thread.
///
/// It is meant for the futures of this library, which need no runtime: `Session::connect`,
/// `Session::close`. Inside a runtime whose time is paused, it uses real time, because the
/// runtime's clock stands still meanwhile.
///
/// ```
/// use zklock::Session;
/// use zklock::blocking::block_on;
///
/// block_on(Session::embedded().close());
/// ```
pub fn block_on<F: Future>(work: F) -> F::Output {
    // Inside a task, tokio limits how much may be polled before the task yields. A blocked task
    // never yields, so the limit is lifted here.
    with_real_time(|| futures_lite::future::block_on(tokio::task::unconstrained(work)))
}

/// Runs a future to its end on this thread, and logs a warning if that takes long on a thread that
/// tasks need: not on one of the pool for `spawn_blocking`, which has a runtime, too.
pub(crate) fn block_on_patiently<F: Future>(lock: &str, work: F) -> F::Output {
    if tokio::runtime::Handle::try_current().is_err() || !is_polled() {
        return block_on(work);
    }
    let impatient = async {
        Clock::Caller.sleep_until(Clock::Caller.now() + times::WARN).await;
        tracing::warn!(lock, "a thread of the runtime is blocked by a lock; use spawn_blocking");
        std::future::pending().await
    };
    block_on(futures_lite::future::or(work, impatient))
}
