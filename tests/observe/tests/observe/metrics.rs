//! Metrics of sessions in this process, as Prometheus reads them.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;
use zklock::metrics::{MetricKind, all, buckets, sample};
use zklock::{Embedded, LockError, LockOptions, Session, StopAt, zk_locked};

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
    let name = zklock::lock_name!("counted").unwrap();
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
    is("zklock_held", "", 0.0).await;
    is("zklock_waiting", "", 0.0).await;
    // What is rare is there, and zero.
    assert!(
        recorder.render().contains(
            "zklock_lost_total{pattern=\"counted\",mode=\"mutex\",outcome=\"silence\"} 0"
        )
    );
    let held =
        mutex.with_options(LockOptions::new().stop_at(StopAt::Lost)).acquire().await.unwrap();
    let margin = value(recorder, "zklock_lease_margin_seconds", &[]);
    assert!(margin.is_finite() && margin > 0.0, "{margin}");
    let faults = store.faults(session.zookeeper_session().unwrap().0);
    faults.disconnect();
    sleep(SECOND / 10).await;
    is("zklock_suspect_total", "", 1.0).await;
    assert_eq!(value(recorder, "zklock_sessions", &["state=\"suspended\""]), 1.0);
    held.lost().await;
    is("zklock_lost_total", "", 1.0).await;
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
