//! What is done to servers, network and clients.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use zklock_test_support::{Cut, Direction, Ensemble, Proxy, RawClient, monotonic_ns};

use super::agent::Seat;
use super::history::Writer;
use super::random::Random;
use super::run::SESSION_TIMEOUT;
use super::work::Work;

/// What both kinds of faults need.
pub(super) struct Stage<'a> {
    pub(super) ensemble: &'a Ensemble,
    pub(super) history: &'a Writer,
    pub(super) work: &'a Work,
    pub(super) over: &'a AtomicBool,
    pub(super) counts: Mutex<BTreeMap<String, u64>>,
    /// From the end of a leader to the next grant, in milliseconds.
    pub(super) failover_ms: AtomicU64,
}

impl Stage<'_> {
    fn count(&self, what: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(what.to_owned()).or_default() += 1;
    }

    fn note(&self, what: &str, whom: &str) {
        self.count(what);
        self.history.note(json!({ "fault": format!("{what}: {whom}") }));
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Waits, but not beyond the end.
    fn pause(&self, time: Duration) {
        let limit = Instant::now() + time;
        while !self.is_over() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Breaks servers, one after the other, until it is over; then all serve.
    pub(super) fn servers(&self, mut random: Random) {
        let mut turn = random.below(6);
        while !self.is_over() {
            let (leader, followers) = (self.ensemble.leader(), self.ensemble.followers());
            let Some(follower) = followers.first().copied() else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let whom = if turn.is_multiple_of(2) { leader } else { follower };
            let role = if whom == leader { "leader" } else { "follower" };
            let name = format!("server {whom}");
            let server = self.ensemble.server(whom);
            let from = monotonic_ns();
            match turn % 6 {
                0 | 1 => {
                    self.note(&format!("{role} killed"), &name);
                    server.kill();
                    if whom == leader {
                        self.failover(from);
                    }
                    self.pause(Duration::from_millis(random.below(1_500)));
                    server.restart();
                }
                2 | 3 => {
                    self.note(&format!("{role} stopped"), &name);
                    server.pause();
                    self.pause(SESSION_TIMEOUT.mul_f64(0.5 + 0.5 * random.below(4) as f64));
                    server.resume();
                }
                _ => {
                    self.note(&format!("{role} cut off"), &name);
                    self.ensemble.isolate(whom);
                    self.pause(SESSION_TIMEOUT.mul_f64(0.5 + 0.5 * random.below(4) as f64));
                    self.ensemble.heal(whom);
                }
            }
            turn += 1;
            if turn.is_multiple_of(8) {
                for (index, server) in self.ensemble.servers().iter().enumerate() {
                    self.note("rolling restart", &format!("server {index}"));
                    server.restart();
                    self.quorum();
                }
            }
            self.quorum();
            self.pause(Duration::from_millis(300 + random.below(1_200)));
        }
    }

    /// Waits until all three serve together.
    fn quorum(&self) {
        let limit = Instant::now() + Duration::from_secs(60);
        while self.ensemble.followers().len() < 2 {
            assert!(Instant::now() < limit, "the servers do not find together");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Notes how long it takes until somebody is granted something again.
    fn failover(&self, from: u64) {
        let limit = Instant::now() + Duration::from_secs(60);
        // Answers that were on their way do not count.
        thread::sleep(Duration::from_millis(100));
        let settled = monotonic_ns();
        while self.work.last_grant() < settled && !self.is_over() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(10));
        }
        if self.work.last_grant() >= settled {
            let took = (self.work.last_grant() - from) / 1_000_000;
            self.failover_ms.fetch_max(took, Ordering::SeqCst);
        }
    }

    /// Breaks clients and their connections until it is over; then all are whole.
    pub(super) fn clients(&self, seats: &[Seat], mut random: Random, mean: Duration) {
        let mut incarnation = 1;
        let mut killed: Vec<(usize, String, Instant)> = Vec::new();
        while !self.is_over() {
            self.pause(mean.mul_f64(2.0 * random.below(100) as f64 / 100.0));
            let seat = random.one_of(seats);
            let name = seat.name();
            let all = |act: &dyn Fn(&Proxy)| seat.proxies.iter().for_each(act);
            let long = SESSION_TIMEOUT.mul_f64(*random.one_of(&[0.3, 0.5, 1.5]));
            match random.below(20) {
                0..6 => {
                    self.note("connections cut", &name);
                    let way = if random.below(2) == 0 { Cut::Fin } else { Cut::Reset };
                    all(&|proxy| proxy.cut(way));
                }
                6..9 => {
                    self.note("server out of reach", &name);
                    let proxy = random.one_of(&seat.proxies);
                    proxy.refuse(true);
                    proxy.cut(Cut::Reset);
                    self.pause(long);
                    proxy.heal();
                }
                9..11 => {
                    self.note("silence", &name);
                    all(&|proxy| proxy.black_hole(true));
                    self.pause(long);
                    all(&Proxy::heal);
                }
                11..13 => {
                    self.note("deaf", &name);
                    all(&|proxy| proxy.black_hole_one_way(Direction::ToClient, true));
                    self.pause(long);
                    all(&Proxy::heal);
                }
                13 => {
                    self.note("slow network", &name);
                    all(&|proxy| proxy.delay(Duration::from_millis(30)));
                    self.pause(long);
                    all(&Proxy::heal);
                }
                14..17 => {
                    self.note("client stopped", &name);
                    seat.signal(Signal::STOP);
                    let times = *random.one_of(&[0.5, 0.5, 1.5, 3.0]);
                    self.pause(SESSION_TIMEOUT.mul_f64(times));
                    seat.signal(Signal::CONT);
                }
                17 => {
                    self.note("client killed", &name);
                    seat.kill();
                    killed.push((seat.number(), name, Instant::now()));
                    incarnation += 1;
                    seat.start(incarnation);
                }
                _ => {
                    let sessions = seat
                        .proxies
                        .iter()
                        .flat_map(|proxy| proxy.sessions().last().map(|key| (proxy, key.id)));
                    let found: Vec<_> = sessions.collect();
                    if found.is_empty() {
                        continue;
                    }
                    let (proxy, id) = random.one_of(&found);
                    self.count("session killed");
                    let until = monotonic_ns() + SESSION_TIMEOUT.as_nanos() as u64 * 5;
                    // It may be that of a process which is just dead; its locks were sure until then.
                    killed.retain(|(.., at)| at.elapsed() < 2 * SESSION_TIMEOUT);
                    let dead = killed.iter().filter(|(number, ..)| *number == seat.number());
                    for whose in dead.map(|(_, name, _)| name).chain([&name]) {
                        let note = json!({ "fault": format!("session killed: {id:#x}"),
                            "client": whose, "until_ns": until });
                        self.history.note(note);
                    }
                    expire(self, proxy, *id);
                }
            }
        }
        for seat in seats {
            seat.proxies.iter().for_each(Proxy::heal);
        }
    }
}

/// Ends a session, if its server can be reached now.
fn expire(stage: &Stage<'_>, proxy: &Proxy, id: i64) {
    let Some(key) = proxy.sessions().into_iter().find(|key| key.id == id) else { return };
    // Any server knows all sessions.
    let addr = stage.ensemble.server(stage.ensemble.leader()).addr();
    if let Ok(client) = RawClient::resume(&addr, &key) {
        _ = client.close();
    }
    proxy.cut_session(id, Cut::Fin);
}
