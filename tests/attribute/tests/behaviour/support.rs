//! What the tests share.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use zklock::{LockError, events};

pub(crate) type Locked<T> = Result<T, LockError>;

/// Runs a future on this thread, so that its events are here.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    futures_lite::future::block_on(future)
}

/// Polls a future that many times, drops it, and says whether it had finished.
pub(crate) fn cancel_after<T>(polls: usize, future: impl Future<Output = T>) -> bool {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..polls).any(|_| matches!(future.as_mut().poll(&mut context), Poll::Ready(_)))
}

/// A place to be cancelled in.
pub(crate) async fn pause() {
    futures_lite::future::yield_now().await;
}

/// Returns the locks that were taken, by name, and forgets all events.
pub(crate) fn acquired() -> Vec<String> {
    events::take().iter().filter_map(|e| Some(e.strip_prefix("acquire ")?.to_owned())).collect()
}
