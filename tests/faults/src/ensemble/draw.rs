//! What is drawn for a process: its layout, its options, and what its hands ask for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::random::Random;

/// The layouts of the last two seats, beside Curator's of the first three and kazoo's of the next.
const LAYOUTS: [&str; 6] = ["kazoo", "removed", "dlock", "lock", "read-write-node", "host"];

/// How many mutexes the hands crowd on that want nothing else.
const CROWDED: u64 = 6;

/// The semaphores that also have twins with their limit in a node, and the limits.
const LIMITS: [(&str, u32); 2] = [("semaphore", 3), ("slow-semaphore", 6)];

/// The end of a twin's name.
pub(super) const TWIN: &str = "-at";

/// The nodes with limits, below the root, and the limits.
pub(super) fn limits() -> BTreeMap<String, u32> {
    LIMITS.map(|(name, limit)| (limit_at(name), limit)).into()
}

fn limit_at(name: &str) -> String {
    format!("limits/{name}")
}

/// On how many mutexes the hands of a process that is fair wait for their turns.
pub(super) const IN_ORDER: u64 = 2;

/// How a process is started.
#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) layout: &'static str,
    pub(super) options: Vec<String>,
    /// Whether each waiter has a node of its own.
    pub(super) fair: bool,
    lingers: bool,
    /// The locks of its own of a process that keeps them beyond the release or the loss.
    marked: Option<&'static str>,
}

/// What a hand wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Any lock, for a moment.
    Any,
    /// One of those on which they crowd.
    Crowd,
    /// One of those on which they wait in order: there are few, because each waiter has a node.
    InOrder,
    /// A lock for seconds.
    Slow,
    /// A lock on which nobody can be in the way.
    Free,
}

/// The layout of the last two seats.
pub(super) fn other_layout(seed: u64) -> &'static str {
    let mut random = Random(seed ^ 0x1a70);
    // The first one after a small seed is small.
    _ = random.below(1);
    let layout: &&'static str = random.one_of(&LAYOUTS);
    layout
}

impl Style {
    /// Draws the style of the next process at a seat.
    pub(super) fn draw(seat: usize, seed: u64, random: &mut Random) -> Self {
        let layout = match seat {
            0..3 => "curator",
            3 => "kazoo",
            _ => other_layout(seed),
        };
        let mut drawn = |one_in| random.below(one_in) == 0;
        // The first seat is, so that there is one; the next one stops its holders, and the one after that
        // lets nobody in twice.
        let fair = drawn(3) || seat == 0;
        let lingers = drawn(5) && !fair && layout != "removed";
        let delays = drawn(5) && layout == "curator";
        let keeps = drawn(5) && layout == "curator" && !lingers;
        let (passes_on, stops) = (drawn(4), drawn(4) || seat == 1);
        let [revocable, early, once] = [drawn(3), drawn(4), drawn(5) || seat == 2];
        let mut options = vec!["--layout".to_owned(), layout.to_owned()];
        let mut option = |is_drawn, name: &str, value: Option<u64>| {
            if is_drawn {
                options.push(format!("--{name}"));
                options.extend(value.map(|value| value.to_string()));
            }
        };
        option(fair, "fair", None);
        option(lingers, "linger-ms", Some(5 + random.below(200)));
        option(delays, "lock-delay-ms", Some(50 + random.below(450)));
        option(keeps, "hold-at-least-ms", Some(5 + random.below(50)));
        option(passes_on, "handoffs", Some(1 + random.below(8)));
        let most = 100 + random.below(2_400);
        option(stops, "hold-at-most-ms", Some(most));
        option(revocable, "revocable", None);
        option(early, "stop-at-suspect", None);
        option(once, "not-reentrant", None);
        let marked = match (delays, keeps) {
            (true, true) => Some("both"),
            (true, false) => Some("delayed"),
            (false, true) => Some("kept"),
            (false, false) => None,
        };
        Style { layout, options, fair, lingers, marked }
    }

