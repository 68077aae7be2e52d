//! What the hands of a process do, one step after the other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zklock_checker::Answer;

use super::draw::{Style, Want};
use super::random::Random;
use super::work::Work;

/// How often a process is asked for its state, which needs nothing but the process: what is late
/// together with that answer is late because the process had no time.
const PROBE: Duration = Duration::from_millis(50);

/// Where what is written under a lock lies.
pub(super) const DATA: &str = "/data";

/// All hands of a process.
pub(super) struct Hands<'a> {
    work: &'a Work,
    send: Box<dyn FnMut(&Value) + 'a>,
    random: Random,
    next: u64,
    hands: Vec<Hand>,
    waiting: HashMap<u64, For>,
    by_handle: HashMap<u64, usize>,
    timers: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    probe: Option<u64>,
    next_probe: Instant,
}

#[derive(Debug)]
struct Hand {
    style: Style,
    request: Value,
    handle: u64,
    steps: VecDeque<Step>,
    /// A timer of an earlier turn means nothing.
    turn: u64,
    at_rest: bool,
}

/// What is done with a guard.
#[derive(Clone, Debug)]
enum Step {
    Check,
    Wait(Duration),
    Write,
    Nest,
    Downgrade,
    Split,
    /// Releases a nested guard, or one that was split.
    Leave(u64),
}

/// What an answer is for.
#[derive(Debug)]
enum For {
    Acquire(usize),
    Nested(usize),
    Check(usize),
    Downgrade(usize),
    /// And how many permits are split off.
    Split(usize, u64),
    Release(usize),
    /// Whatever comes, the hand goes on.
    Anything(usize),
    Nobody,
}

