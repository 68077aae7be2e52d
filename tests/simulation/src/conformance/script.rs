//! Scripts: what is done, by whom, in which order.

use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;

use super::bed::SLOTS;
use crate::chooser::Chooser;
use crate::ensemble::Access;

/// What kind of script it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Requests, cuts and ends of sessions.
    Usual,
    /// Sessions that expire by themselves. It takes long.
    Expiry,
    /// Containers are reaped after every step. It takes long.
    Reaping,
    /// The directory has few numbers left.
    Full,
}

/// One request. Paths are below the script's directory.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Creates a node.
    Create(String, NodeKind),
    /// Deletes one.
    Delete(String),
    /// Lists children, with a watch or without.
    Children(String, bool),
    /// Reads data, with a watch or without.
    Get(String, bool),
    /// Sets data.
    Set(String, Vec<u8>),
    /// Several at once.
    Multi(Vec<Operation>),
    /// Catches up.
    Sync,
    /// Waits for nothing: the answer is dropped.
    Forget(Box<Ask>),
}

/// Who does not hear the other during a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deaf {
    /// Nobody hears anything.
    Both,
    /// The client hears no answer, and is heard.
    Client,
    /// The server hears no question, and is heard.
    Server,
}

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Step {
    /// A session asks this, all at once. One that is cut off asks, and is answered later.
    Ask(usize, Vec<Ask>),
    /// A session's connection breaks.
    Cut(usize),
    /// It is back, on this server where there are several.
    Heal(usize, usize),
    /// A session asks, and its connection breaks before anything arrives, or after it was applied.
    Lose {
        /// Whose.
        slot: usize,
        /// What it asks.
        asks: Vec<Ask>,
        /// Whether it arrives.
        applied: bool,
    },
    /// Nothing gets through, and then it does, on the same connection.
    Pause {
        /// Whose.
        slot: usize,
        /// What it asks meanwhile.
        asks: Vec<Ask>,
        /// What another one asks after that, and is answered.
        deed: Vec<Ask>,
        /// In which direction.
        way: Deaf,
    },
    /// Nothing gets through until the client gives the connection up; its session lives.
    Silence {
        /// Whose. It is short.
        slot: usize,
        /// What another one asks meanwhile.
        deed: Vec<Ask>,
    },
    /// A watch is dropped.
    Unwatch(usize, usize),
    /// A session is closed, and another one opened.
    Close(usize),
    /// A session is ended from outside, and another one opened.
    Expire(usize),
    /// A session that is cut off expires, and another one is opened.
    Outlive(usize),
}

/// A script.
#[derive(Clone, Debug)]
pub struct Script {
    /// What kind it is.
    pub class: Class,
    /// What others may do with what each session creates. Who restricts that has credentials.
    pub access: [Access; SLOTS],
    /// What is done.
    pub steps: Vec<Step>,
}

impl Script {
    /// The script of a seed.
    pub fn new(seed: u64, class: Class) -> Self {
        let mut author = Author { chooser: Chooser::random(seed), class, down: [false; SLOTS] };
        let third = match author.chooser.choose(0, 4) {
            0 => Access::Private(1),
            1 => Access::ReadOnly(1),
            _ => Access::Open,
        };
        let steps = match class {
            Class::Usual | Class::Full => 20,
            Class::Expiry => 10,
            Class::Reaping => 5,
        };
        let mut list = vec![author.beginning()];
        while list.len() <= steps {
            if class == Class::Usual && author.below(8) == 0 {
                author.absence(&mut list);
            } else {
                list.push(author.step());
            }
        }
        if class == Class::Expiry {
            let at = 1 + author.below(steps);
            // Whoever is away is back by then.
            list.truncate(at);
            author.down = [false; SLOTS];
            list.retain(|step| !matches!(step, Step::Cut(_) | Step::Lose { .. } | Step::Heal(..)));
            if author.below(2) == 1 {
                list.push(Step::Silence { slot: SHORT, deed: author.asks() });
            }
            list.push(Step::Outlive(SHORT));
            list.push(author.step());
            list.push(author.step());
        }
        for slot in 0..SLOTS {
            if author.down[slot] {
                list.push(Step::Heal(slot, author.chooser.choose(0, 3) as usize));
            }
        }
        Script { class, access: [Access::Open, Access::Open, third], steps: list }
    }
}

/// The slot whose session expires by itself.
const SHORT: usize = 2;

impl Script {
    /// Whether the sessions of a slot have a short timeout.
    pub fn is_short(&self, slot: usize) -> bool {
        self.class == Class::Expiry && slot == SHORT
    }
}

struct Author {
    chooser: Chooser,
    class: Class,
    down: [bool; SLOTS],
}

const PATHS: [&str; 8] = ["a", "b", "a/x", "a/y", "b/x", "a/x/z", "c", ""];
const PREFIXES: [&str; 5] = ["n-", "a/n-", "b/", "a/x/n-", "n-"];

impl Author {
    fn below(&mut self, of: usize) -> usize {
        self.chooser.choose(0, of as u32) as usize
    }

