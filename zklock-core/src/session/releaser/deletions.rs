//! The deletions of several nodes, or of one that nobody of this process may want.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::deletion::Deletion;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::wakes::Together;

/// The deletions of all nodes that a holder had, or of none. Resolves when all of them are gone, or with
/// the first error; the others then go on in the background.
#[derive(Debug, Default)]
pub struct Deletions {
    all: Vec<Deletion>,
    /// What is to be deleted is not known yet.
    undecided: Option<Box<Undecided>>,
}

#[derive(Debug)]
struct Undecided {
    told: oneshot::Receiver<Deletions>,
    together: Together,
}

impl Deletions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.undecided.is_none()
    }

    /// These, and those that are decided later. None of these, if nobody decides any more.
    pub fn and_later(self, told: oneshot::Receiver<Deletions>) -> Self {
        let together = Together::default();
        Deletions { undecided: Some(Box::new(Undecided { told, together })), ..self }
    }

    /// Waits until it is known what is to be deleted.
    fn poll_decided(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(Undecided { told, together }) = self.undecided.as_deref_mut() {
            let decided = ready!(Pin::new(told).poll(&mut together.context(cx)));
            let Deletions { all, undecided } = decided.unwrap_or_default();
            self.all.extend(all);
            self.undecided = undecided;
        }
        Poll::Ready(())
    }
}

impl FromIterator<Deletion> for Deletions {
    fn from_iter<I: IntoIterator<Item = Deletion>>(deletions: I) -> Self {
        Deletions { all: deletions.into_iter().collect(), undecided: None }
    }
}

impl Future for Deletions {
    type Output = Result<(), RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.poll_decided(cx));
        let mut refused = None;
        // What counts as gone is dropped, and so sent again, however long another one takes.
        self.all.retain_mut(|one| match Pin::new(one).poll(cx) {
            Poll::Ready(outcome) => {
                refused = refused.take().or(outcome.err());
                false
            }
            Poll::Pending => true,
        });
        match refused {
            Some(error) => Poll::Ready(Err(error)),
            None if self.all.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}