    /// How many hands want what.
    pub(super) fn hands(&self) -> Vec<Want> {
        let crowd = if self.fair || self.layout != "curator" { 0 } else { 30 };
        let in_order = if self.fair && self.mutexes() { 8 } else { 0 };
        let all = [
            (Want::Any, 8),
            (Want::Crowd, crowd),
            (Want::InOrder, in_order),
            (Want::Slow, 4),
            (Want::Free, 2),
        ];
        all.into_iter().flat_map(|(want, count)| [want].repeat(count)).collect()
    }

    fn mutexes(&self) -> bool {
        !matches!(self.layout, "read-write-node" | "host")
    }

    fn read_write(&self) -> bool {
        !matches!(self.layout, "dlock" | "lock") && self.marked.is_none()
    }

    /// Whether a write under its locks can be tied to them.
    pub(super) fn fences(&self) -> bool {
        matches!(self.layout, "curator" | "kazoo" | "removed")
    }

    fn mutex(&self, name: &str, number: u64) -> Value {
        self.one("mutex", self.marked.unwrap_or(name), number)
    }

    fn one(&self, kind: &str, name: &str, number: u64) -> Value {
        json!({ "kind": kind, "lock": self.name(name, number) })
    }

    fn semaphore(&self, name: &str, limit: u64, permits: u64) -> Value {
        json!({ "kind": "semaphore", "lock": self.name(name, 0), "limit": limit,
            "permits": permits })
    }

    /// A semaphore or its twin; kazoo's has its limit in its own node.
    fn any_semaphore(&self, which: usize, permits: u64, random: &mut Random) -> Value {
        let (name, limit) = LIMITS[which];
        if self.layout == "kazoo" || random.below(2) == 0 {
            return self.semaphore(name, limit.into(), permits);
        }
        // The greater number is for a node that does not exist: if it counted, too many would come in.
        let mut request = self.semaphore(&format!("{name}{TWIN}"), u64::from(limit) + 3, permits);
        request["limit_at"] = json!(limit_at(name));
        request
    }

    fn any(&self, random: &mut Random) -> Value {
        match random.below(20) {
            10..13 if self.read_write() => self.one("read", "rw", random.below(6)),
            13..15 if self.read_write() => self.one("write", "rw", random.below(6)),
            15..17 => self.any_semaphore(0, random.below(3) + 1, random),
            17..19 if self.mutexes() && self.marked.is_none() => self.several(random),
            19 if self.marked.is_none() && !self.lingers => {
                self.one("exclusive", "one", random.below(3))
            }
            _ if self.mutexes() => self.mutex("mutex", random.below(24)),
            _ => self.one("read", "rw", random.below(6)),
        }
    }

    /// Several as one: mutexes of which each is a member of the others too, and locks of any kind that
    /// are wanted alone as well. All are taken in one order, so nobody waits in a circle.
    fn several(&self, random: &mut Random) -> Value {
        let first = random.below(3);
        let mut members = vec![("mutex", self.name("multi", first))];
        if random.below(2) == 0 {
            members.push(("mutex", self.name("multi", (first + 1) % 3)));
        }
        if self.read_write() && random.below(2) == 0 {
            let kind = *random.one_of(&["read", "read", "write"]);
            members.push((kind, self.name("rw", random.below(6))));
        }
        let mut request = json!({});
        if random.below(3) == 0 {
            // There is but one semaphore among them, so all that it says stays.
            request = self.any_semaphore(0, random.below(2) + 1, random);
            members.push(("semaphore", request["lock"].as_str().unwrap_or_default().to_owned()));
        }
        if !self.lingers && random.below(4) == 0 {
            members.push(("exclusive", self.name("one", random.below(3))));
        }
        let (kinds, names): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        request["kind"] = json!("multi");
        (request["lock"], request["kinds"]) = (json!(names), json!(kinds));
        request
    }

    fn slow(&self, random: &mut Random) -> Value {
        match random.below(20) {
            0..8 if self.mutexes() => self.mutex("slow", random.below(8)),
            8..13 if self.read_write() => self.one("read", "slow-rw", random.below(4)),
            13..17 if self.read_write() => self.one("write", "slow-rw", random.below(4)),
            17..20 => self.any_semaphore(1, random.below(4) + 1, random),
            _ if self.mutexes() => self.mutex("slow", random.below(8)),
            _ => self.one("read", "slow-rw", random.below(4)),
        }
    }

