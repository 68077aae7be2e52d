//! Waiting for a condition.

use std::pin::pin;

use tokio::sync::Notify;

/// Waits until a condition holds, whose changes this notification announces.
pub async fn until(changed: &Notify, so: impl Fn() -> bool) {
    loop {
        let mut changed = pin!(changed.notified());
        changed.as_mut().enable();
        if so() {
            return;
        }
        changed.await;
    }
}
