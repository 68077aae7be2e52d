//! A session that holds as many nodes as servers bear, with long paths, so that some hundreds are enough.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_lite::future::or;
use zklock::MutexGuard;
use zklock_core::base::error::LockError;
use zklock_core::base::error_kind::ErrorKind;
use zklock_core::coordinator::operation::Operation;

use zklock_core::session::Session;

use crate::rules;
use crate::workload::task::Task;

/// How long the root is: two hundred nodes below it are nearly as much as a session may have.
const ROOT: usize = 7_800;

/// What a path takes below the root, at most.
const BELOW: usize = 100;

/// What a ZooKeeper session may have, and what servers bear (`docs/production.md`).
const MOST: usize = 1_800 * 1024;
const BORNE: usize = 2 * 1024 * 1024;

/// What counts as full: no other path fits.
const FULL: usize = MOST - ROOT - BELOW;

/// More than one connection has room for.
const MANY: usize = 300;

/// So many watches are more than a client can set again.
const FEW: usize = 25;

/// Longer than anybody looks for a connection with room.
const PATIENT: Duration = Duration::from_secs(20);

/// Who is told at once is told by then, in microseconds.
const AT_ONCE: u64 = 500_000;

/// So many queues or limits are as well.
const FOLLOWED: usize = 16;

/// How long somebody listens who hears nothing, in microseconds.
const NEWS: u64 = 50_000;

/// How many permits are wanted where there is room for few.
const PERMITS: u32 = 12;

/// What the calls of a burst got.
#[derive(Debug, Default)]
struct Got {
    held: Vec<MutexGuard>,
    refused: Vec<LockError>,
}

/// A session with a long root.
struct Heavy {
    session: Session,
    root: String,
    /// How many connections it may have.
    most: usize,
}

impl Task {
    /// A session with a long root and at most so many connections, and its label.
    fn heavy(&self, most: usize) -> Option<(Heavy, u64)> {
        let root = format!("/{}", "r".repeat(ROOT));
        let settings = |builder: zklock_core::session::SessionBuilder| {
            builder.root(root.clone()).max_connections(most)
        };
        let (session, label) = self.another_session_with(settings)?;
        Some((Heavy { session, root, most }, label))
    }

    /// Follows more queues, or uses more limits, than a client can watch, beside locks that are held.
    pub(in crate::workload) async fn watch_much(&self) {
        let Some((heavy, label)) = self.heavy(1) else { return };
        let mut held = self.burst(&heavy, 0, FOLLOWED).await.held;
        let (mut streams, mut semaphores) = (Vec::new(), Vec::new());
        let follows = self.choose(2) == 0;
        for number in 0..FOLLOWED {
            if follows {
                let Ok(site) = heavy.session.site(format!("n{number}")) else { continue };
                let mut events = site.events();
                or(async { drop(events.next().await) }, self.sleep(NEWS)).await;
                streams.push(events);
            } else {
                let (name, limit) = (format!("s{number}"), format!("l{number}"));
                let semaphore = heavy.session.semaphore_with_limit_at(name, &*limit, 1);
                let Ok(semaphore) = semaphore else { continue };
                drop(semaphore.acquire_timeout(PATIENT).await);
                semaphores.push(semaphore);
            }
        }
        self.hears_of_each(&heavy, &mut held).await;
        drop((held, streams, semaphores));
        self.close(heavy.session, label).await;
    }

    pub(in crate::workload) async fn hold_much(&self) {
        let most = 1 + self.process.world().seldom(2, 400) as usize;
        let Some((heavy, label)) = self.heavy(most) else { return };
        // It takes its time, so most look at watches alone.
        let mut held = match self.process.world().seldom(2, 100) {
            0 => self.burst(&heavy, 0, FEW).await.held,
            _ => {
                let mut held = self.fill(&heavy).await;
                self.is_refused_at_once(&heavy).await;
                self.lets_some_go(&heavy, &mut held).await;
                held
            }
        };
        self.hears_of_each(&heavy, &mut held).await;
        match self.choose(2) {
            0 => drop(held),
            _ => {
                for guard in held {
                    drop(guard.release().await);
                }
            }
        }
        self.close(heavy.session, label).await;
    }

    /// Acquires locks until there is no room for more.
    async fn fill(&self, heavy: &Heavy) -> Vec<MutexGuard> {
        // More than one connection has room for, before there is another one.
        let many = if heavy.most > 1 { [1, 60, MANY] } else { [1, 8, 60] };
        let many = many[self.choose(3) as usize];
        self.say(|| format!("fills {} connections, {many} at a time", heavy.most));
        let mut held = Vec::new();
        loop {
            let began = self.process.world().now();
            let got = self.burst(heavy, held.len(), many).await;
            held.extend(got.held);
            self.check_sums(heavy);
            if let Some(refused) = got.refused.first() {
                self.check_full(heavy, refused, began);
                return held;
            }
        }
    }

