//! The messages of a session, and whether the process stood still, so that its session may be over without its
//! knowing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_lite::future::{or, yield_now};

use super::Generation;
use crate::base::clock::Instant;
use crate::base::policy::StopAt;
use crate::base::times;
use crate::base::unharmed::{tell_all, unharmed};
use crate::coordinator::link::Link;

/// A request that is not answered yet, and what its answer leads to.
pub type Pending = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Generation {
    /// Sends a message on a connection that is up, if one is due or to be sent `at_once`, and records that the thread
    /// that sends the messages runs. Returns when the next one is due, and what records the answer. Requests of callers
    /// count for nothing: they may be those of another thread, or none may come. And the client library does not count
    /// the time in which a machine was suspended, so it may be silent for as long as before.
    pub async fn awake(
        self: &Arc<Self>,
        now: Instant,
        link: Link,
        at_once: bool,
    ) -> (Instant, Option<Pending>) {
        self.told_standing.store(0, Ordering::Release);
        if self.self_aware {
            return (Instant::FAR, None);
        }
        let mut answer = None;
        if at_once || now >= self.standstill.due() {
            if link == Link::Up {
                // A read, which the server answers by itself, if it has answered the writes before it.
                let (this, reply) = (self.clone(), self.patient.acl("/"));
                let heard: Pending = Box::pin(async move {
                    if reply.await.map_or_else(|error| error.is_definite(), |_| true) {
                        this.heard.answered(now, this.lease.clock().now());
                    }
                });
                answer = Some(heard);
                // A task of the client library writes it, which was woken before this one.
                yield_now().await;
            }
            let later = self.lease.clock().now();
            if self.standstill.runs(now, later) {
                self.leave_if_too_long(later);
            }
        }
        (self.standstill.due(), answer)
    }

    /// Looks on any thread whether that one stands still.
    pub(super) fn look_whether_awake(&self, now: Instant) {
        // Nobody records any more that the thread of a generation that has ended runs.
        let is_kept = !self.self_aware && self.end.get().is_none();
        if is_kept && self.standstill.looks(now) {
            // The keeper's timers may not count the time in which a machine was suspended, and the keeper's
            // thread may be the one that stands still. Each commit finds that, and all look only if their
            // leases are less safe than the last time.
            let condition = 1 + self.lease.condition(now) as u8;
            if self.told_standing.swap(condition, Ordering::AcqRel) != condition {
                tell_all(&self.changed);
                self.look_at_all();
            }
            self.leave_if_too_long(now);
        }
    }

    /// If it stood still for longer than a lease, a new session serves sooner than this one could be
    /// trusted.
    fn leave_if_too_long(&self, now: Instant) {
        if self.standstill.was_too_long(now) && !self.was_retired() {
            self.take_out_of_use();
            let session = format!("{:#x}", self.coordinator.session_id());
            unharmed(|| {
                tracing::warn!(
                    session,
                    "the process stood still: a new ZooKeeper session is opened"
                );
            });
        }
    }

    /// When a commit proves as much as usual, if it does not yet, and enough is answered by now.
    pub fn settles_at(&self, now: Instant) -> Option<Instant> {
        if self.self_aware { None } else { self.heard.settles_at(now, Duration::ZERO) }
    }

    /// Waits until a commit proves enough for a grant, or the generation is retired. But no longer than two messages
    /// need to be known: while answers are slow, no commit does.
    pub async fn settled(&self, stop_at: StopAt) {
        // As much again is left for the answer.
        let slack = match stop_at {
            StopAt::Lost => self.lease.timing().suspect_after / 2,
            StopAt::Suspect => self.lease.heartbeat() / 2,
        };
        let settling = async {
            let clock = self.lease.clock();
            let long = self.lease.timeout() / times::MESSAGES + self.heard.told();
            let latest = clock.now() + 2 * long;
            loop {
                let now = clock.now();
                if self.self_aware || self.heard.is_settled(now, slack) || now >= latest {
                    break;
                }
                let at = self.heard.settles_at(now, slack);
                clock.sleep_until(at.unwrap_or(now + long / 8)).await;
            }
        };
        or(settling, self.until(|| self.is_retired())).await;
    }

    /// Whether the process stood still for longer than a lease.
    pub(super) fn stood_still(&self, now: Instant) -> bool {
        !self.self_aware && self.standstill.was_too_long(now)
    }
}
