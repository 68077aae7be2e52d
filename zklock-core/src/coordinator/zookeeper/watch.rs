//! Watches that end without a panic.

use std::panic::AssertUnwindSafe;

use futures_lite::FutureExt as _;
use futures_lite::future::or;
use tokio::sync::watch::Receiver;
use zookeeper_client::{EventType, OneshotWatcher, WatchedEvent};

use crate::coordinator::link::Link;
use crate::coordinator::watch::{Watch, WatchEvent};

/// Waits for the watcher, or for the end of the session.
pub(super) fn watch(watcher: OneshotWatcher, mut over: Receiver<Option<Link>>) -> Watch {
    // The client library panics when the task that would fire the watch is gone.
    let seen = AssertUnwindSafe(watcher.changed()).catch_unwind();
    Box::pin(or(
        async move {
            // The end of the session is checked first, to avoid that.
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
