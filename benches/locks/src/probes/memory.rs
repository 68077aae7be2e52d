//! What a held lock and a local waiter take, and how long it takes to hold many.
//!
//! Each figure comes from a process of its own, which does everything twice: the second time
//! nothing is new but what is kept, as buffers of the first serve again. How much it grew then is
//! what the system gave it (anonymous memory), with all that the allocator adds. An allocator that
//! counts would be less than that, and would slow what is measured beside it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::{LockOptions, MutexGuard, Session};
use zklock_test_support::{RawClient, ZooKeeper};

use super::Plan;
use crate::drive::Failure;
use crate::goals::Goal;
use crate::pool::runtime;
use crate::sides::start_curator;
use crate::table::{grouped, time};

/// How many tasks or threads take the locks.
const TAKERS: usize = 100;

/// Threads of Java that wait: each has a stack, and ten thousand would be most of the machine.
const THREADS: usize = 1_000;

/// Fixed and touched beforehand: then what Java grows by is what is used in its heap, and the
/// stacks of its threads.
const JAVA: [&str; 4] = ["-Xms512m", "-Xmx512m", "-XX:+AlwaysPreTouch", "-Xss256k"];

/// Measures and prints.
pub(super) fn run(plan: Plan) -> Result<Vec<Goal>, Failure> {
    let count = if plan.quick { 1_000 } else { 10_000 };
    let server = ZooKeeper::builder().for_measuring().fsync(plan.fsync).start();
    println!("\nmemory, and the time to take many locks (--workload memory)");
    println!("{:<36}{:>14}{:>14}", "", "bytes each", "taken in");
    let mut goals = Vec::new();
    for (what, name, most) in [
        ("locks", "locks held by zklock", Some(2048)),
        ("waiters", "local waiters of zklock", Some(1024)),
        ("fair", "fair waiters of zklock", Some(8192)),
        ("tokio", "waiters of a tokio mutex", None),
    ] {
        let [bytes, nanos] = ours(what, &server.addr(), count)?;
        print(count, name, bytes, (what == "locks").then_some(nanos));
        if let Some(most) = most {
            let measured = format!("{bytes} bytes");
            let goal = format!("at most {most} bytes for each of {} {name}", grouped(count as f64));
            goals.push(Goal::new(goal, measured, bytes <= most));
        }
    }
    for (what, name, count) in [
        ("hold", "locks held by curator", count),
        ("wait", "threads that wait for curator", THREADS.min(count)),
    ] {
        // A process for each: what the first leaves must not serve the second.
        let asked = start_curator(&server.addr(), &JAVA)
            .and_then(|mut java| java.ask(&format!("{what} {count} {TAKERS}")))
            .and_then(|line| footprint(&line));
        match asked {
            Ok([bytes, nanos]) => print(count, name, bytes, (what == "hold").then_some(nanos)),
            Err(why) => println!("{name} are left out: {why}"),
        }
    }
    Ok(goals)
}

fn print(count: usize, name: &str, bytes: i64, nanos: Option<i64>) {
    let name = format!("{} {name}", grouped(count as f64));
    let taken = nanos.map(|nanos| time(nanos as f64)).unwrap_or_default();
    println!("{name:<36}{:>14}{taken:>14}", grouped(bytes as f64));
}

/// Runs this program as the process that is measured.
fn ours(what: &str, connect: &str, count: usize) -> Result<[i64; 2], Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--footprint", what, connect, &count.to_string()]);
    let output = command.output()?;
    let said = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(format!("{}{}", said, String::from_utf8_lossy(&output.stderr)).into());
    }
    footprint(said.trim_end())
}

/// Reads `footprint BYTES NANOSECONDS`, of each and of all.
fn footprint(line: &str) -> Result<[i64; 2], Failure> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    match words[..] {
        ["footprint", bytes, nanos] => Ok([bytes.parse()?, nanos.parse()?]),
        _ => Err(format!("not a footprint: {line}").into()),
    }
}

