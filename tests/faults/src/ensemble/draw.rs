//! What is drawn for a hand: the layout of its locks, its options, and what it asks for.
//!
//! What all callers of a lock must agree on is the lock's, and in its name: the layout, the limit of a semaphore,
//! and whether its holders leave marks (`lock_delay`, `hold_at_least`), for which only those look who leave some
//! themselves. How long a mark lasts is each hand's own, like all else.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::random::Random;

/// The layouts beside Curator's and kazoo's, of which a run has one: so hands of all processes meet there.
const LAYOUTS: [&str; 6] = ["kazoo", "removed", "dlock", "lock", "read-write-node", "host"];

/// How many mutexes the hands crowd on that want nothing else.
const CROWDED: u64 = 4;

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

/// On how many mutexes the hands of a process wait for their turns that want nothing else.
pub(super) const IN_ORDER: u64 = 2;

/// What a hand is like.
#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) want: Want,
    layout: &'static str,
    /// As the fields of an acquire.
    options: Map<String, Value>,
    /// Whether it waits with a node of its own.
    pub(super) fair: bool,
    lingers: bool,
    /// The mutexes of hands that keep them beyond the release or the loss.
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

/// The layout of a run beside Curator's and kazoo's.
pub(super) fn other_layout(seed: u64) -> &'static str {
    let mut random = Random(seed ^ 0x1a70);
    // The first one after a small seed is small.
    _ = random.below(1);
    let layout: &&'static str = random.one_of(&LAYOUTS);
    layout
}

impl Style {
    /// Draws what each hand of a process is like. Many of one process crowd, because only they pass a lock to each
    /// other, or wait in order, which is promised only to them: on a lock that few others want.
    pub(super) fn draw_all(seat: usize, seed: u64, random: &mut Random) -> Vec<Self> {
        let [crowd, in_order] = if seat < 3 { [16, 0] } else { [0, 8] };
        let counts = [
            (Want::Any, 8),
            (Want::Crowd, crowd),
            (Want::InOrder, in_order),
            (Want::Slow, 4),
            (Want::Free, 2),
        ];
        let wants = counts.into_iter().flat_map(|(want, count)| [want].repeat(count));
        wants.map(|want| Style::draw(want, seat, seed, random)).collect()
    }

    fn draw(want: Want, seat: usize, seed: u64, random: &mut Random) -> Self {
        let other = other_layout(seed);
        let layout = match (want, random.below(6)) {
            (Want::Crowd, _) => "curator",
            (Want::InOrder, _) => match seat {
                4 => "kazoo",
                5 if has_mutexes(other) => other,
                _ => "curator",
            },
            (_, 0..3) => "curator",
            (_, 3) => "kazoo",
            _ => other,
        };
        let mut drawn = |one_in| random.below(one_in) == 0;
        let fair = want == Want::InOrder || drawn(6);
        let lingers = drawn(5) && !fair && layout != "removed";
        let may_leave_marks = layout == "curator" && want != Want::InOrder;
        let delays = drawn(6) && may_leave_marks;
        let keeps = drawn(6) && may_leave_marks && !lingers;
        let (passes_on, stops) = (drawn(4), drawn(4));
        let [revocable, early, once] = [drawn(3), drawn(6), drawn(5)];
        let [gives_up, labelled] = [drawn(10), drawn(4)];
        let mut options = Map::new();
        let mut option = |is_drawn, name: &str, value: Value| {
            if is_drawn {
                options.insert(name.to_owned(), value);
            }
        };
        option(fair, "fair", json!(true));
        option(lingers, "linger_ms", json!(5 + random.below(200)));
        option(delays, "lock_delay_ms", json!(50 + random.below(450)));
        option(keeps, "hold_at_least_ms", json!(5 + random.below(50)));
        option(passes_on, "handoffs", json!(1 + random.below(8)));
        option(stops, "hold_at_most_ms", json!(100 + random.below(2_400)));
        option(revocable, "revocable", json!(true));
        option(early, "stop_at_suspect", json!(true));
        option(once, "reentrant", json!(false));
        option(gives_up, "requeue", json!(random.below(3)));
        option(labelled, "label", json!(format!("{want:?} {}", random.below(100))));
        option(layout != "curator", "layout", json!(layout));
        let marked = match (delays, keeps) {
            (true, true) => Some("both"),
            (true, false) => Some("delayed"),
            (false, true) => Some("kept"),
            (false, false) => None,
        };
        Style { want, layout, options, fair, lingers, marked }
    }

