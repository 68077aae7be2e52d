//! The releaser: deletes every node of this session that is no longer wanted, whatever was
//! cancelled and whichever request or reply was lost.
//!
//! Its futures send their request when they are created. If they are dropped before they are done,
//! they continue in the background, for as long as the ZooKeeper session lives.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

mod creation;
mod deletion;
mod deletions;
mod replies;

pub use creation::PendingCreate;
pub use deletion::{DeleteOptions, Deletion, Doomed, Told, Which};
pub use deletions::Deletions;
pub use replies::{back_off, in_time, more, or_forgotten, or_read_behind};

/// The turn of a creation, where one at a time may be under way in a directory.
pub type Turn = Option<tokio::sync::OwnedMutexGuard<()>>;

type Background<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Work that continues in the background if its owner is dropped before the end.
struct Unfinished<T>(Option<Background<T>>);

impl<T> Unfinished<T> {
    fn take(&mut self) -> Option<Background<T>> {
        self.0.take()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else { return Poll::Pending };
        let output = ready!(work.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(output)
    }
}

impl<T> std::fmt::Debug for Unfinished<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Unfinished" } else { "Finished" })
    }
}
