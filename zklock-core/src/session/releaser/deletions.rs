//! The deletions of several nodes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::deletion::Deletion;
use crate::coordinator::traits::RequestError;

/// The deletions of all nodes that a holder had, or of none. Resolves when all of them are gone, or with
/// the first error; the others then go on in the background.
#[derive(Debug, Default)]
pub struct Deletions(Vec<Deletion>);

impl Deletions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Deletion> for Deletions {
    fn from_iter<I: IntoIterator<Item = Deletion>>(deletions: I) -> Self {
        Deletions(deletions.into_iter().collect())
    }
}

impl Future for Deletions {
    type Output = Result<(), RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut refused = None;
        // What counts as gone is dropped, and so sent again, however long another one takes.
        self.0.retain_mut(|one| match Pin::new(one).poll(cx) {
            Poll::Ready(outcome) => {
                refused = refused.take().or(outcome.err());
                false
            }
            Poll::Pending => true,
        });
        match refused {
            Some(error) => Poll::Ready(Err(error)),
            None if self.0.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}
