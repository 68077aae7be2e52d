//! Waiting until something is so.

use std::pin::pin;

use tokio::sync::Notify;

/// Waits until something is so that is announced by this notification.
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
