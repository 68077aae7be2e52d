//! A caller of this process that waits in a local queue.

use std::sync::Arc;
use std::time::Duration;

use crate::base::caller::Caller;
use crate::base::clock::Instant;
use crate::base::mode::Mode;
use crate::base::policy::{Handoffs, StopAt};

/// How a waiter wants the lock to be treated while it holds it and afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePolicy {
    /// How long tasks may pass it to each other.
    pub handoffs: Handoffs,
    /// How long the node is kept after the last release; zero for not at all.
    pub linger: Duration,
    /// When the lease counts as lost. The same for all in the queue of a lock.
    pub stop_at: StopAt,
}

/// What is known of a waiter. It wants a lock in a mode, or permits.
#[derive(Clone, Debug)]
pub struct Waiter<W = Mode> {
    /// The task or thread.
    pub who: Caller,
    /// What it wants.
    pub wants: W,
    /// Since when it waits.
    pub since: Instant,
    /// Whether it waits for ZooKeeper's reply only, and not for other contenders.
    pub once: bool,
    /// Its policy.
    pub queue_policy: QueuePolicy,
    /// Its label.
    pub label: Option<Arc<str>>,
    /// The number of callers of this process that were ahead when it came.
    pub ahead: u32,
}
