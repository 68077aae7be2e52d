//! How many waiters a release wakes: two at most, whatever their number.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::{MutexGuard, Session};
use zklock_test_support::{Proxy, ZooKeeper};

use super::Plan;
use crate::drive::Failure;
use crate::goals::Goal;
use crate::pool::runtime;
use crate::table::grouped;

/// Longer than the measurement, so that heartbeats are not counted.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);

const LOCK: &str = "wakeups";

/// How many sessions connect at a time.
const AT_ONCE: usize = 20;

/// Measures and prints.
pub(super) fn run(plan: Plan) -> Result<Vec<Goal>, Failure> {
    let waiting = if plan.quick { 100 } else { 1_000 };
    let server = ZooKeeper::builder().for_measuring().fsync(false).start();
    let proxy = Proxy::start(server.socket_addr());
    println!(
        "\nwatch events per release, {} waiting sessions (--workload constancy)",
        grouped(waiting as f64)
    );
    let (most, events, requests) = runtime()?.block_on(measure(&server, &proxy, waiting))?;
    let releases = waiting + 1;
    println!(
        "{events} watch events for {releases} releases, at most {most} between two; {:.2} requests \
         per grant",
        requests as f64 / waiting as f64,
    );
    let what = format!(
        "at most two waiters told of a release, {} waiting, and who releases of its own node",
        grouped(waiting as f64)
    );
    // Whatever came late counts for a later release, but in the sum it shows.
    let reached = events <= 3 * waiting as u64;
    Ok(vec![Goal::new(what, format!("{events} in all"), reached)])
}

async fn connected(connect: String) -> Result<Session, Failure> {
    let builder = Session::builder(connect.as_str()).root("/wakeups");
    Ok(builder.session_timeout(SESSION_TIMEOUT).connect().await?)
}

async fn measure(
    server: &ZooKeeper,
    proxy: &Proxy,
    waiting: usize,
) -> Result<(u64, u64, u64), Failure> {
    // Not through the proxy: only what waiters are told is counted.
    let holder = connected(server.addr()).await?;
    let mut held = holder.mutex(LOCK)?.acquire().await?;
    let (mut waiters, mut sessions) = (JoinSet::new(), Vec::new());
    while sessions.len() < waiting {
        let mut connecting = JoinSet::new();
        for _ in 0..AT_ONCE.min(waiting - sessions.len()) {
            connecting.spawn(connected(proxy.addr()));
        }
        while let Some(session) = connecting.join_next().await {
            let session = session??;
            let mutex = session.mutex(LOCK)?;
            waiters.spawn(async move { Ok::<MutexGuard, Failure>(mutex.acquire().await?) });
            sessions.push(session);
        }
    }
    let limit = Instant::now() + Duration::from_secs(60);
    while server.watch_count() < waiting as u64 {
        if Instant::now() > limit {
            return Err("the sessions do not queue".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (mut most, events, requests) = (0, proxy.watch_events(), proxy.requests_total());
    while !waiters.is_empty() {
        let before = proxy.watch_events();
        held.release().await?;
        held = waiters.join_next().await.ok_or("nobody waits")???;
        most = most.max(proxy.watch_events() - before);
    }
    held.release().await?;
    let counted = (most, proxy.watch_events() - events, proxy.requests_total() - requests);
    let mut closing = JoinSet::new();
    for session in sessions.into_iter().chain([holder]) {
        closing.spawn(async move { session.close().await });
    }
    while closing.join_next().await.is_some() {}
    Ok(counted)
}
