//! Watches that end without a panic.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use futures_lite::future::or;
use tokio::sync::watch::Receiver;
use zookeeper_client::{EventType, OneshotWatcher, WatchedEvent};

use crate::coordinator::link::Link;
use crate::coordinator::watch::{Watch, WatchEvent};

/// Waits for the watcher, or for the end of the session.
pub(super) fn watch(watcher: OneshotWatcher, mut over: Receiver<Option<Link>>) -> Watch {
    let seen = guard(Box::pin(watcher.changed()));
    Box::pin(or(
        async move {
            // The end of the session is checked first, to avoid the client library's panic.
            if over.wait_for(Option::is_some).await.is_err() {
                std::future::pending::<()>().await;
            }
            WatchEvent::SessionEnded
        },
        async move { seen.await.map_or(WatchEvent::SessionEnded, meaning) },
    ))
}

fn meaning(event: WatchedEvent) -> WatchEvent {
    match event.event_type {
        EventType::NodeDeleted => WatchEvent::Deleted,
        EventType::Session => WatchEvent::SessionEnded,
        EventType::NodeCreated | EventType::NodeDataChanged | EventType::NodeChildrenChanged => {
            WatchEvent::Changed
        }
    }
}

/// `None` if the client library panics, as it does when the task that would fire the watch is gone.
async fn guard<T>(mut future: Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
        Err(_) => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_does_not_come_out() {
        assert_eq!(guard(Box::pin(async { 1 })).await, Some(1));
        let panics = async {
            tokio::task::yield_now().await;
            panic!("as the client does")
        };
        assert_eq!(guard(Box::pin(panics)).await, None::<i32>);
    }
}
