//! Curator and kazoo, who want the same locks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use zklock_test_support::peers::{Agent, Curator, Kazoo, LockKind, Outcome};

use super::agent::ROOT;
use super::history::Writer;
use super::random::Random;
use super::work::Work;

/// Of the peers. They promise nothing where their sessions end, so theirs outlive every fault.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// How many threads of a peer want locks.
const THREADS: u64 = 3;

/// How long a peer may take beyond its timeout: both were seen to wait for servers that are gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process of another library, whose locks are in this layout.
#[derive(Debug)]
pub(super) struct Peer {
    layout: &'static str,
    agent: Agent,
    /// It has left a request without an answer.
    hangs: AtomicBool,
}

impl Peer {
    /// Starts both.
    pub(super) fn start_all(connect: &str) -> [Self; 2] {
        let curator = Curator::compile().agent(connect, SESSION_TIMEOUT);
        let kazoo = Kazoo::install().agent(connect, SESSION_TIMEOUT);
        [("curator", curator), ("kazoo", kazoo)].map(|(layout, agent)| Peer {
            layout,
            agent,
            hangs: AtomicBool::new(false),
        })
    }

    /// Takes locks and gives them back until it is over.
    pub(super) fn work(&self, history: &Writer, work: &Work, grants: &AtomicU64) {
        let start = json!({ "peer": self.layout,
            "session_timeout_ms": SESSION_TIMEOUT.as_millis() });
        history.note(json!({ "client": self.name(), "start": start }));
        let next = AtomicU64::new(1);
        thread::scope(|scope| {
            for number in 0..THREADS {
                let seed = work.seed ^ (0xbeef + number) ^ self.layout.len() as u64;
                let (next, grants) = (&next, grants);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    while !work.is_over() && !self.hangs.load(Ordering::SeqCst) {
                        let ended = self.once(history, &mut random, next, grants);
                        self.hangs.fetch_or(ended.is_none(), Ordering::SeqCst);
                    }
                });
            }
        });
    }

    fn name(&self) -> String {
        format!("{}-peer", self.layout)
    }

    /// Takes a lock and gives it back; `None` where an answer does not come.
    fn once(
        &self,
        history: &Writer,
        random: &mut Random,
        next: &AtomicU64,
        grants: &AtomicU64,
    ) -> Option<()> {
        let (kind, word, lock) = match random.below(10) {
            0..6 => (LockKind::Mutex, "mutex", format!("mutex-{}", random.below(24))),
            6 => (LockKind::Read, "read", format!("rw-{}", random.below(6))),
            7 => (LockKind::Write, "write", format!("rw-{}", random.below(6))),
            8 => (LockKind::Mutex, "mutex", format!("slow-{}", random.below(8))),
            _ => {
                // What zklock reads from a node, and does not change, a peer may say as a number.
                let at = self.layout == "curator" && random.below(2) == 0;
                let lock = if at { "semaphore-at-0" } else { "semaphore-0" };
                (LockKind::Semaphore(3), "semaphore", lock.to_owned())
            }
        };
        let lock = format!("{}/{lock}", self.layout);
        let id = next.fetch_add(2, Ordering::SeqCst);
        let note = |field: &str, said: serde_json::Value| {
            history.note(json!({ "client": self.name(), field: said }));
        };
        let timeout = Duration::from_millis(500 + random.below(1_500));
        note(
            "in",
            json!({ "id": id, "op": "acquire", "kind": word, "lock": lock, "limit": 3,
            "timeout_ms": timeout.as_millis() }),
        );
        let refused = |id: u64, error: &str| {
            note("out", json!({ "id": id, "ok": false, "error": error }));
        };
        let path = format!("{ROOT}/{lock}");
        match self.agent.start_acquire(kind, &path, Some(timeout)).wait(timeout + PATIENCE)? {
            Outcome::Held(grant) => {
                grants.fetch_add(1, Ordering::SeqCst);
                note(
                    "out",
                    json!({ "id": id, "ok": true, "handle": id, "path": grant.node,
                    "at_ns": grant.at_ns }),
                );
                thread::sleep(Duration::from_millis(random.below(30)));
                note("in", json!({ "id": id + 1, "op": "release", "handle": id }));
                match self.agent.release_within(&grant, PATIENCE)? {
                    Ok(at) => note("out", json!({ "id": id + 1, "ok": true, "at_ns": at })),
                    Err(why) => refused(id + 1, &why),
                }
            }
            Outcome::Busy => refused(id, "busy"),
            Outcome::Cancelled => refused(id, "cancelled"),
            Outcome::Failed(why) => {
                refused(id, &why);
                // The servers are broken just now.
                thread::sleep(Duration::from_millis(200));
            }
        }
        Some(())
    }

    /// Closes its session, or lets it expire where the peer does not go on: its nodes would keep
    /// everybody out.
    pub(super) fn quit(self, history: &Writer) {
        let name = self.name();
        let hangs = self.hangs.load(Ordering::SeqCst);
        if hangs {
            self.agent.kill();
        } else {
            self.agent.quit();
        }
        let end = if hangs { "killed" } else { "quit" };
        history.note(json!({ "client": name, "end": end }));
    }
}