impl<'a> Hands<'a> {
    pub(super) fn begin(
        work: &'a Work,
        (seat, incarnation): (usize, u64),
        send: impl FnMut(&Value) + 'a,
    ) -> Self {
        let client = seat as u64 * 1_000 + incarnation;
        let mut random = Random(work.seed ^ client.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let styles = Style::draw_all(seat, work.seed, &mut random);
        let hand = |style| Hand {
            style,
            request: Value::Null,
            handle: 0,
            steps: VecDeque::new(),
            turn: 0,
            at_rest: false,
        };
        let hands: Vec<_> = styles.into_iter().map(hand).collect();
        let count = hands.len();
        let mut all = Hands {
            work,
            send: Box::new(send),
            random,
            next: 1,
            hands,
            waiting: HashMap::new(),
            by_handle: HashMap::new(),
            timers: BinaryHeap::new(),
            probe: None,
            next_probe: Instant::now(),
        };
        work.busy.fetch_add(count as u64, Ordering::SeqCst);
        (0..count).for_each(|hand| all.acquire(hand));
        all
    }

    /// The hands of a process that is gone rest.
    pub(super) fn gone(self) {
        let busy = self.hands.iter().filter(|hand| !hand.at_rest).count();
        self.work.busy.fetch_sub(busy as u64, Ordering::SeqCst);
    }

    /// Does what is due, and returns how long nothing is.
    pub(super) fn due(&mut self) -> Duration {
        let now = Instant::now();
        while let Some(Reverse((at, hand, turn))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            self.timers.pop();
            if self.hands[hand].turn == turn {
                self.step(hand);
            }
        }
        if now >= self.next_probe {
            self.next_probe = now + PROBE;
            if self.probe.is_none() {
                self.probe = Some(self.ask(json!({ "op": "state" }), For::Nobody));
            }
            self.look_around();
        }
        let timer = self.timers.peek().map_or(self.next_probe, |Reverse((at, ..))| *at);
        timer.min(self.next_probe).saturating_duration_since(now)
    }

    /// Looks at some lock now and then, or asks its holder to let go.
    fn look_around(&mut self) {
        let op = match self.random.below(40) {
            _ if self.work.is_over() => return,
            0 => "revoke",
            1 => "contenders",
            _ => return,
        };
        let style = &self.random.one_of(&self.hands).style;
        let request = style.look(op, &mut self.random);
        self.ask(request, For::Nobody);
    }

    fn ask(&mut self, mut request: Value, what: For) -> u64 {
        let id = self.next;
        self.next += 1;
        request["id"] = json!(id);
        self.waiting.insert(id, what);
        (self.send)(&request);
        id
    }

    fn acquire(&mut self, hand: usize) {
        if self.work.is_over() {
            self.hands[hand].at_rest = true;
            self.work.busy.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let request = self.hands[hand].style.acquire(&mut self.random);
        self.hands[hand].request = request.clone();
        // A thread cannot be called back: it would wait on, and hold what nobody knows of.
        let waits_in_a_task = request.get("blocking").is_none();
        let id = self.ask(request, For::Acquire(hand));
        if waits_in_a_task && self.random.below(40) == 0 {
            self.ask(json!({ "op": "cancel", "target": id }), For::Nobody);
        }
    }

    /// Takes an answer or an event, and does what is next.
    pub(super) fn go_on(&mut self, answer: &Answer) {
        let Some(id) = answer.id else {
            if answer.event.as_deref() == Some("revoked") {
                self.revoked(answer.handle.unwrap_or_default());
            }
            return;
        };
        if self.probe == Some(id) {
            self.probe = None;
        }
        let Some(what) = self.waiting.remove(&id) else { return };
        let handle = answer.handle.filter(|_| answer.ok == Some(true));
        match what {
            For::Nobody => {}
            For::Acquire(hand) => {
                self.work.answered(self.hands[hand].style.fair);
                match handle {
                    Some(handle) => {
                        self.work.granted();
                        self.keep(hand, handle);
                        self.plan(hand);
                        self.step(hand);
                    }
                    None => self.acquire(hand),
                }
            }
            For::Nested(hand) => {
                if let Some(handle) = handle {
                    self.hands[hand].steps.push_front(Step::Leave(handle));
                    self.hands[hand].steps.push_front(Step::Check);
                }
                self.step(hand);
            }
            For::Check(hand) => {
                if answer.valid == Some(false) {
                    let nested = |step: &Step| matches!(step, Step::Leave(_));
                    self.hands[hand].steps.retain(nested);
                }
                self.step(hand);
            }
            For::Downgrade(hand) => match handle {
                Some(handle) => {
                    self.keep(hand, handle);
                    self.step(hand);
                }
                None => self.acquire(hand),
            },
            For::Split(hand, permits) => {
                if let Some(part) = handle {
                    self.split(hand, part, permits);
                }
                self.step(hand);
            }
            For::Release(hand) => {
                self.work.answered(self.hands[hand].style.fair);
                self.acquire(hand);
            }
            For::Anything(hand) => self.step(hand),
        }
    }

    fn keep(&mut self, hand: usize, handle: u64) {
        self.by_handle.remove(&self.hands[hand].handle);
        self.by_handle.insert(handle, hand);
        self.hands[hand].handle = handle;
    }

    fn permits(&self, hand: usize) -> u64 {
        self.hands[hand].request["permits"].as_u64().unwrap_or(1)
    }

    /// Goes on with either of two guards, and gives the other one back some time.
    fn split(&mut self, hand: usize, part: u64, permits: u64) {
        let whole = self.hands[hand].handle;
        let (other, kept) = match self.random.below(2) {
            0 => (part, self.permits(hand).saturating_sub(permits)),
            _ => {
                self.keep(hand, part);
                (whole, permits)
            }
        };
        let one = &mut self.hands[hand];
        one.request["permits"] = json!(kept);
        let at = self.random.below(one.steps.len() as u64 + 1);
        one.steps.insert(usize::try_from(at).unwrap_or_default(), Step::Leave(other));
    }

    /// Draws what is done under a lock.
    fn plan(&mut self, hand: usize) {
        let (style, random) = (&self.hands[hand].style, &mut self.random);
        let (pause, looks) = style.hold(random);
        let mut steps = VecDeque::new();
        for _ in 0..looks {
            steps.push_back(Step::Check);
            if !pause.is_zero() {
                steps.push_back(Step::Wait(pause));
            }
        }
        let mut somewhere = |step, one_in: u64| {
            if random.below(one_in) == 0 {
                let at = random.below(steps.len() as u64 + 1);
                steps.insert(usize::try_from(at).unwrap_or_default(), step);
            }
        };
        if !matches!(style.want, Want::Crowd | Want::InOrder) {
            somewhere(Step::Nest, 8);
        }
        if self.hands[hand].request["kind"] == "mutex" && style.fences() {
            somewhere(Step::Write, 4);
        }
        if self.hands[hand].request["kind"] == "write" {
            somewhere(Step::Downgrade, 2);
        }
        if self.hands[hand].request["kind"] == "semaphore" {
            // What is left or split off is split again, if it is enough.
            somewhere(Step::Split, 2);
            somewhere(Step::Split, 2);
        }
        self.hands[hand].steps = steps;
    }

    /// Does the next step of a hand that holds a lock.
    fn step(&mut self, hand: usize) {
        let handle = self.hands[hand].handle;
        match self.hands[hand].steps.pop_front() {
            Some(Step::Wait(_)) if self.work.is_over() => self.step(hand),
            Some(Step::Wait(time)) => {
                let one = &mut self.hands[hand];
                one.turn += 1;
                self.timers.push(Reverse((Instant::now() + time, hand, one.turn)));
            }
            Some(Step::Check) => {
                self.ask(json!({ "op": "check", "handle": handle }), For::Check(hand));
            }
            Some(Step::Write) => {
                let lock = self.hands[hand].request["lock"].as_str().unwrap_or_default();
                let number = lock.rsplit_once('-').map_or("0", |(_, number)| number);
                let (layout, name) = lock.split_once('/').unwrap_or(("", ""));
                let name = name.trim_end_matches(|one: char| one.is_ascii_digit() || one == '-');
                let path = format!("{DATA}/{layout}-{name}-{number}");
                let write =
                    json!({ "op": "fenced_set", "handle": handle, "path": path, "data": "x" });
                self.ask(write, For::Anything(hand));
            }
            Some(Step::Nest) => {
                let outer = self.hands[hand].request.clone();
                match self.hands[hand].style.nested(&outer, &mut self.random) {
                    Some(mut request) => {
                        request["parent"] = json!(handle);
                        self.ask(request, For::Nested(hand));
                    }
                    None => self.step(hand),
                }
            }
            Some(Step::Downgrade) => {
                let request = json!({ "op": "downgrade", "handle": handle });
                // A reader's guard may be nested in, but not by a writer.
                self.hands[hand].request["kind"] = json!("read");
                self.ask(request, For::Downgrade(hand));
            }
            Some(Step::Split) => match self.permits(hand) {
                0 | 1 => self.step(hand),
                all => {
                    let permits = 1 + self.random.below(all - 1);
                    let request = json!({ "op": "split", "handle": handle, "permits": permits });
                    self.ask(request, For::Split(hand, permits));
                }
            },
            Some(Step::Leave(nested)) => {
                self.ask(json!({ "op": "release", "handle": nested }), For::Anything(hand));
            }
            None => {
                self.by_handle.remove(&handle);
                let op = if self.random.below(8) == 0 { "drop" } else { "release" };
                self.ask(json!({ "op": op, "handle": handle }), For::Release(hand));
            }
        }
    }

    /// Whoever is asked to let go does so, mostly.
    fn revoked(&mut self, handle: u64) {
        let Some(hand) = self.by_handle.get(&handle).copied() else { return };
        if self.random.below(3) > 0 {
            let sleeps = self
                .timers
                .iter()
                .any(|Reverse((_, whose, turn))| *whose == hand && *turn == self.hands[hand].turn);
            self.hands[hand].steps.retain(|step| matches!(step, Step::Leave(_)));
            if sleeps {
                self.hands[hand].turn += 1;
                self.step(hand);
            }
        }
    }
}
