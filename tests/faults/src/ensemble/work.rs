//! What the clients do: several hands each, that acquire and release without a pause.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use zklock_checker::Answer;
use zklock_test_support::monotonic_ns;

use super::random::Random;

/// How many hands of a client want any lock.
const HANDS: usize = 8;

/// How many more, of a client whose waiters hand locks on in memory, crowd on a few mutexes and
/// want nothing else: all others are slower, and in the end every hand would wait for one.
const CROWD: usize = 36;

/// How many mutexes those are.
const CROWDED: u64 = 6;

/// What all clients share.
#[derive(Debug)]
pub(super) struct Work {
    seed: u64,
    /// No new acquires.
    over: AtomicBool,
    /// Acquires that were granted.
    pub(super) grants: AtomicU64,
    /// Acquires and releases that were answered.
    pub(super) operations: AtomicU64,
    /// The same, of clients that give each waiter a node of its own.
    pub(super) own_nodes: AtomicU64,
    /// Hands that still have something to do.
    pub(super) busy: AtomicU64,
    gaps: Mutex<Gaps>,
}

/// How long nobody was granted anything.
#[derive(Debug, Default)]
struct Gaps {
    last: u64,
    worst: u64,
}

/// One client's side.
#[derive(Debug)]
pub(super) struct Hands {
    random: Random,
    next: u64,
    waiting: HashMap<u64, For>,
    fair: bool,
}

/// What an answer is for.
#[derive(Debug)]
enum For {
    Acquire(Hand),
    /// So many more looks at this guard.
    Check(Hand, u64, u64),
    Release(Hand),
    Cancel,
}

/// What a hand wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hand {
    /// Any lock.
    Any,
    /// One of those on which they crowd.
    Crowd,
}

impl Work {
    pub(super) fn new(seed: u64) -> Self {
        Work {
            seed,
            over: AtomicBool::new(false),
            grants: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            own_nodes: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            gaps: Mutex::default(),
        }
    }

    /// Lets everybody finish.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// The hands of a killed client rest.
    pub(super) fn gone(&self, hands: &Hands) {
        let busy = hands.waiting.values().filter(|what| !matches!(what, For::Cancel)).count();
        self.busy.fetch_sub(busy as u64, Ordering::SeqCst);
    }

    pub(super) fn worst_gap_ms(&self) -> u64 {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).worst / 1_000_000
    }

    /// When somebody was granted something last.
    pub(super) fn last_grant(&self) -> u64 {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    pub(super) fn begin(&self, client: u64, fair: bool, send: &impl Fn(&Value)) -> Hands {
        let random = Random(self.seed ^ client.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut hands = Hands { random, next: 1, waiting: HashMap::new(), fair };
        let crowd = if fair { 0 } else { CROWD };
        for hand in [Hand::Any].repeat(HANDS).into_iter().chain([Hand::Crowd].repeat(crowd)) {
            self.busy.fetch_add(1, Ordering::SeqCst);
            self.acquire(hand, &mut hands, send);
        }
        hands
    }

    fn acquire(&self, hand: Hand, hands: &mut Hands, send: &impl Fn(&Value)) {
        if self.over.load(Ordering::SeqCst) {
            self.busy.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let (random, id) = (&mut hands.random, hands.next);
        let mutex = |number| json!({ "kind": "mutex", "lock": format!("mutex-{number}") });
        let mut request = match random.below(20) {
            _ if hand == Hand::Crowd => mutex(random.below(CROWDED)),
            0..10 => mutex(random.below(24)),
            10..13 => json!({ "kind": "read", "lock": format!("rw-{}", random.below(6)) }),
            13..15 => json!({ "kind": "write", "lock": format!("rw-{}", random.below(6)) }),
            15..18 => json!({ "kind": "semaphore", "lock": "semaphore", "limit": 3,
                "permits": random.below(2) + 1 }),
            // Each of these is a member of the others, too.
            _ => {
                let first = random.below(3);
                let locks = [format!("multi-{first}"), format!("multi-{}", (first + 1) % 3)];
                json!({ "kind": "multi", "lock": locks })
            }
        };
        (request["id"], request["op"]) = (json!(id), json!("acquire"));
        match random.below(10) {
            0 => request["timeout_ms"] = json!(0),
            1..4 => request["timeout_ms"] = json!(random.below(2_000) + 1),
            _ => {}
        }
        hands.next += 1;
        hands.waiting.insert(id, For::Acquire(hand));
        let cancels = hands.random.below(40) == 0;
        send(&request);
        if cancels {
            hands.waiting.insert(hands.next, For::Cancel);
            send(&json!({ "id": hands.next, "op": "cancel", "target": id }));
            hands.next += 1;
        }
    }

    fn ask(hands: &mut Hands, op: &str, handle: u64, what: For, send: &impl Fn(&Value)) {
        let id = hands.next;
        hands.next += 1;
        hands.waiting.insert(id, what);
        send(&json!({ "id": id, "op": op, "handle": handle }));
    }

    /// Takes an answer and does what is next.
    pub(super) fn go_on(&self, hands: &mut Hands, answer: &Answer, send: &impl Fn(&Value)) {
        let Some(what) = answer.id.and_then(|id| hands.waiting.remove(&id)) else { return };
        let ok = answer.ok == Some(true);
        match what {
            For::Cancel => {}
            For::Acquire(hand) => {
                self.count(hands);
                match answer.handle.filter(|_| ok) {
                    Some(handle) => {
                        self.granted();
                        let looks = match hand {
                            Hand::Any => [0, 0, 0, 1, 3, 20][hands.random.below(6) as usize],
                            Hand::Crowd => hands.random.below(2),
                        };
                        self.hold(hand, hands, handle, looks, send);
                    }
                    None => self.acquire(hand, hands, send),
                }
            }
            For::Check(hand, handle, left) => self.hold(hand, hands, handle, left, send),
            For::Release(hand) => {
                self.count(hands);
                self.acquire(hand, hands, send);
            }
        }
    }

    fn hold(&self, hand: Hand, hands: &mut Hands, handle: u64, looks: u64, send: &impl Fn(&Value)) {
        match looks.checked_sub(1) {
            Some(left) => Self::ask(hands, "check", handle, For::Check(hand, handle, left), send),
            None => {
                let op = if hands.random.below(8) == 0 { "drop" } else { "release" };
                Self::ask(hands, op, handle, For::Release(hand), send);
            }
        }
    }

    fn count(&self, hands: &Hands) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        if hands.fair {
            self.own_nodes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn granted(&self) {
        self.grants.fetch_add(1, Ordering::Relaxed);
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        let now = monotonic_ns();
        if gaps.last > 0 {
            gaps.worst = gaps.worst.max(now.saturating_sub(gaps.last));
        }
        gaps.last = now;
    }
}
