//! Blocking a thread on a future.

use std::future::Future;

use crate::base::clock::with_real_time;

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
