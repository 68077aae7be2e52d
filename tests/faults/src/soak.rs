//! Locks at full speed, and what is left of them.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::{AnyLock, LockError, LockOptions, Session};
use zklock_test_support::ZooKeeper;

/// What there is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Since the start.
    pub after: Duration,
    /// Acquires so far.
    pub acquires: u64,
    /// Memory of this process, in KiB.
    pub memory_kib: u64,
    /// Threads of this process.
    pub threads: usize,
    /// Open files of this process.
    pub files: usize,
    /// Watches on the server.
    pub watches: u64,
    /// Nodes on the server.
    pub nodes: u64,
    /// Sessions on the server.
    pub sessions: usize,
}

impl Sample {
    /// Looks at this process and at a server.
    pub fn take(start: Instant, acquires: u64, server: &ZooKeeper) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|line| line.split_whitespace().next());
        let count = |folder| fs::read_dir(folder).map_or(0, Iterator::count);
        Sample {
            after: start.elapsed(),
            acquires,
            memory_kib: memory.and_then(|kib| kib.parse().ok()).unwrap_or_default(),
            threads: count("/proc/self/task"),
            files: count("/proc/self/fd"),
            watches: server.watch_count(),
            nodes: server.node_count(),
            sessions: server.sessions().len(),
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample { after, acquires, memory_kib, threads, files, watches, nodes, sessions } = self;
        let seconds = after.as_secs();
        write!(
            f,
            "{seconds:6} s {acquires:10} acquires {memory_kib:8} KiB {threads:3} threads \
             {files:3} files {watches:4} watches {nodes:4} nodes {sessions:3} sessions"
        )
    }
}

/// Takes and releases locks of every kind for so long, and looks `looks` times, the first time
/// before anything was opened and the last time after all was closed.
///
/// # Errors
///
/// The library's.
pub async fn soak(
    server: &ZooKeeper,
    time: Duration,
    looks: u32,
    mut tell: impl FnMut(&Sample),
) -> Result<Vec<Sample>, LockError> {
    // What the first session of a process starts once for all is no leak.
    Session::builder(server.addr()).root("/soak").connect().await?.close().await;
    settle().await;
    let start = Instant::now();
    let mut samples = vec![Sample::take(start, 0, server)];
    tell(&samples[0]);
    let (over, acquires) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let builder = Session::builder(server.addr()).root("/soak").app("soak");
        sessions.push(builder.session_timeout(Duration::from_secs(20)).connect().await?);
    }
    let mut tasks = JoinSet::new();
    for number in 0..30_usize {
        let session = sessions[number % sessions.len()].clone();
        let (over, acquires) = (over.clone(), acquires.clone());
        tasks.spawn(async move {
            let mut turn = number;
            while !over.load(Ordering::Relaxed) {
                turn += 1;
                once(&session, turn).await?;
                acquires.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), LockError>(())
        });
    }
    for _ in 1..looks.saturating_sub(1) {
        tokio::time::sleep(time / looks).await;
        samples.push(Sample::take(start, acquires.load(Ordering::Relaxed), server));
        tell(&samples[samples.len() - 1]);
    }
    over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics")?;
    }
    for session in sessions {
        session.close().await;
    }
    // Directories are containers, which the server reaps; threads end after their last word.
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let last = Sample::take(start, acquires.load(Ordering::Relaxed), server);
        let clean = last.watches == 0 && last.sessions == 0 && last.nodes <= samples[0].nodes;
        if clean && last.threads <= samples[0].threads || Instant::now() > limit {
            tell(&last);
            samples.push(last);
            return Ok(samples);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until no thread has ended or begun for a while: those of closed sessions end by themselves.
async fn settle() {
    let count = || fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let (mut threads, mut since) = (count(), Instant::now());
    while since.elapsed() < Duration::from_millis(300) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = count();
        if now != threads {
            (threads, since) = (now, Instant::now());
        }
    }
}

/// One acquire and release of some sort.
async fn once(session: &Session, turn: usize) -> Result<(), LockError> {
    // A name now and then that is used only once.
    let name =
        if turn.is_multiple_of(50) { format!("once-{turn}") } else { format!("{}", turn % 5) };
    let lock = match turn % 7 {
        0 | 1 => AnyLock::Read(session.rw_lock(format!("rw-{name}"))?),
        2 => AnyLock::Write(session.rw_lock(format!("rw-{name}"))?),
        3 => AnyLock::Permits(session.semaphore(format!("semaphore-{name}"), 3)?, 1),
        _ => AnyLock::Mutex(session.mutex(format!("mutex-{name}"))?),
    };
    if turn.is_multiple_of(11) {
        // Given up on the way.
        _ = tokio::time::timeout(Duration::from_micros(turn as u64 % 3_000), lock.acquire()).await;
        return Ok(());
    }
    if turn.is_multiple_of(13) {
        let impatient = LockOptions::default().timeout(Duration::from_millis(1));
        let mutex = session.mutex(format!("mutex-{name}"))?.with_options(impatient);
        return match mutex.acquire_tries().await {
            Ok(guard) => guard.release().await,
            Err(_) => Ok(()),
        };
    }
    let guard = lock.acquire().await?;
    if turn.is_multiple_of(17) {
        drop(guard);
        return Ok(());
    }
    guard.release().await
}
