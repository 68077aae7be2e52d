//! Our mutex.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zklock::{Handoffs, LockOptions, Mutex, MutexGuard, Session, blocking};

use super::Side;
use crate::drive::{Failure, Lock, blocking_cycles};
use crate::measured::Measured;
use crate::pool::{Pool, runtime};
use crate::workload::Shape;

/// Longer than any round, so that no side pings.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// How a task uses the mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// `acquire`, and the release is awaited.
    Awaited,
    /// `acquire`, and the guard is dropped.
    Dropped,
    /// `acquire`, and the node is kept when nobody wants it.
    Lingering,
    /// Two tries of two seconds, as an annotated function has them.
    Tries,
}

struct Task {
    mutex: Mutex,
    how: Use,
}

impl Lock for Task {
    type Held = MutexGuard;

    async fn acquire(&mut self) -> Result<MutexGuard, Failure> {
        Ok(match self.how {
            Use::Tries => self.mutex.acquire_tries().await?,
            _ => self.mutex.acquire().await?,
        })
    }

    async fn release(&mut self, held: MutexGuard) -> Result<(), Failure> {
        if self.how != Use::Dropped {
            held.release().await?;
        }
        Ok(())
    }
}

/// A root of its own for each set of sessions, unless the environment names one for a fleet.
fn root() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let fresh =
        || format!("/bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::env::var(ROOT).unwrap_or_else(|_| fresh())
}

/// The variable that names the root for all processes of a fleet.
pub(crate) const ROOT: &str = "ZKLOCK_BENCH_ROOT";

/// The variable that names another bound of handoffs, in milliseconds.
pub(crate) const HANDOFF_MS: &str = "ZKLOCK_BENCH_HANDOFF_MS";

fn options(how: Use) -> Result<LockOptions, Failure> {
    let mut options = LockOptions::default();
    if let Ok(millis) = std::env::var(HANDOFF_MS) {
        let within = Duration::from_millis(millis.parse()?);
        options = options.handoffs(Handoffs::new().most(u32::MAX).within(within));
    }
    Ok(match how {
        Use::Lingering => options.linger(Duration::from_secs(5)),
        _ => options,
    })
}

async fn mutexes(connect: &str, shape: Shape, how: Use) -> Result<Vec<Mutex>, Failure> {
    let (root, mut mutexes) = (root(), Vec::new());
    for _ in 0..shape.sessions {
        let builder = Session::builder(connect).root(root.as_str()).app("bench");
        let session = builder.session_timeout(SESSION_TIMEOUT).connect().await?;
        for task in 0..shape.tasks {
            let mutex = session.mutex(format!("lock-{}", task % shape.locks))?;
            mutexes.push(mutex.with_options(options(how)?));
        }
    }
    Ok(mutexes)
}

/// Tasks that use it in one way.
pub(crate) fn tasks(connect: &str, shape: Shape, how: Use) -> Result<Box<dyn Side>, Failure> {
    let runtime = runtime()?;
    let mutexes = runtime.block_on(mutexes(connect, shape, how))?;
    let tasks = mutexes.into_iter().map(|mutex| Task { mutex, how }).collect();
    Ok(Pool::<Task>::side(runtime, shape, tasks))
}

struct Threads(Vec<Mutex>);

impl Side for Threads {
    fn round(&mut self, time: Duration) -> Result<Measured, Failure> {
        let thread = |mutex: &Mutex| {
            let mutex = mutex.clone();
            move |granted: &mut dyn FnMut()| -> Result<(), Failure> {
                let guard = mutex.blocking_acquire()?;
                granted();
                Ok(guard.blocking_release()?)
            }
        };
        blocking_cycles(self.0.iter().map(thread).collect(), time)
    }
}

/// Threads without a runtime around them.
pub(crate) fn threads(connect: &str, shape: Shape) -> Result<Box<dyn Side>, Failure> {
    let mutexes = blocking::block_on(mutexes(connect, shape, Use::Awaited))?;
    Ok(Box::new(Threads(mutexes)))
}
