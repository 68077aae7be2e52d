//! Metrics of sessions in this process, as Prometheus reads them.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;
use zklock::driver::RequestError;
use zklock::metrics::{MetricKind, all, buckets, sample};
use zklock::testing::{Fault, Op};
use zklock::{
    Embedded, ErrorKind, LockError, LockName, LockOptions, OnRevoked, Session, StopAt,
    ZkLockTemplate, zk_locked,
};

const SECOND: Duration = Duration::from_secs(1);

/// The recorder of the process: one test at a time.
async fn recorder() -> (&'static PrometheusHandle, MutexGuard<'static, ()>) {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    static ALONE: Mutex<()> = Mutex::const_new(());
    let recorder = RECORDER.get_or_init(|| {
        let buckets = buckets(&Session::embedded().timing().unwrap());
        let builder = PrometheusBuilder::new();
        let seconds = Matcher::Suffix("_seconds".to_owned());
        builder.set_buckets_for_metric(seconds, &buckets).unwrap().install_recorder().unwrap()
    });
    (recorder, ALONE.lock().await)
}

fn measured(store: &Embedded) -> Session {
    Session::embedded_builder(store).metrics().open().unwrap()
}

/// The present value of the series with these labels.
fn value(recorder: &PrometheusHandle, name: &str, labels: &[&str]) -> f64 {
    sample();
    let text = recorder.render();
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        rest && labels.iter().all(|label| line.contains(label))
    };
    let values = text.lines().filter(is_it).map(|line| line.rsplit(' ').next().unwrap());
    values.map(|value| value.parse::<f64>().unwrap()).sum()
}

/// Waits until a value is as it should be. The observer's thread may still be counting; it needs real
/// time.
async fn until(what: &str, value: impl Fn() -> f64, holds: impl Fn(f64) -> bool) {
    let start = Instant::now();
    while !holds(value()) {
        assert!(start.elapsed() < 20 * SECOND, "{what} is {}", value());
        std::thread::sleep(Duration::from_millis(5));
        tokio::task::yield_now().await;
    }
}

#[zk_locked("orders/{id}", session = session)]
async fn order(session: &Session, id: u32) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn the_number_of_series_does_not_grow_with_the_names() {
    let (recorder, _alone) = recorder().await;
    let session = measured(&Embedded::new());
    let series = || {
        sample();
        recorder.render().lines().filter(|line| !line.starts_with('#')).count()
    };
    // Or it could not follow.
    let counted = || {
        let calls = value(recorder, "zklock_acquires_total", &["pattern=\"orders/{id}\""]);
        calls + 10_000.0 * value(recorder, "zklock_events_dropped_total", &[])
    };
    let mut before = None;
    for round in 0..10 {
        for id in 0..1_000 {
            let id = 1_000 * round + id;
            order(&session, id).await.unwrap();
            // A name that is given as text.
            drop(session.mutex(format!("text/{id}")).unwrap().acquire().await.unwrap());
            if id % 10 == 0 {
                drop(session.rw_lock(format!("text/{id}")).unwrap().read().await.unwrap());
                let semaphore = session.semaphore(format!("permits/{id}"), 2).unwrap();
                drop(semaphore.acquire().await.unwrap());
            }
        }
        let calls = f64::from(1_000 * (round + 1));
        until("the number of calls", counted, |counted| counted >= calls).await;
        let series = series();
        assert_eq!(*before.get_or_insert(series), series, "after {round} thousand names");
    }
    let text = recorder.render();
    assert!(text.contains("orders/{id}") && !text.contains("text/") && !text.contains("permits/"));
}

