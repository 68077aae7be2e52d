//! What a grant costs the server, counted frame by frame: the same for ten local waiters as for a
//! thousand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use zklock::{Handoffs, LockOptions, Mutex, Session};
use zklock_test_support::{OpCode, Proxy, ZooKeeper};

use super::Plan;
use crate::drive::Failure;
use crate::goals::Goal;
use crate::pool::runtime;

/// A bound by count alone: what it costs must not depend on how fast this machine is.
const HANDOFFS: Handoffs = Handoffs::new().most(100).within(Duration::from_secs(60));

/// Longer than the measurement, so that heartbeats are not counted.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);

const WAITERS: [usize; 3] = [10, 100, 1_000];

/// The other sessions: so many that one waits whenever a turn of ours ends.
const RIVALS: usize = 4;

/// Turns that are measured, after one tenth as many.
const TURNS: u64 = 200;

/// What passed the proxy so far.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    requests: u64,
    watches: u64,
    events: u64,
    bytes: u64,
}

impl Passed {
    fn now(proxy: &Proxy) -> Passed {
        Passed {
            requests: proxy.requests_total(),
            // Only watches read data here, and every such read sets one.
            watches: proxy.requests(OpCode::GetData),
            events: proxy.watch_events(),
            bytes: proxy.bytes(),
        }
    }

    /// The difference, per grant.
    fn since(self, before: Passed, grants: u64) -> [f64; 4] {
        let each = |now: u64, then: u64| (now - then) as f64 / grants as f64;
        [
            each(self.requests, before.requests),
            each(self.watches, before.watches),
            each(self.events, before.events),
            each(self.bytes, before.bytes),
        ]
    }
}

/// Measures and prints.
pub(super) fn run(plan: Plan) -> Result<Vec<Goal>, Failure> {
    println!(
        "\nrequests, watches and bytes per grant, at most 100 grants a turn (--workload constancy)"
    );
    println!(
        "{:<26}{:>10}{:>10}{:>10}{:>10}{:>18}",
        "local waiters", "requests", "watches", "events", "bytes", "watches standing"
    );
    let turns = if plan.quick { TURNS / 10 } else { TURNS };
    let (server, runtime) = (ZooKeeper::builder().for_measuring().fsync(false).start(), runtime()?);
    let mut goals = Vec::new();
    for contended in [false, true] {
        let beside = if contended { "beside other sessions" } else { "alone" };
        let mut all = Vec::new();
        for waiters in WAITERS {
            let (each, standing) = measure(&server, &runtime, waiters, contended, turns)?;
            let [requests, watches, events, bytes] = each;
            println!(
                "{:<26}{requests:>10.4}{watches:>10.4}{events:>10.4}{bytes:>10.1}{standing:>18}",
                format!("{waiters} {beside}")
            );
            all.push((each, standing));
        }
        // A tenth is for what is under way when the counting begins and ends.
        let constant = |at: usize| {
            let figures = all.iter().map(|(each, _)| each[at]);
            let least = figures.clone().fold(f64::INFINITY, f64::min);
            figures.fold(0.0, f64::max) <= least * 1.1 + 1e-9
        };
        let standing = all.iter().all(|(_, standing)| *standing == all[0].1);
        let reached = (0..4).all(constant) && standing;
        let what = format!("constant from 10 to 1,000 local waiters {beside}");
        goals.push(Goal::new(
            what,
            if reached { "it is" } else { "it is not" }.to_owned(),
            reached,
        ));
    }
    Ok(goals)
}

fn measure(
    server: &ZooKeeper,
    runtime: &Runtime,
    waiters: usize,
    contended: bool,
    turns: u64,
) -> Result<([f64; 4], u64), Failure> {
    let proxy = Arc::new(Proxy::start(server.socket_addr()));
    runtime.block_on(async {
        let lock = format!("a{waiters}{contended}");
        let ours = connected(&proxy.addr()).await?;
        let mutex = mutex(&ours, &lock)?;
        let mut rivals = Vec::new();
        for _ in 0..RIVALS {
            rivals.push(connected(&server.addr()).await?);
        }
        // All of them wait before the first gets it.
        let held = self::mutex(&rivals[0], &lock)?.acquire().await?;
        let grants = Arc::new(AtomicU64::new(0));
        let warm = turns / 10 * u64::from(HANDOFFS.most);
        let last = warm + turns * u64::from(HANDOFFS.most);
        let mut tasks = JoinSet::new();
        for _ in 0..waiters {
            let task = Task { mutex: mutex.clone(), grants: grants.clone(), proxy: proxy.clone() };
            tasks.spawn(task.run(warm, last));
        }
        let queued = tokio::time::Instant::now() + Duration::from_secs(30);
        while server.watch_count() == 0 || ours.local_contenders().len() < waiters {
            if tokio::time::Instant::now() > queued {
                return Err("the waiters do not queue".into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let standing = server.watch_count();
        let mut contending = JoinSet::new();
        for rival in rivals.iter().filter(|_| contended) {
            let mutex = self::mutex(rival, &lock)?;
            contending.spawn(async move {
                while let Ok(held) = mutex.acquire().await {
                    _ = held.release().await;
                }
            });
        }
        held.release().await?;
        let (mut before, mut after) = (Passed::default(), Passed::default());
        while let Some(passed) = tasks.join_next().await {
            let [first, second] = passed??;
            before = first.unwrap_or(before);
            after = second.unwrap_or(after);
        }
        contending.shutdown().await;
        for session in rivals.into_iter().chain([ours]) {
            session.close().await;
        }
        Ok((after.since(before, last - warm), standing))
    })
}

struct Task {
    mutex: Mutex,
    grants: Arc<AtomicU64>,
    proxy: Arc<Proxy>,
}

impl Task {
    /// Acquires and releases until all have done so `last` times; returns what had passed at the
    /// grants `first` and `last`, where they are this task's.
    async fn run(self, first: u64, last: u64) -> Result<[Option<Passed>; 2], Failure> {
        let mut passed = [None; 2];
        loop {
            let held = self.mutex.acquire().await?;
            let grant = self.grants.fetch_add(1, Ordering::Relaxed);
            for (place, wanted) in passed.iter_mut().zip([first, last]) {
                if grant == wanted {
                    *place = Some(Passed::now(&self.proxy));
                }
            }
            tokio::task::yield_now().await;
            held.release().await?;
            if grant >= last {
                return Ok(passed);
            }
        }
    }
}

async fn connected(connect: &str) -> Result<Session, Failure> {
    let builder = Session::builder(connect).root("/constancy").session_timeout(SESSION_TIMEOUT);
    Ok(builder.connect().await?)
}

fn mutex(session: &Session, lock: &str) -> Result<Mutex, Failure> {
    Ok(session.mutex(lock)?.with_options(LockOptions::default().handoffs(HANDOFFS)))
}
