//! Gauges, which are set when somebody asks, and the buckets of the histograms.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{counter, gauge};

use crate::base::session_state::SessionState;
use crate::observe::metrics::{
    DIVERGED, DROPPED, HELD, LEASE, OVERDUE, SESSIONS, STUCK, UNDELETED, WAITING, begin_at_zero,
    describe, use_of, used,
};
use crate::session::handle::{Session, WeakSession};
use crate::session::timing::Timing;

/// The sessions with metrics.
static SESSIONS_WITH: Mutex<Vec<WeakSession>> = Mutex::new(Vec::new());

/// Adds a session to those whose gauges are set.
pub fn add(session: &Session) {
    describe();
    let mut sessions = SESSIONS_WITH.lock().unwrap_or_else(PoisonError::into_inner);
    sessions.retain(WeakSession::is_alive);
    sessions.push(session.downgrade());
}

/// Sets the gauges of all sessions of this process that were built with
/// [`metrics`](crate::session::builder::SessionBuilder::metrics). Call it before the metrics are read
/// or sent: in the handler of `/metrics`, or every few seconds.
///
/// ```
/// use zklock::{Embedded, Session};
///
/// let session = Session::embedded_builder(&Embedded::new()).metrics().open()?;
/// // For each request for the metrics:
/// zklock::metrics::sample();
/// # Ok::<(), zklock::LockError>(())
/// ```
pub fn sample() {
    let mut sessions = SESSIONS_WITH.lock().unwrap_or_else(PoisonError::into_inner);
    let living: Vec<_> = sessions.iter().filter_map(WeakSession::upgrade).collect();
    sessions.retain(WeakSession::is_alive);
    drop(sessions);
    // A recorder may have been installed after the sessions were opened.
    describe();
    // Those that nobody uses any more are zero.
    let mut counts: BTreeMap<_, [u32; 2]> = used().iter().map(|key| (*key, [0; 2])).collect();
    let (mut states, mut margin) = ([0; STATES.len()], f64::INFINITY);
    let (mut undeleted, mut overdue) = (0, 0);
    for session in &living {
        if let Some(at) = STATES.iter().position(|state| *state == session.state()) {
            states[at] += 1;
        }
        session.local_queues().tally(&mut |pattern, mode, granted| {
            // Only counted: the queue is locked, and a recorder may do anything.
            let count = counts.entry((pattern.text(), mode.as_str())).or_default();
            count[usize::from(granted)] += 1;
        });
        for generation in session.generations() {
            undeleted += generation.undeleted();
            overdue += generation.overdue();
            if let Some(left) = generation.margin() {
                margin = margin.min(left.as_secs_f64());
            }
        }
    }
    for ((pattern, mode), [waiting, held]) in counts {
        use_of(pattern, mode);
        // Also in a recorder that was installed after the first use.
        begin_at_zero(pattern, mode);
        gauge!(WAITING, "pattern" => pattern, "mode" => mode).set(waiting);
        gauge!(HELD, "pattern" => pattern, "mode" => mode).set(held);
    }
    for (state, count) in STATES.iter().zip(states) {
        gauge!(SESSIONS, "state" => state.as_str()).set(count);
    }
    // So that the first one is a growth, which alerts ask for. With labels each series would begin with its first.
    [STUCK, DIVERGED, DROPPED].into_iter().for_each(|name| counter!(name).increment(0));
    gauge!(UNDELETED).set(undeleted as f64);
    gauge!(OVERDUE).set(overdue as f64);
    gauge!(LEASE).set(margin);
}

const STATES: [SessionState; 5] = [
    SessionState::Connecting,
    SessionState::Connected,
    SessionState::Suspended,
    SessionState::Draining,
    SessionState::Closed,
];

/// Returns upper bounds in seconds, for the histograms of waiting and holding: half a millisecond to
/// half a second as usual, and then the times that matter to a lock. These are a heartbeat (a sixth of
/// the session timeout T), the time until a silent session is suspect (T/3), the lease, and 1, 2, 6 and
/// 30 times T.
///
/// A caller that waits for longer than a heartbeat waits for a holder whose node is checked; one that
/// waits for longer than T, for a holder that has probably not crashed. A lock that is held for longer than the
/// lease depends on ZooKeeper's answers.
///
/// ```
/// # let session = zklock::Session::embedded();
/// if let Some(timing) = session.timing() {
///     let buckets = zklock::metrics::buckets(&timing);
///     assert!(buckets.contains(&timing.lease.as_secs_f64()) && buckets.is_sorted());
/// }
/// ```
pub fn buckets(timing: &Timing) -> Vec<f64> {
    const SHORT: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5];
    let Timing { session_timeout, heartbeat, suspect_after, lease, .. } = *timing;
    let longer = [1, 2, 6, 30].map(|times| session_timeout * times);
    let known = [heartbeat, suspect_after, lease].into_iter().chain(longer);
    let short = SHORT.into_iter().filter(|bound| *bound < heartbeat.as_secs_f64());
    let mut buckets: Vec<f64> =
        short.chain(known.map(|time: Duration| time.as_secs_f64())).collect();
    buckets.sort_by(f64::total_cmp);
    buckets.dedup();
    buckets
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use futures_lite::future::block_on;
    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;
    use crate::base::mode::Mode;
    use crate::observe::metrics::tests::Counters;
    use crate::observe::metrics::{Counting, REASONS};
    use crate::observe::observer::{Event, Observer};

    /// Asks a session for each counter.
    struct Asks(Session);

    impl Recorder for Asks {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            assert_eq!(self.0.local_contenders().len(), 1);
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_recorder_may_ask_the_session_whose_gauges_are_set() {
        let (tell, told) = mpsc::channel();
        // All of it, because a session that hangs would hang who drops it.
        thread::spawn(move || {
            let session = Session::embedded();
            let mutex = session.mutex("a_recorder_may_ask").unwrap();
            let held = block_on(mutex.acquire()).unwrap();
            add(&session);
            metrics::with_local_recorder(&Asks(session), sample);
            drop(held);
            let _ = tell.send(());
        });
        told.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn what_is_rare_begins_at_zero_also_in_a_recorder_that_comes_later() {
        // Others in this process do not use this pattern.
        let (pattern, mode, waited) = ("before/the-recorder", Mode::Mutex, Duration::ZERO);
        let cancelled = Event::Cancelled { lock: "a".into(), pattern, mode, waited };
        Counting.event(&cancelled);
        let counters = Counters::in_work(sample);
        for reason in REASONS {
            let count = counters.get(&format!("zklock_lost_total {pattern} mutex {reason}"));
            assert_eq!(count, Some(&0), "{counters:?}");
        }
        let revoked = Event::Revoked { lock: "a".into(), pattern, mode, czxid: 1, token: None };
        let counters = Counters::in_work(|| {
            Counting.event(&revoked);
            sample();
        });
        let count = counters.get(&format!("zklock_revoked_total {pattern} mutex"));
        assert_eq!(count, Some(&1), "{counters:?}");
    }
}
