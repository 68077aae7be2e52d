//! The table of all metrics, and how events are counted, on the facade `metrics`. Gauges are in
//! [`gauges`](crate::observe::gauges).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, histogram};

use crate::base::mode::Mode;
use crate::observe::observer::{Event, GrantedBy, LossReason, Observer};
use crate::observe::spans::{how, outcome};

/// The kind of a metric.
///
/// ```
/// use zklock::metrics::{MetricKind, all};
///
/// let gauges = all().iter().filter(|metric| metric.kind == MetricKind::Gauge);
/// assert!(gauges.count() >= 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down. It is set by [`sample`](crate::observe::gauges::sample).
    Gauge,
    /// Times in seconds, in buckets.
    Histogram,
}

/// A metric. [`all`] returns the table.
///
/// ```
/// for metric in zklock::metrics::all() {
///     println!("{} {:?} {:?}: {}", metric.name, metric.kind, metric.labels, metric.about);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it counts or measures, and the values of `outcome` and `reason`.
    pub about: &'static str,
}

const LOCK: &[&str] = &["pattern", "mode"];
const ENDED: &[&str] = &["pattern", "mode", "outcome"];
const LOSSES: &[&str] = &["pattern", "mode", "reason"];

macro_rules! table {
    ($($constant:ident $kind:ident $name:literal $labels:expr, $about:literal;)*) => {
        $(pub(super) const $constant: &str = $name;)*

        const ALL: &[Metric] = &[$(Metric {
            name: $name,
            kind: MetricKind::$kind,
            labels: $labels,
            about: $about,
        },)*];
    };
}

table! {
    ACQUIRES Counter "zklock_acquires_total" ENDED, "Acquires that ended: `node`, `handoff`, `scope` or `downgrade` if the lock was granted so, else `busy`, `unavailable`, `closing`, `cancelled`, `deadlock` or `error`.";
    WAIT Histogram "zklock_wait_seconds" ENDED, "The time that callers waited: `acquired` (except those that were granted the lock inside a call that holds it, or by a downgrade), `failed` or `cancelled`.";
    TRIES_ENDED Counter "zklock_tries_ended_total" LOCK, "Tries of calls with a deadline that ended without the lock, the last one of each call included; none of a call that asks once (`try_acquire`, `try_once`), is nested, or is refused.";
    HOLD Histogram "zklock_hold_seconds" LOCK, "The time from the grant to the release.";
    RELEASES Counter "zklock_releases_total" ENDED, "Releases: `released`, or `refused` if the server refused to delete the node.";
    HANDOFFS Counter "zklock_handoffs_total" LOCK, "Locks that a holder passed to the next caller of its process.";
    SUSPECT Counter "zklock_suspect_total" LOCK, "Held locks whose session became suspect.";
    LOST Counter "zklock_lost_total" LOSSES, "Held locks that were lost: by `silence`, because the session was `suspect`, because the ZooKeeper session was over (`session_ended`), because the node was `deleted`, `broken` by this process, or because a body ended when somebody asked for the release (`revoked`): that one was held to the end. Also a node that lingered, which nobody held.";
    REVOKED Counter "zklock_revoked_total" LOCK, "Held locks whose release somebody asked for.";
    HELD_TOO_LONG Counter "zklock_overtime_total" LOCK, "Locks that were held for longer than `hold_at_most`.";
    STUCK Counter "zklock_stuck_nodes_total" &[], "Nodes that the server refused to delete.";
    DIVERGED Counter "zklock_diverged_total" &[], "Nodes that a server shows and its leader does not know.";
    HEARTBEAT Histogram "zklock_heartbeat_seconds" &[], "The time until a heartbeat was answered.";
    STATES Counter "zklock_session_states_total" &["state"], "Changes of a session into this state: `connecting`, `connected`, `suspended`, `draining` or `closed`.";
    DROPPED Counter "zklock_events_dropped_total" &[], "Events that are missing in these metrics, because there were too many at once.";
    HELD Gauge "zklock_held" LOCK, "Locks that this process holds.";
    WAITING Gauge "zklock_waiting" LOCK, "Callers of this process that wait in the queue of a lock. Calls inside one that holds the lock, which wait for each other, are not in the queue.";
    SESSIONS Gauge "zklock_sessions" &["state"], "Sessions of this process in this state.";
    UNDELETED Gauge "zklock_undeleted_nodes" &[], "Nodes that are to be deleted, and directories that are being made or deleted, until the servers confirm it; on a busy process rarely 0.";
    OVERDUE Gauge "zklock_overdue_deletions" &[], "Those of them whose deletion failed or was not answered soon, and is asked for again.";
    LEASE Gauge "zklock_lease_margin_seconds" &[], "The time until the first held lock is lost if ZooKeeper answers nothing more; `+Inf` while no node is held or lingers.";
}

