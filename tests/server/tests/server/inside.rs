//! Who is inside, and who was.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zklock::{FencingToken, MutexGuard};

/// Counts who is inside at once and remembers the tokens in the order of entering.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    now: AtomicUsize,
    tokens: Mutex<Vec<FencingToken>>,
}

impl Inside {
    /// Goes in with a guard, gives others a chance for at least so long, goes out.
    pub(crate) async fn pass(&self, guard: &MutexGuard, hold: Duration) {
        assert_eq!(self.now.fetch_add(1, Ordering::SeqCst), 0, "two inside at once");
        self.tokens.lock().unwrap().push(guard.fencing_token());
        tokio::task::yield_now().await;
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        assert!(guard.is_valid());
        assert_eq!(self.now.fetch_sub(1, Ordering::SeqCst), 1, "two inside at once");
    }

    /// Asserts that so many went in, each with a greater token than the one before.
    pub(crate) fn assert_in_order(&self, count: usize) {
        let tokens = self.tokens.lock().unwrap();
        assert_eq!(tokens.len(), count);
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    }
}
