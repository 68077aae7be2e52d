//! Waiting on a thread for a future.

use std::future::Future;
use std::time::Duration;

use crate::base::clock::{Clock, with_real_time};

/// After this long a blocked thread of a runtime is warned about.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs a future to its end on this thread.
///
/// For the futures of this library, which need no runtime around them: `Session::connect`,
/// `Session::close`. Inside a runtime its time does not go on meanwhile, so real time is used.
///
/// ```
/// use zklock::Session;
/// use zklock::blocking::block_on;
///
/// block_on(Session::embedded().close());
/// ```
pub fn block_on<F: Future>(work: F) -> F::Output {
    // A task lends its budget to what it polls, and a budget that is used up while the thread is
    // blocked is never renewed.
    with_real_time(|| futures_lite::future::block_on(tokio::task::unconstrained(work)))
}

/// The same, and a warning if that takes long on a thread that tasks need.
pub(crate) fn block_on_patiently<F: Future>(lock: &str, work: F) -> F::Output {
    if tokio::runtime::Handle::try_current().is_err() {
        return block_on(work);
    }
    let impatient = async {
        Clock::Caller.sleep_until(Clock::Caller.now() + PATIENCE).await;
        tracing::warn!(lock, "a thread of the runtime is blocked by a lock; use spawn_blocking");
        std::future::pending().await
    };
    block_on(futures_lite::future::or(work, impatient))
}
