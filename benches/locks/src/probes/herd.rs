//! What a release costs while a hundred sessions wait: watch events and requests, of our locks and
//! of those that wake everybody.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::{AnyGuard, AnyLock, Session};
use zklock_test_support::{Proxy, ZooKeeper};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::Plan;
use crate::drive::Failure;
use crate::goals::Goal;
use crate::pool::runtime;
use crate::sides::make_directory;

/// Longer than the measurement, so that heartbeats and second looks are not counted.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);

/// So long nothing passes when all that follows from a release is done.
const QUIET: Duration = Duration::from_millis(40);

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// A lock to be measured: its name, and how a session of it waits.
struct Side {
    name: &'static str,
    wait: fn(String) -> Boxed<Waiter>,
}

/// A session that is about to wait.
struct Waiter {
    acquire: Boxed<Held>,
    close: Boxed<()>,
}

/// What it has in the end.
enum Held {
    Guard(AnyGuard),
    Node(Client, String),
}

impl Held {
    async fn release(self) -> Result<(), Failure> {
        match self {
            Held::Guard(guard) => Ok(guard.release().await?),
            Held::Node(client, path) => Ok(client.delete(&path, None).await?),
        }
    }
}

const SIDES: [Side; 4] = [
    Side { name: "RwLock, writers", wait: |at| ours(at, |s| Ok(AnyLock::Write(s.rw_lock("rw")?))) },
    Side { name: "Mutex", wait: |at| ours(at, |s| Ok(s.mutex("mutex")?.into())) },
    Side {
        name: "OneNode",
        wait: |at| {
            ours(at, |s| Ok(s.mutex("exclusive")?.with_driver(zklock::layout::OneNode).into()))
        },
    },
    Side { name: "watch the smallest", wait: smallest },
];

fn ours(connect: String, lock: fn(&Session) -> Result<AnyLock, Failure>) -> Boxed<Waiter> {
    Box::pin(async move {
        let builder = Session::builder(connect).root("/herd").session_timeout(SESSION_TIMEOUT);
        let session = builder.connect().await?;
        let lock = lock(&session)?;
        let acquire = Box::pin(async move { Ok(Held::Guard(lock.acquire().await?)) });
        let close = Box::pin(async move {
            session.close().await;
            Ok(())
        });
        Ok(Waiter { acquire, close })
    })
}

/// The write lock of the documents as they give it first: who is not the smallest watches the
/// smallest.
fn smallest(connect: String) -> Boxed<Waiter> {
    Box::pin(async move {
        let connector = Client::connector().with_session_timeout(SESSION_TIMEOUT);
        let client = connector.connect(&connect).await?;
        make_directory(&client, DIRECTORY).await?;
        let holder = client.clone();
        let acquire = Box::pin(async move {
            let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let prefix = format!("{DIRECTORY}/write-node");
            let (_, sequence) = holder.create(&prefix, b"write", &options).await?;
            let mine = format!("{prefix}{sequence}");
            loop {
                let names = holder.list_children(DIRECTORY).await?;
                let smallest = names.iter().min().ok_or("my node is gone")?;
                let smallest = format!("{DIRECTORY}/{smallest}");
                if smallest == mine {
                    return Ok(Held::Node(holder, mine));
                }
                match holder.get_and_watch_data(&smallest).await {
                    Ok((_, _, watcher)) => {
                        watcher.changed().await;
                    }
                    Err(Error::NoNode) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        });
        let close = Box::pin(async move {
            drop(client);
            Ok(())
        });
        Ok(Waiter { acquire, close })
    })
}

const DIRECTORY: &str = "/herd/lock-node";

/// What passed the proxy: watch events, and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    events: u64,
    requests: u64,
}

impl Passed {
    fn now(proxy: &Proxy) -> Passed {
        Passed { events: proxy.watch_events(), requests: proxy.requests_total() }
    }

    fn since(self, before: Passed) -> Passed {
        Passed { events: self.events - before.events, requests: self.requests - before.requests }
    }
}

/// Measures and prints.
pub(super) fn run(plan: Plan) -> Result<Vec<Goal>, Failure> {
    let waiting = if plan.quick { 20 } else { 100 };
    println!("\nwhat a release costs, {waiting} waiting sessions (--workload herd)");
    println!("{:<24}{:>22}{:>28}", "", "first release", "all releases");
    println!("{:<24}{:>10}{:>12}{:>14}{:>14}", "", "events", "requests", "events", "requests");
    let (server, runtime) = (ZooKeeper::builder().for_measuring().fsync(false).start(), runtime()?);
    let mut goals = Vec::new();
    for side in SIDES {
        let proxy = Proxy::start(server.socket_addr());
        let [first, all] = runtime.block_on(measure(&server, &proxy, &side, waiting))?;
        println!(
            "{:<24}{:>10}{:>12}{:>14}{:>14}",
            side.name, first.events, first.requests, all.events, all.requests
        );
        if side.name.starts_with("RwLock") || side.name == "Mutex" {
            // Of a mutex the next and the one behind it are told, and who releases of its own node.
            let (told, heard) = if side.name == "Mutex" { (2, 3) } else { (1, 1) };
            let what = format!("{}: {told} waiters told of a release, {waiting} wait", side.name);
            let reached = first.events == told && all.events <= heard * waiting as u64;
            goals.push(Goal::new(what, format!("{} in all", all.events), reached));
        }
    }
    Ok(goals)
}

/// What the first release costs, and what all of them cost until nobody waits any more.
async fn measure(
    server: &ZooKeeper,
    proxy: &Proxy,
    side: &Side,
    waiting: usize,
) -> Result<[Passed; 2], Failure> {
    // Not through the proxy: only what the waiters are told and ask is counted.
    let holder = (side.wait)(server.addr()).await?;
    let mut held = holder.acquire.await?;
    let (mut waiters, mut closing) = (JoinSet::new(), vec![holder.close]);
    for _ in 0..waiting {
        let waiter = (side.wait)(proxy.addr()).await?;
        waiters.spawn(waiter.acquire);
        closing.push(waiter.close);
    }
    settled(server, proxy, waiting).await?;
    let start = Passed::now(proxy);
    let mut first = None;
    while !waiters.is_empty() {
        held.release().await?;
        held = waiters.join_next().await.ok_or("nobody waits")???;
        settled(server, proxy, waiters.len()).await?;
        first.get_or_insert(Passed::now(proxy).since(start));
    }
    let all = Passed::now(proxy).since(start);
    held.release().await?;
    for close in closing {
        close.await?;
    }
    Ok([first.unwrap_or_default(), all])
}

/// Waits until all who wait watch, and nothing is under way.
async fn settled(server: &ZooKeeper, proxy: &Proxy, waiting: usize) -> Result<(), Failure> {
    let limit = Instant::now() + Duration::from_secs(60);
    let (mut seen, mut since) = (Passed::now(proxy), Instant::now());
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let now = Passed::now(proxy);
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        if since.elapsed() >= QUIET && server.watch_count() >= waiting as u64 {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err("the sessions do not queue".into());
        }
    }
}