    fn mutexes(&self) -> bool {
        has_mutexes(self.layout)
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
    pub(super) fn acquire(&self, random: &mut Random) -> Value {
        let want = self.want;
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
        self.with_options(&mut request, random);
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
        self.with_options(&mut request, random);
        Some(blocking(request, random))
    }

    /// For how long a lock is held, and how often it is looked at.
    pub(super) fn hold(&self, random: &mut Random) -> (Duration, u64) {
        match self.want {
            Want::Slow => {
                let time = Duration::from_millis(500 + random.below(5_500));
                (time / 20, 20)
            }
            Want::Any => (Duration::ZERO, *random.one_of(&[0, 0, 0, 1, 3, 20])),
            Want::Crowd | Want::InOrder => (Duration::ZERO, random.below(2)),
            Want::Free => (Duration::from_millis(random.below(100)), random.below(3)),
        }
    }

    /// A request about one of the locks at which somebody may look, or whose holder may be asked to let go.
    pub(super) fn look(&self, op: &str, random: &mut Random) -> Value {
        let name = match random.below(3) {
            0 if self.mutexes() => "slow",
            1 if self.mutexes() => "mutex",
            _ if self.read_write() => "slow-rw",
            _ => "slow",
        };
        json!({ "op": op, "lock": self.name(name, random.below(6)), "layout": self.layout })
    }

    /// Adds its options, as far as such a lock has them.
    fn with_options(&self, request: &mut Value, random: &mut Random) {
        let is = |request: &Value, kind: &str| {
            let kinds = request["kinds"].as_array().into_iter().flatten();
            kinds.chain([&request["kind"]]).any(|one| one == kind)
        };
        for (option, value) in &self.options {
            let fits = match option.as_str() {
                "linger_ms" => !is(request, "semaphore") && !is(request, "exclusive"),
                "lock_delay_ms" | "hold_at_least_ms" => is(request, "mutex"),
                _ => true,
            };
            if fits {
                request[option] = value.clone();
            }
        }
        own_options(request, random);
    }

    fn name(&self, name: &str, number: u64) -> String {
        format!("{}/{name}-{number}", self.layout)
    }
}

fn has_mutexes(layout: &str) -> bool {
    !matches!(layout, "read-write-node" | "host")
}

/// Some acquires have others than their hand: a nested one that holds for less than the one around it.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The hands of a process.
    fn process(seat: usize, seed: u64) -> Vec<Style> {
        Style::draw_all(seat, seed, &mut Random(seed))
    }

    #[test]
    fn hands_of_one_process_differ_in_each_option() {
        let mut differ = BTreeSet::new();
        for seed in 1..20 {
            for hands in [process(0, seed), process(3, seed)] {
                let all: BTreeSet<_> = hands.iter().flat_map(|hand| hand.options.keys()).collect();
                let some = |option: &&&String| {
                    !hands.iter().all(|hand| hand.options.contains_key(**option))
                };
                differ.extend(all.iter().filter(some).map(|option| (**option).clone()));
            }
        }
        let options = [
            "fair",
            "handoffs",
            "hold_at_least_ms",
            "hold_at_most_ms",
            "label",
            "layout",
            "linger_ms",
            "lock_delay_ms",
            "reentrant",
            "requeue",
            "revocable",
            "stop_at_suspect",
        ];
        assert_eq!(differ, options.map(String::from).into());
    }

    #[test]
    fn all_callers_of_a_lock_agree_on_what_is_the_locks() {
        let (mut locks, mut random) = (BTreeMap::new(), Random(1));
        for hand in (0..6).flat_map(|seat| process(seat, 7)) {
            for _ in 0..500 {
                let request = hand.acquire(&mut random);
                let Some(lock) = request["lock"].as_str() else { continue };
                let has = |field: &str| request.get(field).is_some();
                let own = (
                    request["layout"].clone(),
                    [has("lock_delay_ms"), has("hold_at_least_ms")],
                    [request["limit"].clone(), request["limit_at"].clone()],
                );
                let agreed = locks.entry(lock.to_owned()).or_insert(own.clone());
                assert_eq!(*agreed, own, "{request}");
                // The library refuses these.
                assert!(!has("linger_ms") || request["timeout_ms"] != 0, "{request}");
                assert!(!has("linger_ms") || request["kind"] != "semaphore", "{request}");
            }
        }
        assert!(locks.len() > 50);
    }
}