    /// Asks for some locks at a time.
    async fn burst(&self, heavy: &Heavy, from: usize, many: usize) -> Got {
        let lock = |number: usize| heavy.session.mutex(format!("n{}", from + number));
        if many == 1 {
            let Ok(lock) = lock(0) else { return Got::default() };
            let mut got = Got::default();
            match lock.acquire_timeout(PATIENT).await {
                Ok(guard) => got.held.push(guard),
                Err(error) => got.refused.push(error),
            }
            return got;
        }
        let got = Arc::new(Mutex::new(Got::default()));
        for lock in (0..many).filter_map(|number| lock(number).ok()) {
            let got = got.clone();
            self.process.spawn(async move {
                let answer = lock.acquire_timeout(PATIENT).await;
                let mut got = got.lock().unwrap_or_else(PoisonError::into_inner);
                match answer {
                    Ok(guard) => got.held.push(guard),
                    Err(error) => got.refused.push(error),
                }
            });
        }
        loop {
            self.sleep(2_000).await;
            let mut got = got.lock().unwrap_or_else(PoisonError::into_inner);
            if got.held.len() + got.refused.len() >= many {
                return std::mem::take(&mut got);
            }
        }
    }

    /// No session of the servers has more than they bear at its end.
    fn check_sums(&self, heavy: &Heavy) {
        let owned = self.crew.ledger.store().ensemble().owned(&heavy.root);
        // Each path with its length, in four bytes.
        let sums = owned.iter().map(|(session, (many, bytes))| (session, 4 * many + bytes));
        for (session, bytes) in sums.filter(|(_, bytes)| *bytes > BORNE) {
            let what = format!("session {session:x} has {bytes} bytes of nodes");
            self.crew.ledger.fail(rules::NODES, what);
        }
    }

    /// Somebody is refused: all connections have as much as they may.
    fn check_full(&self, heavy: &Heavy, refused: &LockError, began: u64) {
        self.say(|| format!("{refused:#}"));
        let long = self.process.world().now() - began + 2 * self.crew.timeout;
        if !self.crew.ledger.calm_for(long) {
            return;
        }
        let owned = self.crew.ledger.store().ensemble().owned(&heavy.root);
        let full = owned.values().filter(|(many, bytes)| 4 * many + bytes > FULL).count();
        if refused.kind() != ErrorKind::Unavailable || full < heavy.most {
            let what = format!("{full} of {} are full, of {owned:x?}: {refused:#}", heavy.most);
            self.crew.ledger.fail(rules::NODES, what);
        }
    }

    /// Where all connections are full, who asks for more is told so at once.
    async fn is_refused_at_once(&self, heavy: &Heavy) {
        let (world, began) = (self.process.world(), self.process.world().now());
        let Ok(lock) = heavy.session.mutex("another") else { return };
        let answer = lock.acquire_timeout(PATIENT).await;
        let took = world.now() - began;
        if !self.crew.ledger.calm_for(took + 2 * self.crew.timeout) {
            return;
        }
        match answer {
            Err(error) if error.kind() == ErrorKind::Unavailable && took < AT_ONCE => {}
            answer => {
                let what = format!("{}: {answer:?} after {took} µs", self.name);
                self.crew.ledger.fail(rules::NODES, what);
            }
        }
    }

    /// Some room is no room for many permits, which are refused, and is there for others then.
    async fn lets_some_go(&self, heavy: &Heavy, held: &mut Vec<MutexGuard>) {
        // Of each connection.
        for _ in 0..4 * heavy.most.min(held.len()) {
            let guard = held.swap_remove(self.choose(held.len() as u32) as usize);
            drop(guard.release().await);
        }
        let Ok(permits) = heavy.session.semaphore("permits", PERMITS) else { return };
        let acquiring = async { Some(permits.acquire_many(PERMITS).await) };
        let late = async {
            self.sleep(PATIENT.as_micros() as u64).await;
            None
        };
        match or(acquiring, late).await {
            Some(Err(error)) if error.kind() == ErrorKind::Unavailable => {}
            answer => {
                let what = format!("{}: {answer:?} to who wants {PERMITS} permits", self.name);
                self.crew.ledger.fail(rules::NODES, what);
            }
        }
        self.check_sums(heavy);
        // Until it is known that what was taken of them is gone.
        self.sleep(AT_ONCE).await;
        let Ok(lock) = heavy.session.mutex("again") else { return };
        match lock.acquire_timeout(PATIENT).await {
            Ok(guard) => held.push(guard),
            Err(error) => {
                let what = format!("{}: there is room, and {error:#}", self.name);
                self.crew.ledger.fail(rules::NODES, what);
            }
        }
    }

    /// However many are held: none is lost without a reason, and each deletion is told within a heartbeat.
    async fn hears_of_each(&self, heavy: &Heavy, held: &mut Vec<MutexGuard>) {
        let (ledger, timeout) = (&self.crew.ledger, self.crew.timeout);
        self.sleep(timeout).await;
        if !held.is_empty() {
            let victim = held.swap_remove(self.choose(held.len() as u32) as usize);
            let path = victim.node_path().to_owned();
            ledger.store().meddle();
            ledger.store().ensemble().outsider(Operation::Delete { path });
            self.sleep(timeout / 6 + 100_000).await;
            if victim.is_valid() && ledger.calm_for(2 * timeout) {
                let what = format!("{}: one of {} is gone, and valid", self.name, held.len() + 1);
                ledger.fail(rules::TOLD, what);
            }
        }
        let lost = held.iter().filter(|guard| !guard.is_valid()).count();
        if lost > 0 {
            let what = format!("{}: {lost} of {} are lost", self.name, held.len());
            ledger.fail(rules::REASON, what);
        }
        self.check_sums(heavy);
    }
}
