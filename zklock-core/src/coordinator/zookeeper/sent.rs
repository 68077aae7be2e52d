//! Sending a request at the call.
//!
//! The methods of the client library send when they are called, but the returned futures borrow the
//! client and the path. An `async` block can own both, but calls the method only when it is polled.
//! So it is polled once when it is created.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Polls `work` up to the first point where it waits, which is after its request was sent.
pub(super) fn sent<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    let mut work = Box::pin(work);
    // Nobody is woken by this poll. Nothing is lost: the caller polls the future again, and a
    // future checks its state before it waits for a waker.
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Box::pin(ready(output)),
        Poll::Pending => work,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[tokio::test]
    async fn work_begins_at_birth_in_order_and_ends_with_its_answer() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let (senders, replies): (Vec<_>, Vec<_>) = (0..3)
            .map(|i| {
                let (sender, receiver) = tokio::sync::oneshot::channel();
                let log = log.clone();
                let reply = sent(async move {
                    log.lock().unwrap().push(i);
                    receiver.await.unwrap()
                });
                (sender, reply)
            })
            .unzip();
        assert_eq!(*log.lock().unwrap(), [0, 1, 2]);
        let answers = tokio::spawn(async move {
            let mut answers = Vec::new();
            for reply in replies {
                answers.push(reply.await);
            }
            answers
        });
        for (i, sender) in senders.into_iter().enumerate() {
            sender.send(i).unwrap();
        }
        assert_eq!(answers.await.unwrap(), [0, 1, 2]);
    }

    #[tokio::test]
    async fn work_that_is_done_at_birth_is_not_polled_again() {
        assert_eq!(sent(async { 1 }).await, 1);
    }
}