    /// Some nodes are there, lest most of what is asked is in vain.
    fn beginning(&mut self) -> Step {
        let mut asks = Vec::new();
        for path in ["a", "b", "a/x"] {
            if self.below(4) > 0 {
                let kind = match self.below(4) {
                    0 => NodeKind::Container,
                    _ => NodeKind::Persistent,
                };
                asks.push(Ask::Create(path.to_owned(), kind));
            }
        }
        Step::Ask(self.below(SLOTS), asks)
    }

    fn step(&mut self) -> Step {
        let slot = self.below(SLOTS);
        if self.down[slot] {
            return match self.below(3) {
                0 => Step::Ask(slot, self.asks()),
                _ => {
                    self.down[slot] = false;
                    Step::Heal(slot, self.below(3))
                }
            };
        }
        match self.below(26) {
            0 | 1 => {
                self.down[slot] = true;
                Step::Cut(slot)
            }
            2 | 3 => {
                self.down[slot] = true;
                let (asks, applied) = (self.asks(), self.below(2) == 1);
                Step::Lose { slot, asks, applied }
            }
            4 => Step::Unwatch(slot, self.below(4)),
            5 => Step::Close(slot),
            6 => Step::Expire(slot),
            7 | 8 => {
                let way = [Deaf::Both, Deaf::Client, Deaf::Server][self.below(3)];
                Step::Pause { slot, asks: self.asks(), deed: self.asks(), way }
            }
            _ => Step::Ask(slot, self.asks()),
        }
    }

    /// Somebody watches, is away while another one does something there, and comes back.
    fn absence(&mut self, list: &mut Vec<Step>) {
        let slot = self.below(SLOTS);
        let other = (slot + 1) % SLOTS;
        if self.down[slot] || self.down[other] {
            return list.push(self.step());
        }
        let path = ["a", "b", "a/x", ""][self.below(4)].to_owned();
        let below =
            |name: &str| if path.is_empty() { name.into() } else { format!("{path}/{name}") };
        let kind = NodeKind::EphemeralSequential;
        let mark = Ask::Create(below("mark"), NodeKind::Ephemeral);
        list.push(Step::Ask(other, vec![mark]));
        let watch = match self.below(2) {
            0 => Ask::Get(path.clone(), true),
            _ => Ask::Children(path.clone(), true),
        };
        list.push(Step::Ask(slot, vec![watch]));
        list.push(Step::Cut(slot));
        let deed = match self.below(4) {
            0 => Ask::Create(below("n-"), kind),
            1 => Ask::Set(path.clone(), b"z".to_vec()),
            _ => Ask::Delete(below("mark")),
        };
        list.push(Step::Ask(other, vec![deed]));
        list.push(Step::Heal(slot, self.below(3)));
    }

    fn asks(&mut self) -> Vec<Ask> {
        // What many creates in flight are numbered past the end is a matter of luck.
        let count = if self.class == Class::Full { 1 } else { [1, 1, 1, 2, 4][self.below(5)] };
        (0..count).map(|_| self.ask()).collect()
    }

    fn path(&mut self) -> String {
        PATHS[self.below(PATHS.len())].to_owned()
    }

    /// Never the directory itself.
    fn child(&mut self) -> String {
        PATHS[self.below(PATHS.len() - 1)].to_owned()
    }

    fn kind(&mut self) -> NodeKind {
        match self.below(6) {
            0 => NodeKind::Container,
            1 | 2 => NodeKind::Ephemeral,
            _ => NodeKind::Persistent,
        }
    }

    fn create(&mut self) -> (String, NodeKind) {
        if self.below(3) == 0 {
            let at = self.below(PREFIXES.len());
            (PREFIXES[at].to_owned(), NodeKind::EphemeralSequential)
        } else {
            (self.path(), self.kind())
        }
    }

    fn ask(&mut self) -> Ask {
        match self.below(24) {
            0..6 => {
                let (path, kind) = self.create();
                Ask::Create(path, kind)
            }
            6..9 => Ask::Delete(self.child()),
            9..13 => Ask::Children(self.path(), self.below(3) > 0),
            13..17 => Ask::Get(self.path(), self.below(3) > 0),
            17..19 => {
                let data = vec![b'x'; self.below(5)];
                Ask::Set(self.path(), data)
            }
            19..22 => {
                let count = 1 + self.below(4);
                Ask::Multi((0..count).map(|_| self.operation()).collect())
            }
            22 => Ask::Sync,
            _ => match self.ask() {
                Ask::Forget(ask) => Ask::Forget(ask),
                ask => Ask::Forget(Box::new(ask)),
            },
        }
    }

    fn operation(&mut self) -> Operation {
        let path = self.path();
        let data = vec![b'y'; self.below(3)];
        let version = self.below(4) as i32 - 1;
        match self.below(7) {
            0 => Operation::Check { path },
            1 => Operation::CheckVersion { path, version },
            2 | 3 => {
                let (path, kind) = self.create();
                Operation::Create { path, data, kind }
            }
            4 => Operation::Set { path, data },
            5 => Operation::Replace { path, data, version },
            _ => Operation::Delete { path: self.child() },
        }
    }
}
