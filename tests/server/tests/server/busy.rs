//! A busy day: traffic beside a test, in its sessions and in others.
//!
//! In each session that is given: a short lock every 50 to 200 ms, from a task and from a thread that
//! blocks; a look at its queue as often; now and then more acquires at once than one lane takes; and
//! locks that are held all the time, in two lanes. A session of its own wants the same short locks.
//!
//! It must flow to the end, and unless the test breaks something, no call of it may fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use zklock::{ErrorKind, LockError, MutexGuard, Session, blocking};
use zklock_test_support::monotonic_ns;

use crate::bed::{Bed, PATIENCE, soon, until};

/// More than eight acquires on their way open another lane, and the next ones use it.
const AT_ONCE: usize = 16;

/// What all sessions want.
pub(crate) const SHORT: &str = "busy/short";

/// How long a caller waits where something is broken, and so how long a stop takes at most.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Traffic, until it is dropped; that fails the test if the traffic failed, or did not flow.
#[must_use = "the traffic ends with it"]
pub(crate) struct Busy {
    stop: watch::Sender<bool>,
    other: Session,
    /// Of each session.
    grants: Vec<Arc<Grants>>,
    since: Instant,
    is_broken: bool,
    threads: Vec<JoinHandle<()>>,
}

/// What was granted in a session.
#[derive(Debug, Default)]
struct Grants {
    short: AtomicUsize,
    /// Of many at once.
    many: AtomicUsize,
}

impl Grants {
    /// What there was until now, which counts no longer.
    fn take(&self) -> [usize; 2] {
        [&self.short, &self.many].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

impl Bed {
    /// Starts traffic in these sessions and beside them; comes back when all of it flows and every
    /// session holds locks in two lanes. Nothing is broken meanwhile: each of its calls must succeed,
    /// and each session must be granted locks all the time.
    pub(crate) async fn busy(&self, sessions: &[&Session]) -> Busy {
        self.traffic(sessions, 2, false).await
    }

    /// The same in sessions that have one lane.
    pub(crate) async fn busy_in_one_lane(&self, sessions: &[&Session]) -> Busy {
        self.traffic(sessions, 1, false).await
    }

    /// [Traffic](Bed::busy) of a test that breaks the network, the server or a session, or makes answers
    /// late, and so the traffic.
    pub(crate) async fn busy_while_broken(&self, sessions: &[&Session]) -> Busy {
        self.traffic(sessions, 2, true).await
    }

    /// The same in sessions that have one lane.
    pub(crate) async fn busy_in_one_lane_while_broken(&self, sessions: &[&Session]) -> Busy {
        self.traffic(sessions, 1, true).await
    }

    async fn traffic(&self, sessions: &[&Session], lanes: usize, is_broken: bool) -> Busy {
        let (flows, mut flowing) = mpsc::unbounded_channel();
        let other = self.builder().open().unwrap();
        let stop = watch::Sender::new(false);
        let all: Vec<_> = sessions.iter().copied().chain([&other]).cloned().collect();
        let traffic = all.iter().map(|session| Traffic {
            session: session.clone(),
            flows: flows.clone(),
            stop: stop.subscribe(),
            grants: Arc::default(),
            is_broken,
        });
        let traffic: Vec<_> = traffic.collect();
        let grants = traffic.iter().map(|traffic| traffic.grants.clone()).collect();
        let blocking = traffic.clone().into_iter().map(|traffic| thread::spawn(|| traffic.block()));
        let mut threads: Vec<_> = blocking.collect();
        threads.push(thread::spawn(|| run(traffic)));
        let mut busy = Busy { stop, other, grants, since: Instant::now(), is_broken, threads };
        drop(flows);
        for _ in 0..all.len() * 4 {
            if soon("the traffic flows", flowing.recv()).await.is_none() {
                // Whoever failed says why when it is joined.
                drop(busy);
                panic!("the traffic ended");
            }
        }
        for session in &all {
            until("locks in all lanes", || (self.lanes(session) >= lanes).then_some(())).await;
        }
        busy.count_anew();
        busy
    }

    /// In how many ZooKeeper sessions the traffic of a session holds locks.
    fn lanes(&self, session: &Session) -> usize {
        let below = self.path(&format!("busy/s{}/held", session.id()));
        let holds = |path: &String| path.starts_with(&below);
        self.server().sessions().iter().filter(|lane| lane.ephemerals.iter().any(holds)).count()
    }
}

impl Busy {
    /// Counts what is granted from now on.
    pub(crate) fn count_anew(&mut self) {
        for grants in &self.grants {
            grants.take();
        }
        self.since = Instant::now();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let seconds = usize::try_from(self.since.elapsed().as_secs()).unwrap();
        let grants: Vec<_> = self.grants.iter().map(|grants| grants.take()).collect();
        self.stop.send_replace(true);
        let joined: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        blocking::block_on(self.other.close());
        println!("busy for {seconds} s: {grants:?} grants");
        if !thread::panicking() {
            assert!(joined.iter().all(Result::is_ok), "the traffic failed");
            // It is about ten times as many on a machine of two busy cores.
            let flows = grants.iter().flatten().all(|count| *count >= seconds);
            assert!(flows || self.is_broken, "no traffic for {seconds} s: {grants:?} grants");
        }
    }
}

/// What flows in one session.
#[derive(Clone)]
struct Traffic {
    session: Session,
    flows: mpsc::UnboundedSender<()>,
    stop: watch::Receiver<bool>,
    grants: Arc<Grants>,
    is_broken: bool,
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
    /// Tells when this part flows, once.
    fn flows(&self, first: &mut bool) {
        if std::mem::take(first) {
            // Nobody listens any more if another part failed.
            let _ = self.flows.send(());
        }
    }

    /// How long a caller waits.
    fn timeout(&self) -> Duration {
        if self.is_broken { TIMEOUT } else { PATIENCE }
    }

    /// What came of it. Where nothing is broken, nothing fails.
    fn had<T>(&self, outcome: Result<T, LockError>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                let kind = error.kind();
                let broken = [ErrorKind::Unavailable, ErrorKind::Lost, ErrorKind::Closing];
                let is_excused = error.is_busy() || broken.contains(&kind);
                assert!(self.is_broken && is_excused, "the traffic: {error:#}");
                None
            }
        }
    }

