//! What the tests share.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use zklock::{LockError, LockName, events};

pub(crate) type Locked<T> = Result<T, LockError>;

/// Runs a future on this thread, so that its events are here.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    futures_lite::future::block_on(future)
}

thread_local! {
    /// How many pauses to go on through.
    static PAUSES: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs a future to one of its pauses, from 1, and drops it there. Says whether it had finished.
pub(crate) fn cancel_at(pause: usize, future: impl Future<Output = impl Sized>) -> bool {
    PAUSES.set(Some(pause));
    let mut future = pin!(future);
    let finished = wait(poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending if PAUSES.get() == Some(0) => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
    }));
    PAUSES.set(None);
    finished
}

/// A place to be cancelled in.
pub(crate) async fn pause() {
    let left = PAUSES.get().map(|left| left.saturating_sub(1));
    PAUSES.set(left);
    if left == Some(0) {
        std::future::pending::<()>().await;
    }
    futures_lite::future::yield_now().await;
}

/// An error to end with.
pub(crate) fn failure() -> LockError {
    LockName::new("").unwrap_err()
}

/// An error that is a text.
#[derive(Debug, PartialEq)]
pub(crate) struct Text(pub(crate) String);

impl From<LockError> for Text {
    fn from(error: LockError) -> Self {
        Self(error.to_string())
    }
}

/// Returns the locks that were taken, by name, and forgets all events.
pub(crate) fn acquired() -> Vec<String> {
    events::take().iter().filter_map(|e| Some(e.strip_prefix("acquire ")?.to_owned())).collect()
}
