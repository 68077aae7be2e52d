//! A busy day: traffic beside a test, in its sessions and in others.
//!
//! In each session that is given: a short lock every 50 to 200 ms, from a task and from a thread that
//! blocks; a look at its queue as often; now and then more acquires at once than one lane takes; and
//! locks that are held all the time, in two lanes. A session of its own wants the same short locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use zklock::{ErrorKind, LockError, MutexGuard, Session, blocking};
use zklock_test_support::monotonic_ns;

use crate::bed::{Bed, soon, until};

/// More than eight acquires on their way open another lane, and the next ones use it.
const AT_ONCE: usize = 16;

/// What all sessions want.
const SHORT: &str = "busy/short";

/// How long a caller of the traffic waits, and so how long a stop takes at most.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Traffic, until it is dropped; that fails the test if the traffic failed.
#[must_use = "the traffic ends with it"]
pub(crate) struct Busy {
    stop: watch::Sender<bool>,
    other: Session,
    rounds: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Bed {
    /// Starts traffic in these sessions and beside them; comes back when all of it flows and every
    /// session holds locks in two lanes.
    pub(crate) async fn busy(&self, sessions: &[&Session]) -> Busy {
        let (flows, mut flowing) = mpsc::unbounded_channel();
        let other = self.builder().open().unwrap();
        let stop = watch::Sender::new(false);
        let rounds = Arc::<AtomicUsize>::default();
        let all: Vec<_> = sessions.iter().copied().chain([&other]).cloned().collect();
        let traffic = all.iter().map(|session| Traffic {
            session: session.clone(),
            flows: flows.clone(),
            stop: stop.subscribe(),
            rounds: rounds.clone(),
        });
        let traffic: Vec<_> = traffic.collect();
        let blocking = traffic.clone().into_iter().map(|traffic| thread::spawn(|| traffic.block()));
        let mut threads: Vec<_> = blocking.collect();
        threads.push(thread::spawn(|| run(traffic)));
        let busy = Busy { stop, other, rounds, threads };
        drop(flows);
        for _ in 0..all.len() * 4 {
            if soon("the traffic flows", flowing.recv()).await.is_none() {
                // Whoever failed says why when it is joined.
                drop(busy);
                panic!("the traffic ended");
            }
        }
        for session in &all {
            until("locks in two lanes", || (self.lanes(session) >= 2).then_some(())).await;
        }
        busy
    }

    /// In how many ZooKeeper sessions the traffic of a session holds locks.
    fn lanes(&self, session: &Session) -> usize {
        let below = self.path(&format!("busy/s{}/held", session.id()));
        let holds = |path: &String| path.starts_with(&below);
        self.server().sessions().iter().filter(|lane| lane.ephemerals.iter().any(holds)).count()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let joined: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        blocking::block_on(self.other.close());
        println!("busy: {} rounds", self.rounds.load(Ordering::Relaxed));
        if !thread::panicking() {
            assert!(joined.iter().all(Result::is_ok), "the traffic failed");
        }
    }
}

/// What flows in one session.
#[derive(Clone)]
struct Traffic {
    session: Session,
    flows: mpsc::UnboundedSender<()>,
    stop: watch::Receiver<bool>,
    rounds: Arc<AtomicUsize>,
}

/// All that does not block a thread, until the stop.
fn run(traffic: Vec<Traffic>) {
    let mut stop = traffic[0].stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for traffic in traffic {
            tasks.spawn(traffic.clone().short());
            tasks.spawn(traffic.clone().look());
            tasks.spawn(traffic.many());
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            ended = tasks.join_next() => ended.unwrap().unwrap(),
        }
        // Whoever waits in them is cancelled, and what they hold is dropped.
        tasks.shutdown().await;
    });
}

impl Traffic {
    /// Counts a round; tells at the first that this part flows.
    fn round(&self, first: &mut bool) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        if std::mem::take(first) {
            // Nobody listens any more if another part failed.
            let _ = self.flows.send(());
        }
    }

    /// A short lock, with commits.
    async fn short(self) {
        let mutex = self.session.mutex(SHORT).unwrap();
        let mut first = true;
        loop {
            if let Some(guard) = had(mutex.acquire_timeout(TIMEOUT).await) {
                tokio::time::sleep(Duration::from_millis(monotonic_ns() % 5)).await;
                had(guard.release().await);
            }
            self.round(&mut first);
            tokio::time::sleep(pause()).await;
        }
    }

    /// A look at who wants it, with reads.
    async fn look(self) {
        let site = self.session.site(SHORT).unwrap();
        let mut first = true;
        loop {
            // A look has no deadline of its own.
            let looked = tokio::time::timeout(TIMEOUT, site.contenders()).await;
            if let Ok(looked) = looked {
                had(looked);
            }
            self.round(&mut first);
            tokio::time::sleep(pause()).await;
        }
    }

    /// More at once than one lane takes. Half of them are kept for good, the others for a second.
    async fn many(self) {
        let mut first = true;
        let mut held: Vec<MutexGuard> = Vec::new();
        for round in 0.. {
            held.truncate(AT_ONCE / 2);
            held.retain(|guard| guard.is_valid());
            let mut acquiring = JoinSet::new();
            // These fill the first lane, so that those after them go to the second.
            for number in 0..AT_ONCE / 2 {
                let name = format!("busy/s{}/burst{number}", self.session.id());
                let mutex = self.session.mutex(&name).unwrap();
                acquiring.spawn(async move { mutex.acquire_timeout(TIMEOUT).await });
            }
            for number in 0..AT_ONCE {
                let name = format!("busy/s{}/held{number}", self.session.id());
                if held.iter().all(|guard| guard.lock() != name) {
                    let mutex = self.session.mutex(&name).unwrap();
                    acquiring.spawn(async move { mutex.acquire_timeout(TIMEOUT).await });
                }
            }
            while let Some(acquired) = acquiring.join_next().await {
                let guard = had(acquired.unwrap());
                held.extend(guard.filter(|guard| guard.lock().contains("/held")));
            }
            self.round(&mut first);
            // The lane that is opened in the first round is used as soon as it is there.
            tokio::time::sleep(if round < 5 { pause() / 5 } else { 5 * pause() }).await;
        }
    }

    /// The short lock, from a thread that waits for it.
    fn block(self) {
        let mutex = self.session.mutex(SHORT).unwrap();
        let mut first = true;
        while !*self.stop.borrow() {
            if let Some(guard) = had(mutex.blocking_acquire_timeout(TIMEOUT)) {
                thread::yield_now();
                // Its release may wait for as long as the session lives.
                drop(guard);
            }
            self.round(&mut first);
            thread::sleep(pause());
        }
    }
}

/// What came of it. A test may break the network, the server and the sessions under the traffic.
fn had<T>(outcome: Result<T, LockError>) -> Option<T> {
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            let kind = error.kind();
            let broken = [ErrorKind::Unavailable, ErrorKind::Lost, ErrorKind::Closing];
            assert!(error.is_busy() || broken.contains(&kind), "the traffic: {error:#}");
            None
        }
    }
}

fn pause() -> Duration {
    Duration::from_millis(50 + monotonic_ns() % 150)
}