    /// A short lock, with commits.
    async fn short(self) {
        let mutex = self.session.mutex(SHORT).unwrap();
        let mut first = true;
        loop {
            if let Some(guard) = self.had(mutex.acquire_timeout(self.timeout()).await) {
                self.grants.short.fetch_add(1, Ordering::Relaxed);
                self.flows(&mut first);
                tokio::time::sleep(Duration::from_millis(monotonic_ns() % 5)).await;
                self.had(guard.release().await);
            }
            tokio::time::sleep(pause()).await;
        }
    }

    /// A look at who wants it, with reads.
    async fn look(self) {
        let site = self.session.site(SHORT).unwrap();
        let mut first = true;
        loop {
            // By itself it gives up after the time of a call, 4 s, which a busy machine may need.
            let looking = async {
                loop {
                    match site.contenders().await {
                        Err(error) if error.is_unavailable() && !self.is_broken => {}
                        looked => return looked,
                    }
                }
            };
            let looked = tokio::time::timeout(self.timeout(), looking).await;
            assert!(looked.is_ok() || self.is_broken, "the traffic: a look takes too long");
            if let Ok(looked) = looked
                && self.had(looked).is_some()
            {
                self.flows(&mut first);
            }
            tokio::time::sleep(pause()).await;
        }
    }

    /// More at once than one lane takes. Half of them are kept for good, the others for a second.
    async fn many(self) {
        let mut first = true;
        let mut held: Vec<MutexGuard> = Vec::new();
        for round in 0.. {
            held.truncate(AT_ONCE / 2);
            // Looked at once: where something is broken, one may be lost between two looks.
            let held_before = held.len();
            held.retain(|guard| guard.is_valid());
            let is_lost = held.len() < held_before;
            assert!(!is_lost || self.is_broken, "the traffic: a guard is lost");
            let mut acquiring = JoinSet::new();
            // These fill the first lane, so that those after them go to the second.
            for number in 0..AT_ONCE / 2 {
                let name = format!("busy/s{}/burst{number}", self.session.id());
                let (mutex, timeout) = (self.session.mutex(&name).unwrap(), self.timeout());
                acquiring.spawn(async move { mutex.acquire_timeout(timeout).await });
            }
            for number in 0..AT_ONCE {
                let name = format!("busy/s{}/held{number}", self.session.id());
                if held.iter().all(|guard| guard.lock_name() != name) {
                    let (mutex, timeout) = (self.session.mutex(&name).unwrap(), self.timeout());
                    acquiring.spawn(async move { mutex.acquire_timeout(timeout).await });
                }
            }
            while let Some(acquired) = acquiring.join_next().await {
                let Some(guard) = self.had(acquired.unwrap()) else { continue };
                self.grants.many.fetch_add(1, Ordering::Relaxed);
                self.flows(&mut first);
                held.extend(guard.lock_name().contains("/held").then_some(guard));
            }
            // The lane that is opened in the first round is used as soon as it is there.
            tokio::time::sleep(if round < 5 { pause() / 5 } else { 5 * pause() }).await;
        }
    }

    /// The short lock, from a thread that waits for it.
    fn block(self) {
        let mutex = self.session.mutex(SHORT).unwrap();
        let mut first = true;
        while !*self.stop.borrow() {
            if let Some(guard) = self.had(mutex.blocking_acquire_timeout(self.timeout())) {
                self.grants.short.fetch_add(1, Ordering::Relaxed);
                self.flows(&mut first);
                thread::yield_now();
                // Its release may wait for as long as the session lives.
                drop(guard);
            }
            thread::sleep(pause());
        }
    }
}

fn pause() -> Duration {
    Duration::from_millis(50 + monotonic_ns() % 150)
}
