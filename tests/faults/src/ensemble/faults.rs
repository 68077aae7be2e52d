//! What is done to the servers, and when nothing is done to anybody.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use zklock_test_support::{Ensemble, monotonic_ns};

use super::history::Writer;
use super::random::Random;
use super::run::SESSION_TIMEOUT;
use super::work::Work;

/// How long faults begin, and for how long, at least, when the last of them is over, there is none, so
/// that everybody comes to rest and what is promised for quiet days is seen to be kept, too.
const STORM: Duration = Duration::from_millis(8_000);
const CALM: Duration = Duration::from_millis(7_000);
/// How much longer it is, at most, where they took long to heal.
const LONGER: Duration = Duration::from_millis(20_000);

/// What all kinds of faults need.
pub(super) struct Stage<'a> {
    pub(super) ensemble: &'a Ensemble,
    pub(super) history: &'a Writer,
    pub(super) work: &'a Work,
    pub(super) over: &'a AtomicBool,
    /// Nothing is broken for a while.
    pub(super) calm: &'a AtomicBool,
    /// What is broken now.
    pub(super) broken: AtomicUsize,
    /// How often there was nothing broken for a whole while.
    pub(super) calms: AtomicUsize,
    /// Everybody has left.
    pub(super) done: &'a AtomicBool,
    pub(super) counts: Mutex<BTreeMap<String, u64>>,
    /// From the end of a leader to the next grant, in milliseconds.
    pub(super) failover_ms: AtomicU64,
}

impl Stage<'_> {
    pub(super) fn count(&self, what: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Notes what is done to a client, or without one to the servers.
    pub(super) fn note(&self, what: &str, client: Option<&str>) {
        self.count(what);
        self.broken.fetch_add(1, Ordering::SeqCst);
        self.write("fault", what, client);
    }

    /// Notes that it is over.
    pub(super) fn healed(&self, what: &str, client: Option<&str>) {
        self.write("healed", what, client);
        self.broken.fetch_sub(1, Ordering::SeqCst);
    }

    fn write(&self, field: &str, what: &str, client: Option<&str>) {
        let mut line = json!({ field: what });
        if let Some(client) = client {
            line["client"] = json!(client);
        }
        self.history.note(line);
    }

    /// Changes between storm and calm until it is over.
    pub(super) fn weather(&self) {
        while !self.is_over() {
            self.pause(STORM);
            self.calm.store(true, Ordering::SeqCst);
            // What has begun takes a while to heal: a server that starts, and finds the others. The calm is longer
            // by that, or a slow machine would have hardly a quiet day.
            let healing = Instant::now();
            while self.broken.load(Ordering::SeqCst) > 0 && !self.is_over() {
                thread::sleep(Duration::from_millis(20));
            }
            self.pause(CALM + healing.elapsed().min(LONGER));
            self.calms.fetch_add(usize::from(!self.is_over()), Ordering::SeqCst);
            self.calm.store(false, Ordering::SeqCst);
        }
    }

    /// Waits while nothing may be broken.
    pub(super) fn wait_for_storm(&self) {
        while self.calm.load(Ordering::SeqCst) && !self.is_over() {
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Waits, but not beyond the end.
    pub(super) fn pause(&self, time: Duration) {
        let limit = Instant::now() + time;
        while !self.is_over() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Breaks servers, one after the other, until it is over; then all serve.
    pub(super) fn servers(&self, mut random: Random) {
        let mut turn = random.below(6);
        while !self.is_over() {
            self.wait_for_storm();
            let (leader, followers) = (self.ensemble.leader(), self.ensemble.followers());
            let Some(follower) = followers.first().copied() else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let whom = if turn.is_multiple_of(2) { leader } else { follower };
            let role = if whom == leader { "leader" } else { "follower" };
            let server = self.ensemble.server(whom);
            let from = monotonic_ns();
            let what;
            match turn % 6 {
                0 | 1 => {
                    what = format!("{role} killed");
                    self.note(&what, None);
                    server.kill();
                    if whom == leader {
                        self.failover(from);
                    }
                    self.pause(Duration::from_millis(random.below(1_500)));
                    self.ensemble.restart(whom);
                }
                2 | 3 => {
                    what = format!("{role} stopped");
                    self.note(&what, None);
                    server.pause();
                    self.pause(SESSION_TIMEOUT.mul_f64(0.5 + 0.5 * random.below(4) as f64));
                    server.resume();
                }
                _ => {
                    what = format!("{role} cut off");
                    self.note(&what, None);
                    self.ensemble.isolate(whom);
                    self.pause(SESSION_TIMEOUT.mul_f64(0.5 + 0.5 * random.below(4) as f64));
                    self.ensemble.heal(whom);
                }
            }
            turn += 1;
            self.quorum();
            self.healed(&what, None);
            if turn.is_multiple_of(8) {
                for index in 0..self.ensemble.servers().len() {
                    self.wait_for_storm();
                    self.note("rolling restart", None);
                    self.ensemble.restart(index);
                    self.quorum();
                    self.healed("rolling restart", None);
                }
            }
            self.pause(Duration::from_millis(300 + random.below(1_200)));
        }
    }

    /// Waits until all three serve together.
    fn quorum(&self) {
        let limit = Instant::now() + Duration::from_secs(60);
        while self.ensemble.followers().len() < 2 {
            assert!(Instant::now() < limit, "the servers do not find together");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Notes how long it takes until somebody is granted something again.
    fn failover(&self, from: u64) {
        let limit = Instant::now() + Duration::from_secs(60);
        // Answers that were on their way do not count.
        thread::sleep(Duration::from_millis(100));
        let settled = monotonic_ns();
        while self.work.last_grant() < settled && !self.is_over() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(10));
        }
        if self.work.last_grant() >= settled {
            let took = (self.work.last_grant() - from) / 1_000_000;
            self.failover_ms.fetch_max(took, Ordering::SeqCst);
        }
    }
}