/// Returns the table of all metrics.
///
/// ```
/// let named = |name: &str| zklock::metrics::all().iter().any(|metric| metric.name == name);
/// assert!(named("zklock_wait_seconds") && named("zklock_lost_total"));
/// ```
pub fn all() -> &'static [Metric] {
    ALL
}

/// Tells the recorder of the process what each metric is.
pub(super) fn describe() {
    for Metric { name, kind, about, .. } in ALL {
        match kind {
            MetricKind::Counter => describe_counter!(*name, *about),
            MetricKind::Gauge => describe_gauge!(*name, *about),
            MetricKind::Histogram => describe_histogram!(*name, *about),
        }
    }
}

/// Why locks are lost.
pub(super) const REASONS: [&str; 6] =
    ["silence", "suspect", "session_ended", "deleted", "broken", "revoked"];

/// The patterns and modes that this process has used.
static USED: Mutex<BTreeSet<(&'static str, &'static str)>> = Mutex::new(BTreeSet::new());

/// The patterns and modes that this process has used.
pub(super) fn used() -> BTreeSet<(&'static str, &'static str)> {
    USED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Notes a pattern and a mode, at the end of each try and acquire, however it ends.
pub(super) fn use_of(pattern: &'static str, mode: &'static str) {
    if USED.lock().unwrap_or_else(PoisonError::into_inner).insert((pattern, mode)) {
        begin_at_zero(pattern, mode);
    }
}

/// What is rare begins at zero: an alert sees no increase of a counter that begins with one.
pub(super) fn begin_at_zero(pattern: &'static str, mode: &'static str) {
    for name in [SUSPECT, REVOKED, HELD_TOO_LONG] {
        counter!(name, "pattern" => pattern, "mode" => mode).increment(0);
    }
    for outcome in ["busy", "unavailable"] {
        counter!(ACQUIRES, "pattern" => pattern, "mode" => mode, "outcome" => outcome).increment(0);
    }
    for reason in REASONS {
        counter!(LOST, "pattern" => pattern, "mode" => mode, "reason" => reason).increment(0);
    }
}

/// Counts the events of a session.
#[derive(Debug)]
pub struct Counting;

fn count(name: &'static str, pattern: &'static str, mode: Mode) {
    counter!(name, "pattern" => pattern, "mode" => mode.as_str()).increment(1);
}

fn count_end(name: &'static str, pattern: &'static str, mode: Mode, outcome: &'static str) {
    let mode = mode.as_str();
    counter!(name, "pattern" => pattern, "mode" => mode, "outcome" => outcome).increment(1);
}

fn waited(time: Duration, pattern: &'static str, mode: Mode, outcome: &'static str) {
    let mode = mode.as_str();
    histogram!(WAIT, "pattern" => pattern, "mode" => mode, "outcome" => outcome).record(time);
}

impl Observer for Counting {
    fn event(&self, event: &Event) {
        match event {
            Event::State { state } => {
                counter!(STATES, "state" => state.as_str()).increment(1);
            }
            Event::Acquired { pattern, mode, waited: time, by, .. } => {
                use_of(pattern, mode.as_str());
                count_end(ACQUIRES, pattern, *mode, how(*by));
                if !matches!(by, GrantedBy::Scope | GrantedBy::Downgrade) {
                    waited(*time, pattern, *mode, "acquired");
                }
            }
            Event::NotAcquired { pattern, mode, error, waited: time, .. } => {
                use_of(pattern, mode.as_str());
                count_end(ACQUIRES, pattern, *mode, outcome(error));
                waited(*time, pattern, *mode, "failed");
            }
            Event::Cancelled { pattern, mode, waited: time, .. } => {
                use_of(pattern, mode.as_str());
                count_end(ACQUIRES, pattern, *mode, "cancelled");
                waited(*time, pattern, *mode, "cancelled");
            }
            // Before the last try has ended, it is not known that the acquire fails.
            Event::TryEnded { pattern, mode, .. } => {
                use_of(pattern, mode.as_str());
                count(TRIES_ENDED, pattern, *mode);
            }
            // The call around still holds it.
            Event::Released { nested: true, .. } => {}
            Event::Released { pattern, mode, held, error, .. } => {
                let outcome = if error.is_some() { "refused" } else { "released" };
                count_end(RELEASES, pattern, *mode, outcome);
                histogram!(HOLD, "pattern" => *pattern, "mode" => mode.as_str()).record(*held);
            }
            Event::HandedOn { pattern, mode, .. } => count(HANDOFFS, pattern, *mode),
            // The node of somebody who still waits: nobody was granted anything.
            Event::Suspect { token: None, .. } | Event::Lost { token: None, .. } => {}
            Event::Suspect { pattern, mode, .. } => count(SUSPECT, pattern, *mode),
            Event::Lost { pattern, mode, reason, .. } => {
                let [silence, suspect, ended, deleted, broken, revoked] = REASONS;
                let reason = match reason {
                    LossReason::Silence => silence,
                    LossReason::Suspect => suspect,
                    LossReason::SessionEnded => ended,
                    LossReason::Deleted => deleted,
                    LossReason::Broken => broken,
                    LossReason::Revoked => revoked,
                };
                let mode = mode.as_str();
                counter!(LOST, "pattern" => *pattern, "mode" => mode, "reason" => reason)
                    .increment(1);
            }
            Event::Revoked { pattern, mode, .. } => count(REVOKED, pattern, *mode),
            Event::HeldTooLong { pattern, mode, .. } => count(HELD_TOO_LONG, pattern, *mode),
            Event::Heartbeat { took, .. } => histogram!(HEARTBEAT).record(*took),
            Event::StuckNode { .. } => counter!(STUCK).increment(1),
            Event::Diverged { .. } => counter!(DIVERGED).increment(1),
            Event::Dropped { count } => counter!(DROPPED).increment(*count),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
        with_local_recorder,
    };

    use super::*;
    use crate::base::error::LockError;
    use crate::base::error_kind::ErrorKind;

    /// The counters that there are, by name and values of labels.
    #[derive(Default)]
    pub(crate) struct Counters(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Counters {
        /// Those of what is done with a recorder, where nothing was counted before.
        pub(crate) fn in_work(work: impl FnOnce()) -> BTreeMap<String, u64> {
            let counters = Counters::default();
            with_local_recorder(&counters, work);
            let counters = counters.0.into_inner().unwrap().into_iter();
            counters.map(|(name, count)| (name, count.load(Ordering::Relaxed))).collect()
        }

        fn of(event: &Event) -> BTreeMap<String, u64> {
            Counters::in_work(|| Counting.event(event))
        }
    }

    impl Recorder for Counters {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            let labels: String = key.labels().map(|label| format!(" {}", label.value())).collect();
            let mut counters = self.0.lock().unwrap();
            let counter = counters.entry(format!("{}{labels}", key.name())).or_default();
            Counter::from_arc(counter.clone())
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn each_event_that_was_dropped_is_counted() {
        let counters = Counters::of(&Event::Dropped { count: 3 });
        assert_eq!(counters, BTreeMap::from([(DROPPED.to_owned(), 3)]));
    }

    #[test]
    fn what_is_rare_begins_at_zero_also_if_nothing_is_granted() {
        let (lock, waited, mode): (Arc<str>, _, _) = ("a".into(), Duration::ZERO, Mode::Mutex);
        let ended = |pattern| {
            let (lock, error) = (lock.clone(), LockError::new(ErrorKind::Busy, ""));
            Event::NotAcquired { lock, pattern, mode, error, waited }
        };
        let cancelled = |pattern| Event::Cancelled { lock: lock.clone(), pattern, mode, waited };
        let tried = |pattern| {
            let (lock, holder) = (lock.clone(), None);
            Event::TryEnded { lock, pattern, mode, number: 1, holder }
        };
        // Others in this process do not use these patterns.
        for event in [ended("never/ended"), cancelled("never/cancelled"), tried("never/tried")] {
            let counters = Counters::of(&event);
            let (Event::NotAcquired { pattern, .. }
            | Event::Cancelled { pattern, .. }
            | Event::TryEnded { pattern, .. }) = event
            else {
                panic!("{event:?}");
            };
            let count = |name: &str, outcome: &str| {
                counters.get(&format!("{name} {pattern} mutex{outcome}")).copied()
            };
            assert_eq!(count(ACQUIRES, " unavailable"), Some(0), "{counters:?}");
            assert_eq!(count(SUSPECT, ""), Some(0), "{counters:?}");
            for reason in REASONS {
                assert_eq!(count(LOST, &format!(" {reason}")), Some(0), "{counters:?}");
            }
        }
    }
}
