//! Blocking a thread on a future.

use std::future::Future;

pub use crate::base::block_on::block_on;
use crate::base::caller::is_polled;
use crate::base::clock::Clock;
use crate::base::times;
use crate::base::unharmed::unharmed;

/// Runs a future to its end on this thread, and logs a warning if that takes long on a thread that
/// tasks need: not on one of the pool for `spawn_blocking`, which has a runtime, too.
pub(crate) fn block_on_patiently<F: Future>(lock: &str, work: F) -> F::Output {
    if tokio::runtime::Handle::try_current().is_err() || !is_polled() {
        return block_on(work);
    }
    let impatient = async {
        Clock::Caller.sleep(times::WARN).await;
        unharmed(|| {
            tracing::warn!(lock, "a thread of the runtime is blocked by a lock; use spawn_blocking")
        });
        std::future::pending().await
    };
    block_on(futures_lite::future::or(work, impatient))
}