/// What such a process of this program does.
pub(crate) fn serve(what: &str, connect: &str, count: usize) -> Result<(), Failure> {
    let (bytes, taken) = runtime()?.block_on(async {
        let builder = Session::builder(connect).root("/memory").app("bench");
        let session = builder.session_timeout(Duration::from_secs(60)).connect().await?;
        let measured = match what {
            "locks" => locks(&session, count).await?,
            "waiters" => {
                let mutex = session.mutex("waited-for")?;
                let held = mutex.acquire().await?;
                let wait = move || {
                    let mutex = mutex.clone();
                    async move { mutex.acquire().await.map(drop).map_err(Failure::from) }
                };
                let measured = waiters(wait, count).await?;
                drop(held);
                measured
            }
            "fair" => fair(&session, connect, count).await?,
            "tokio" => {
                let mutex = Arc::new(tokio::sync::Mutex::new(()));
                let _held = mutex.clone().lock_owned().await;
                let wait = move || {
                    let mutex = mutex.clone();
                    async move {
                        drop(mutex.lock_owned().await);
                        Ok(())
                    }
                };
                waiters(wait, count).await?
            }
            other => return Err(format!("what is `{other}`?").into()),
        };
        session.close().await;
        Ok::<_, Failure>(measured)
    })?;
    println!("footprint {} {}", bytes / count as i64, taken.as_nanos());
    Ok(())
}

async fn locks(session: &Session, count: usize) -> Result<(i64, Duration), Failure> {
    let mut held = Vec::with_capacity(2 * count);
    take(session, "first", count, &mut held).await?;
    let (before, start) = (anonymous()?, Instant::now());
    take(session, "second", count, &mut held).await?;
    let taken = start.elapsed();
    let grown = anonymous()? - before;
    if let Some(lost) = held.iter().position(|guard| !guard.is_valid()) {
        return Err(format!("lock {lost} was lost").into());
    }
    Ok((grown, taken))
}

async fn take(
    session: &Session,
    label: &'static str,
    count: usize,
    held: &mut Vec<MutexGuard>,
) -> Result<(), Failure> {
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let session = session.clone();
        takers.spawn(async move {
            let mut mine = Vec::new();
            for number in (taker..count).step_by(TAKERS) {
                let mutex = session.mutex(format!("{label}/lock-{number}"))?;
                mine.push(mutex.acquire().await?);
            }
            Ok::<_, Failure>(mine)
        });
    }
    while let Some(mine) = takers.join_next().await {
        held.extend(mine??);
    }
    Ok(())
}

/// Tasks that wait; `wait` makes what each waits for.
async fn waiters<F>(wait: impl Fn() -> F, count: usize) -> Result<(i64, Duration), Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let (mut tasks, waiting) = (Vec::with_capacity(2 * count), Arc::new(AtomicUsize::new(0)));
    let (mut before, mut start) = (0, Instant::now());
    for all in [count, 2 * count] {
        (before, start) = (anonymous()?, Instant::now());
        while tasks.len() < all {
            tasks.push(tokio::spawn(counted(Box::pin(wait()), waiting.clone())));
        }
        while waiting.load(Ordering::Relaxed) < all {
            if tasks.iter().any(tokio::task::JoinHandle::is_finished) {
                return Err("a waiter does not wait".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let (taken, grown) = (start.elapsed(), anonymous()? - before);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Ok((grown, taken))
}

/// Waiters with a node each, once all these are in the queue. A tenth of them come first, so that
/// what is made once for all is there.
async fn fair(session: &Session, connect: &str, count: usize) -> Result<(i64, Duration), Failure> {
    let mutex = session.mutex("fair")?.with_options(LockOptions::default().fair(true));
    let held = mutex.acquire().await?;
    let mut server = RawClient::connect(connect, Duration::from_secs(60))?;
    let (mut tasks, first) = (Vec::with_capacity(count + count / 10), count / 10);
    let (mut before, mut start) = (0, Instant::now());
    for all in [first, first + count] {
        (before, start) = (anonymous()?, Instant::now());
        while tasks.len() < all {
            let mutex = mutex.clone();
            tasks.push(tokio::spawn(async move { mutex.acquire().await.map(drop) }));
        }
        while server.children(mutex.path())?.len() <= all {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Until all have their answers, too.
        let mut last = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = anonymous()?;
            if (now - last).abs() < 1024 * 1024 {
                break;
            }
            last = now;
        }
    }
    let (taken, grown) = (start.elapsed(), anonymous()? - before);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    drop(held);
    Ok((grown, taken))
}

/// Counts the future once it waits. Boxed: as an argument it would have two places in this one.
async fn counted<F: Future>(mut wait: Pin<Box<F>>, waiting: Arc<AtomicUsize>) -> F::Output {
    let mut first = true;
    poll_fn(|cx| {
        let polled = wait.as_mut().poll(cx);
        if std::mem::take(&mut first) && polled.is_pending() {
            waiting.fetch_add(1, Ordering::Relaxed);
        }
        polled
    })
    .await
}

/// The memory of this process that is no file's, in bytes.
fn anonymous() -> Result<i64, Failure> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")).ok_or("no such line")?;
    Ok(kilobytes.trim().parse::<i64>()? * 1024)
}
