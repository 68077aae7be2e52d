//! The locks on the embedded coordinator: every promise that needs no server, most of them under
//! paused time.

// What cannot be had fails the test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod anew;
mod answers;
mod at_most;
mod attribute;
mod beside;
mod blocking;
mod cancel;
mod connections;
mod crowd;
mod deadlines;
mod delay;
mod exclusive;
mod fair;
mod faults;
mod fenced;
mod foreign;
mod handed_on;
mod handoffs;
mod hidden;
mod hold;
mod inspect;
mod itself;
mod kazoo_semaphore;
mod kinds;
mod layouts;
mod linger;
mod lost_watches;
mod many;
mod multi;
mod multi_in_time;
mod mutex;
mod numbers;
mod observed;
mod options;
mod outage;
mod own_coordinator;
mod panics;
mod phantoms;
mod read_again;
mod reentrancy;
mod revoked;
mod rwlock;
mod said;
mod semaphore;
mod split;
mod staying;
mod step_down;
mod stop_at;
mod support;
mod taken_late;
mod template;
mod tries;
mod tries_in_silence;
mod view;
mod waiters_deleted;
mod wakers;
mod without_watches;

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

/// Starts a task. It is boxed, so that tokio's code for a task is compiled once for each type of result, not
/// once for each test: it was half of what the compiler had to do here.
fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let task: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(task);
    tokio::spawn(task)
}