    fn free(&self, random: &mut Random) -> Value {
        match random.below(2) {
            0 if self.read_write() => self.one("read", "free-rw", 0),
            _ => self.semaphore("free-semaphore", 1_000, 1),
        }
    }

    /// An acquire, without its number.
    pub(super) fn acquire(&self, want: Want, random: &mut Random) -> Value {
        let mut request = match want {
            Want::Any => self.any(random),
            Want::Crowd => self.mutex("mutex", random.below(CROWDED)),
            Want::InOrder => self.mutex("fair", random.below(IN_ORDER)),
            Want::Slow => self.slow(random),
            Want::Free => self.free(random),
        };
        request["op"] = json!("acquire");
        // A lock that lingers cannot be tried.
        match random.below(10) {
            _ if want == Want::Free && !self.lingers => request["timeout_ms"] = json!(0),
            0 if !self.lingers => request["timeout_ms"] = json!(0),
            1..4 => {
                request["timeout_ms"] = json!(random.below(2_000) + 1);
                request["retries"] = json!(random.below(3) + 1);
            }
            _ => {}
        }
        own_options(&mut request, random);
        blocking(request, random)
    }

    /// An acquire in the scope of a guard of this request.
    pub(super) fn nested(&self, outer: &Value, random: &mut Random) -> Option<Value> {
        let kind = outer["kind"].as_str().unwrap_or_default();
        let again = |kind: &str| json!({ "kind": kind, "lock": outer["lock"] });
        // Who reads inside may not write: the one deadlock that is certain.
        let inner = random.below(10);
        let mut request = match kind {
            "mutex" | "write" if inner < 5 => again(kind),
            "write" if inner < 7 => again("read"),
            "read" if inner < 4 => again("read"),
            "read" if inner == 4 => again("write"),
            // Nobody wants these first, so nobody waits in a circle.
            "mutex" | "multi" | "semaphore" if self.mutexes() && self.marked.is_none() => {
                json!({ "kind": "mutex", "lock": self.name("inner", random.below(3)) })
            }
            _ => return None,
        };
        request["op"] = json!("acquire");
        request["timeout_ms"] = json!(200 + random.below(1_500));
        own_options(&mut request, random);
        Some(blocking(request, random))
    }

    /// For how long a lock is held, and how often it is looked at.
    pub(super) fn hold(want: Want, random: &mut Random) -> (Duration, u64) {
        match want {
            Want::Slow => {
                let time = Duration::from_millis(500 + random.below(5_500));
                (time / 20, 20)
            }
            Want::Any => (Duration::ZERO, *random.one_of(&[0, 0, 0, 1, 3, 20])),
            Want::Crowd | Want::InOrder => (Duration::ZERO, random.below(2)),
            Want::Free => (Duration::from_millis(random.below(100)), random.below(3)),
        }
    }

    /// One of the locks at which somebody may look, or whose holder may be asked to let go.
    pub(super) fn site(&self, random: &mut Random) -> String {
        let name = match random.below(3) {
            0 if self.mutexes() => "slow",
            1 if self.mutexes() => "mutex",
            _ if self.read_write() => "slow-rw",
            _ => "slow",
        };
        self.name(name, random.below(6))
    }

    fn name(&self, name: &str, number: u64) -> String {
        format!("{}/{name}-{number}", self.layout)
    }
}

/// Some have options of their own, in place of those of their process: those that a queue can have
/// beside others.
fn own_options(request: &mut Value, random: &mut Random) {
    if random.below(8) == 0 {
        request["hold_at_most_ms"] = json!(100 + random.below(2_400));
    }
    if random.below(4) == 0 {
        request["handoffs"] = json!(1 + random.below(8));
    }
    if random.below(4) == 0 {
        request["revocable"] = json!(random.below(2) == 0);
    }
}

/// Some are waited for by threads.
fn blocking(mut request: Value, random: &mut Random) -> Value {
    if random.below(6) == 0 {
        request["blocking"] = json!(true);
    }
    request
}
