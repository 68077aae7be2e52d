//! The workers of this process.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Outcome;
use crate::counter::Counter;
use crate::issue::Half;
use crate::options::Options;

/// The result of all workers.
pub(crate) struct Issued {
    /// The numbers of each worker, in the order in which it got them.
    pub(crate) workers: Vec<Vec<u64>>,
    pub(crate) took: Duration,
}

impl Issued {
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.workers.concat()
    }
}

/// Issues order numbers with the workers of this process.
pub(crate) async fn issue_here(
    half: Half,
    counter: &Counter,
    options: &Options,
) -> Outcome<Issued> {
    let session = match half {
        Half::Unlocked => None,
        Half::Locked => Some(options.session().await?),
    };
    let issued = run_workers(half, counter, options.workers, options.orders).await;
    if let Some(session) = session {
        session.close().await;
    }
    issued
}

/// Runs the workers to their end, each on a thread for blocking work. A failure is returned at once; then
/// the session closes, and with it ends what the others wait for.
pub(crate) async fn run_workers(
    half: Half,
    counter: &Counter,
    workers: usize,
    orders: usize,
) -> Outcome<Issued> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for worker in 0..workers {
        let counter = counter.clone();
        running.spawn_blocking(move || {
            let numbers: Result<Vec<_>, _> = (0..orders).map(|_| half.issue(&counter)).collect();
            Outcome::Ok((worker, numbers?))
        });
    }
    let mut by_worker = vec![Vec::new(); workers];
    while let Some(done) = running.join_next().await {
        let (worker, numbers) = done??;
        by_worker[worker] = numbers;
    }
    Ok(Issued { workers: by_worker, took: start.elapsed() })
}