#[tokio::test(start_paused = true)]
async fn acquires_waits_holds_and_losses_are_counted_by_how_they_end() {
    let (recorder, _alone) = recorder().await;
    let store = Embedded::new();
    let session = measured(&store);
    let name = LockName::new("counted/7").unwrap().with_pattern("counted");
    let mine = "pattern=\"counted\"";
    let is = async |name: &str, more: &str, count: f64| {
        until(name, || value(recorder, name, &[mine, more]), |value| value == count).await;
    };
    let mutex = session.mutex(&name).unwrap();
    let mutex = mutex.with_options(LockOptions::new().timeout(SECOND).retries(2));
    let held = mutex.acquire().await.unwrap();
    is("zklock_held", "mode=\"mutex\"", 1.0).await;
    held.scope(async { drop(mutex.acquire().await.unwrap()) }).await;
    let waiting = mutex.clone();
    let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    sleep(3 * SECOND).await;
    is("zklock_waiting", "", 1.0).await;
    drop(held);
    let handed = waiting.await.unwrap();
    assert!(mutex.acquire_tries().await.unwrap_err().is_busy());
    assert!(tokio::time::timeout(SECOND, mutex.acquire()).await.is_err());
    handed.release().await.unwrap();
    let outcomes =
        [("node", 1.0), ("scope", 1.0), ("handoff", 1.0), ("busy", 1.0), ("cancelled", 1.0)];
    for (outcome, count) in outcomes {
        let label = format!("outcome=\"{outcome}\"");
        is("zklock_acquires_total", &label, count).await;
    }
    is("zklock_tries_ended_total", "", 2.0).await;
    is("zklock_handoffs_total", "", 1.0).await;
    is("zklock_releases_total", "outcome=\"released\"", 2.0).await;
    is("zklock_hold_seconds_count", "", 2.0).await;
    is("zklock_wait_seconds_count", "outcome=\"acquired\"", 2.0).await;
    let waited = value(recorder, "zklock_wait_seconds_sum", &[mine, "outcome=\"acquired\""]);
    assert!((3.0..3.1).contains(&waited), "{waited}");
    let held = value(recorder, "zklock_hold_seconds_sum", &[mine]);
    assert!((6.0..6.1).contains(&held), "{held}");
    for (outcome, seconds) in [("failed", 2.0), ("cancelled", 1.0)] {
        let label = format!("outcome=\"{outcome}\"");
        is("zklock_wait_seconds_count", &label, 1.0).await;
        let waited = value(recorder, "zklock_wait_seconds_sum", &[mine, &label]);
        assert!((seconds..seconds + 0.1).contains(&waited), "{outcome}: {waited}");
    }
    is("zklock_held", "", 0.0).await;
    is("zklock_waiting", "", 0.0).await;
    // What is rare is there, and zero.
    assert!(
        recorder
            .render()
            .contains("zklock_lost_total{pattern=\"counted\",mode=\"mutex\",reason=\"silence\"} 0")
    );
    let held =
        mutex.with_options(LockOptions::new().stop_at(StopAt::Lost)).acquire().await.unwrap();
    let margin = value(recorder, "zklock_lease_margin_seconds", &[]);
    assert!(margin.is_finite() && margin > 0.0, "{margin}");
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    sleep(SECOND / 10).await;
    is("zklock_suspect_total", "", 1.0).await;
    assert_eq!(value(recorder, "zklock_sessions", &["state=\"suspended\""]), 1.0);
    held.lost().await;
    is("zklock_lost_total", "", 1.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_deletion_is_not_confirmed_is_counted_until_it_is() {
    let (recorder, _alone) = recorder().await;
    let store = Embedded::new();
    let session = measured(&store);
    let undeleted = || value(recorder, "zklock_undeleted_nodes", &[]);
    let [a, b] = ["a", "b"].map(|name| session.mutex(name).unwrap());
    let (a, b) = (a.acquire().await.unwrap(), b.acquire().await.unwrap());
    assert_eq!(undeleted(), 0.0);
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_replies();
    for (guard, count) in [(a, 1.0), (b, 2.0)] {
        drop(guard);
        sleep(SECOND).await;
        assert_eq!(undeleted(), count);
    }
    faults.release();
    sleep(SECOND).await;
    assert_eq!(undeleted(), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_overdue_once_it_is_asked_for_again() {
    let (recorder, _alone) = recorder().await;
    let store = Embedded::new();
    let session = measured(&store);
    let overdue = || value(recorder, "zklock_overdue_deletions", &[]);
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let mutex = session.mutex("a").unwrap();
    let held = mutex.acquire().await.unwrap();
    let throttled = RequestError::Other("throttled".to_owned());
    faults.inject(Fault::refuse(throttled).on(Op::Delete).times(u64::MAX));
    assert_eq!(overdue(), 0.0);
    drop(held);
    sleep(60 * SECOND).await;
    assert_eq!(overdue(), 1.0);
    faults.clear();
    sleep(60 * SECOND).await;
    assert_eq!(overdue(), 0.0);
}

#[tokio::test(start_paused = true)]
async fn the_margin_is_the_rest_of_the_lease() {
    let (recorder, _alone) = recorder().await;
    let store = Embedded::new();
    let session = measured(&store);
    let margin = || value(recorder, "zklock_lease_margin_seconds", &[]);
    let lease = session.timing().unwrap().lease.as_secs_f64();
    assert_eq!(margin(), f64::INFINITY);
    let held = session.mutex("a").unwrap().acquire().await.unwrap();
    let granted = margin();
    assert!(granted <= lease && granted > lease / 2.0, "{granted} of {lease}");
    sleep(60 * SECOND).await;
    let kept = margin();
    assert!(kept <= lease && kept > lease / 2.0, "{kept} of {lease}");
    store.faults(session.zookeeper_session().unwrap().id).silence();
    sleep(SECOND).await;
    let silent = margin();
    assert!(silent <= kept - 1.0 && silent > kept - 1.1, "{silent} after {kept}");
    drop(held);
    assert_eq!(margin(), f64::INFINITY);
}

/// Waits until the counters of a pattern that are not zero are these: metric, mode, outcome or reason, and
/// count.
async fn counted(recorder: &PrometheusHandle, pattern: &str, expected: &[&str]) {
    let start = Instant::now();
    loop {
        let text = recorder.render();
        let counters = text.lines().filter_map(|line| {
            let (metric, rest) = line.strip_prefix("zklock_")?.split_once("_total{pattern=\"")?;
            let rest = rest.strip_prefix(pattern)?.strip_prefix("\",mode=\"")?;
            let rest = rest.replace("\",outcome=\"", " ").replace("\",reason=\"", " ");
            let rest = rest.replace("\"}", "");
            (!rest.ends_with(" 0")).then(|| format!("{metric} {rest}"))
        });
        let counters: BTreeSet<_> = counters.collect();
        if counters.iter().eq(expected) {
            return;
        }
        assert!(start.elapsed() < 20 * SECOND, "{counters:?} instead of {expected:?}");
        std::thread::sleep(Duration::from_millis(5));
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_rare_is_counted_once_under_its_pattern_its_mode_and_its_outcome() {
    let (recorder, _alone) = recorder().await;
    let store = Embedded::new();
    let session = measured(&store);
    let elsewhere = Session::embedded_builder(&store).open().unwrap();
    // The value in a name is in no metric.
    let name = |pattern: &'static str| {
        LockName::new(&format!("{pattern}/7")).unwrap().with_pattern(pattern)
    };
    let mutex = |pattern| session.mutex(name(pattern)).unwrap();
    let lock = |pattern| session.rw_lock(name(pattern)).unwrap();
    let faults = || store.faults(session.zookeeper_session().unwrap().id);
    // Other tests add to what has no pattern.
    let states = |state: &str| {
        value(recorder, "zklock_session_states_total", &[&format!("state=\"{state}\"")])
    };
    let [stuck, diverged] = ["stuck_nodes", "diverged"]
        .map(|of| move || value(recorder, &format!("zklock_{of}_total"), &[]));

    let heed = LockOptions::new().on_revoked(OnRevoked::Cancel);
    let template = ZkLockTemplate::new(session.clone()).write().with_options(heed);
    let body = async || {
        elsewhere.rw_lock("revoked/7").unwrap().site().revoke().await.unwrap();
        pending::<()>().await
    };
    assert!(template.execute(name("revoked"), body).await.unwrap_err().is_revoked());
    let ends = ["acquires write node 1", "lost write revoked 1", "releases write released 1"];
    counted(recorder, "revoked", &[&ends[..], &["revoked write 1"]].concat()).await;

    let short = LockOptions::new().hold_at_most(SECOND);
    let held = lock("overtime").with_options(short).read().await.unwrap();
    sleep(2 * SECOND).await;
    drop(held);
    let ends = ["acquires read node 1", "overtime read 1", "releases read released 1"];
    counted(recorder, "overtime", &ends).await;

    let before = stuck();
    let held = lock("refused").write().await.unwrap();
    faults().inject(Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("refused"));
    held.release().await.unwrap_err();
    counted(recorder, "refused", &["acquires write node 1", "releases write refused 1"]).await;
    until("stuck nodes", stuck, |now| now == before + 1.0).await;

    for (pattern, by) in [("deleted", &elsewhere), ("broken", &session)] {
        let held = mutex(pattern).acquire().await.unwrap();
        let site = by.site(format!("{pattern}/7")).unwrap();
        let queue = site.contenders().await.unwrap();
        assert!(site.break_holder(&queue[0]).await.unwrap());
        held.lost().await;
        drop(held);
        let lost = format!("lost mutex {pattern} 1");
        let ends = ["acquires mutex node 1", &lost, "releases mutex released 1"];
        counted(recorder, pattern, &ends).await;
    }

    let (connected, suspended) = (states("connected"), states("suspended"));
    let options = LockOptions::new().stop_at(StopAt::Suspect);
    let held = mutex("suspect").with_options(options).acquire().await.unwrap();
    let connection = faults();
    connection.disconnect();
    held.lost().await;
    drop(held);
    let ends = ["acquires mutex node 1", "lost mutex suspect 1", "releases mutex released 1"];
    counted(recorder, "suspect", &[&ends[..], &["suspect mutex 1"]].concat()).await;
    let late = lock("unavailable").with_options(LockOptions::new().timeout(SECOND).retries(1));
    assert!(late.read_tries().await.unwrap_err().is_unavailable());
    let ends = ["acquires read unavailable 1", "tries_ended read 1"];
    counted(recorder, "unavailable", &ends).await;
    until("suspended", || states("suspended"), |now| now == suspended + 1.0).await;
    connection.reconnect();
    sleep(SECOND).await;
    until("connected", || states("connected"), |now| now == connected + 1.0).await;

    let held = mutex("expired").acquire().await.unwrap();
    faults().expire();
    held.lost().await;
    drop(held);
    let ends = ["acquires mutex node 1", "lost mutex session_ended 1", "releases mutex released 1"];
    counted(recorder, "expired", &ends).await;

    let held = mutex("silence").acquire().await.unwrap();
    let connection = faults();
    connection.disconnect();
    held.lost().await;
    connection.reconnect();
    drop(held);
    let ends = ["acquires mutex node 1", "lost mutex silence 1", "releases mutex released 1"];
    counted(recorder, "silence", &[&ends[..], &["suspect mutex 1"]].concat()).await;

    drop(lock("downgrade").write().await.unwrap().downgrade().await.unwrap());
    let ends = [
        "acquires read downgrade 1",
        "acquires write node 1",
        "releases read released 1",
        "releases write released 1",
    ];
    counted(recorder, "downgrade", &ends).await;

    sleep(SECOND).await;
    let reader = lock("deadlock").read().await.unwrap();
    let writes = reader.scope(async { lock("deadlock").write().await.unwrap_err() }).await;
    assert_eq!(writes.kind(), ErrorKind::Deadlock);
    drop(reader);
    let ends = ["acquires read node 1", "acquires write deadlock 1", "releases read released 1"];
    counted(recorder, "deadlock", &ends).await;

    faults().inject(Fault::refuse(RequestError::NoAuth).on(Op::Create).path("error"));
    mutex("error").acquire().await.unwrap_err();
    counted(recorder, "error", &["acquires mutex error 1"]).await;

    let (before, held) =
        (diverged(), elsewhere.mutex("differs/7").unwrap().acquire().await.unwrap());
    let no_node = RequestError::Multi { index: 0, error: Box::new(RequestError::NoNode) };
    faults().inject(Fault::refuse(no_node).on(Op::Multi).path(held.node_path()).times(2));
    let waits = mutex("differs").acquire_timeout(60 * SECOND).await.unwrap_err();
    assert!(waits.is_unavailable(), "{waits}");
    until("diverged", diverged, |now| now == before + 1.0).await;

    let closed = states("closed");
    session.close().await;
    mutex("closing").acquire().await.unwrap_err();
    counted(recorder, "closing", &["acquires mutex closing 1"]).await;
    sleep(SECOND).await;
    until("closed", || states("closed"), |now| now == closed + 1.0).await;
    assert!(!recorder.render().contains("/7\""));
}

/// The embedded coordinator itself knows that it is there.
#[tokio::test(start_paused = true)]
async fn heartbeats_are_measured() {
    let (recorder, _alone) = recorder().await;
    let builder = Session::builder_on(Embedded::new().connector(12 * SECOND)).metrics();
    let session = builder.open().unwrap();
    let _held = session.mutex("a").unwrap().acquire().await.unwrap();
    let heartbeats = || value(recorder, "zklock_heartbeat_seconds_count", &[]);
    let before = heartbeats();
    sleep(7 * SECOND).await;
    until("heartbeats", heartbeats, |now| now >= before + 3.0).await;
}

#[tokio::test]
async fn every_metric_that_is_told_is_in_the_table() {
    let (recorder, _alone) = recorder().await;
    let session = measured(&Embedded::new());
    // A lock that is held has gauges, whether its events have been counted or not.
    let _held = session.mutex("a").unwrap().acquire().await.unwrap();
    sample();
    let text = recorder.render();
    let told = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let told: BTreeSet<_> = told.map(|line| line.split(' ').next().unwrap()).collect();
    let table: BTreeSet<_> = all().iter().map(|metric| metric.name).collect();
    assert!(told.is_subset(&table), "{:?}", told.difference(&table));
    let gauges = all().iter().filter(|metric| metric.kind == MetricKind::Gauge);
    for metric in gauges {
        assert!(told.contains(metric.name), "{}", metric.name);
        assert!(text.contains(&format!("# HELP {} {}", metric.name, metric.about)));
    }
}
