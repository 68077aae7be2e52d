//! From lines to holds: who says that it held which lock from when to when.

mod split;

use std::collections::HashMap;
use std::io::BufRead;

use crate::calls::{Call, Options, Outcome, Refusal};
use crate::line::{Answer, Left, Line, Request, Start};
use crate::rules::HELD_TOO_LONG;
use crate::trouble::{Removal, Trouble};
use crate::verdict::{Rule, Violation};

/// A fencing token: the czxid, and the number of the grant on that node.
pub type Token = (u64, u64);

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Alone.
    Mutex,
    /// With other readers.
    Read,
    /// Without readers and writers.
    Write,
    /// With others, up to a limit.
    Permit,
}

impl Mode {
    /// Whether two ways of holding one lock exclude each other.
    pub fn excludes(self, other: Mode) -> bool {
        use Mode::{Permit, Read};
        !matches!((self, other), (Read, Read) | (Permit, Permit))
    }
}

/// One grant of one lock. A multi-lock has one for each member.
///
/// What it *claims* is the time from `granted` to `claimed`: only what the guard itself said
/// (a release that succeeded, a check that said valid and for how long). A process that was stopped
/// between its grant and its answer claims nothing, and need not have been alone.
#[derive(Clone, Debug)]
pub struct Hold {
    /// An index into [`History::clients`].
    pub client: usize,
    /// As the agent named the guard.
    pub handle: u64,
    /// An index into [`History::locks`].
    pub lock: usize,
    /// In which way.
    pub mode: Mode,
    /// Of a semaphore: how many, of how many. Without those that were split off, which are a hold.
    pub permits: (u32, u32),
    /// The token; zero of a peer, which has none.
    pub token: Token,
    /// The paths of its nodes.
    pub nodes: Vec<String>,
    /// When the acquire was sent.
    pub asked: u64,
    /// When the lock was surely held first.
    pub granted: u64,
    /// Until when it was held for sure, if that is known.
    pub claimed: Option<u64>,
    /// When giving it back was begun, or its process was gone.
    pub closed: Option<u64>,
    /// When the release was known to be done; `None` where it may have happened at any time.
    pub released: Option<u64>,
    /// The hold in whose scope it was acquired.
    pub parent: Option<usize>,
    /// The writer that it was, before it stepped down.
    pub stepped_down: Option<usize>,
    /// The hold that was granted, of which these permits were split off.
    pub split_from: Option<usize>,
    /// The call that it was granted to, an index into [`History::calls`].
    pub call: usize,
    /// When the guard said first that it is lost.
    pub lost: Option<u64>,
    /// When the guard said that it was asked to release.
    pub revoked: Option<u64>,
    /// When checks said that it is valid: the last moment.
    pub valid: Option<u64>,
    /// The removal of a node of it, an index into [`History::removals`].
    pub removed: Option<usize>,
    /// Whether that is only possible.
    pub perhaps_removed: bool,
    /// When it was heard that it could not step down.
    stayed: Option<u64>,
    /// Until when a check said that it is surely held.
    pub surely: Option<u64>,
    open_children: u32,
}

impl Hold {
    /// Whether an outsider had taken its node away when it was granted, so that it claims nothing.
    pub(crate) fn is_excused(&self) -> bool {
        self.removed.is_some() && self.claimed.is_none()
    }
}

/// A write that was to succeed only under its lock.
#[derive(Clone, Copy, Debug)]
pub struct FencedWrite {
    /// An index into [`History::paths`].
    pub path: usize,
    /// The token of its guard.
    pub token: Token,
    /// When it was sent.
    pub asked: u64,
    /// When it was known to be done.
    pub done: u64,
}

/// A history, understood.
#[derive(Debug, Default)]
pub struct History {
    /// The processes.
    pub clients: Vec<String>,
    /// The locks.
    pub locks: Vec<String>,
    /// What fenced writes wrote to.
    pub paths: Vec<String>,
    /// All grants, in the order of their answers.
    pub holds: Vec<Hold>,
    /// All fenced writes that succeeded.
    pub writes: Vec<FencedWrite>,
    /// Acquires that were answered, granted or not.
    pub acquires: u64,
    /// All acquires, in the order in which they were sent.
    pub calls: Vec<Call>,
    /// All other requests that were refused.
    pub refusals: Vec<Refusal>,
    /// Nodes that were taken away from outside.
    pub removals: Vec<Removal>,
    /// What was done to whom, and how they were.
    pub(crate) trouble: Trouble,
    /// How the clients were started.
    pub(crate) starts: Vec<Start>,
    /// Faults.
    pub faults: u64,
    /// What was left over, if somebody looked.
    pub left: Option<Left>,
    /// How much was looked at while it was read.
    pub(crate) seen: Seen,
    /// What is wrong with it before any rule is asked.
    pub(crate) violations: Vec<Violation>,
    /// The limits that are in nodes.
    limits: HashMap<String, u32>,
    /// What was split off, by the hold that was granted.
    parts: HashMap<usize, Vec<usize>>,
    names: HashMap<String, usize>,
    sides: HashMap<usize, Side>,
}

/// How much was looked at while a history was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) lines: u64,
    pub(crate) requests: u64,
    /// Requests whose process was killed before it answered.
    pub(crate) cut_short: u64,
    /// Answers about guards that had said that they are lost.
    pub(crate) looks_at_lost: u64,
}

/// What is known of a client while its lines are read.
#[derive(Debug, Default)]
struct Side {
    pending: HashMap<u64, Asked>,
    /// By handle: the first hold and how many.
    guards: HashMap<u64, (usize, usize)>,
    ended: Option<u64>,
}

/// A request that is not answered yet.
#[derive(Debug)]
struct Asked {
    at: u64,
    request: Request,
    /// Of an acquire: an index into [`History::calls`].
    call: Option<usize>,
}

impl History {
    /// Reads a history. Lines that are not of the format are violations.
    ///
    /// # Errors
    ///
    /// What reading says.
    pub fn read(lines: impl BufRead) -> std::io::Result<Self> {
        let mut history = History::default();
        for (number, line) in lines.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<Line>(&line) {
                Ok(line) => history.take(line),
                Err(error) => {
                    history.violated(Rule::Format, format!("line {}: {error}", number + 1))
                }
            }
        }
        history.finish();
        Ok(history)
    }

    /// Makes a history of lines.
    pub fn of(lines: impl IntoIterator<Item = Line>) -> Self {
        let mut history = History::default();
        lines.into_iter().for_each(|line| history.take(line));
        history.finish();
        history
    }

    fn violated(&mut self, rule: Rule, what: String) {
        self.violations.push(Violation { rule, what });
    }

    fn take(&mut self, line: Line) {
        self.seen.lines += 1;
        if let Some(left) = line.left {
            self.left = Some(left);
        }
        self.limits.extend(line.limits);
        if let Some(late) = line.late_ns {
            self.trouble.late(line.at_ns.saturating_sub(late), line.at_ns);
        }
        if let Some(stolen) = line.stolen_ns {
            let from = line.from_ns.unwrap_or(line.at_ns.saturating_sub(stolen));
            self.trouble.stolen(from, line.at_ns, stolen);
        }
        if let Some(slow) = line.slow_ns {
            self.trouble.slow(line.at_ns.saturating_sub(slow), line.at_ns);
        }
        let client = line.client.map(|name| self.client(name));
        if let Some(fault) = line.fault {
            self.faults += 1;
            // A node that is taken away troubles nobody but its owner.
            if client.is_some() || line.nodes.is_empty() {
                self.trouble.begins(client, &fault, line.at_ns);
            }
            let from = line.from_ns.unwrap_or(line.at_ns);
            let owner = line.owner.map(|name| self.client(name));
            for node in line.nodes {
                let unsure = line.unsure;
                let (at, session) = (line.at_ns, client);
                self.removals.push(Removal { node, from, at, owner, session, unsure });
            }
        }
        if let Some(fault) = line.healed {
            self.trouble.ends(client, &fault, line.at_ns);
        }
        let Some(client) = client else { return };
        if let Some(starved) = line.starved_ns {
            let from = line.from_ns.unwrap_or(line.at_ns.saturating_sub(starved));
            self.trouble.starved(client, from, line.at_ns, starved);
        }
        if let Some(starved) = line.blocking_starved_ns {
            let from = line.from_ns.unwrap_or(line.at_ns.saturating_sub(starved));
            self.trouble.blocking_starved(client, from, line.at_ns, starved);
        }
        if let Some(start) = line.start {
            self.trouble.started(client, line.at_ns);
            self.starts[client] = start;
        }
        if let Some(request) = line.request {
            self.asked(client, line.at_ns, request);
        }
        if let Some(answer) = line.answer {
            self.answered(client, line.at_ns, &answer);
        }
        if let Some(end) = line.end {
            self.ended(client, line.from_ns.unwrap_or(line.at_ns), &end);
        }
    }

    fn client(&mut self, name: String) -> usize {
        let next = self.clients.len();
        let index = *self.names.entry(format!("client {name}")).or_insert(next);
        if index == next {
            self.clients.push(name);
            self.starts.push(Start::default());
            self.sides.insert(index, Side::default());
        }
        index
    }

    fn lock(&mut self, family: &str, name: &str) -> usize {
        let next = self.locks.len();
        let index = *self.names.entry(format!("{family} {name}")).or_insert(next);
        if index == next {
            self.locks.push(name.to_owned());
        }
        index
    }

    fn side(&mut self, client: usize) -> &mut Side {
        self.sides.entry(client).or_default()
    }

    fn asked(&mut self, client: usize, at: u64, request: Request) {
        self.seen.requests += 1;
        let (id, guard) = (request.id, request.handle);
        let gives_back = matches!(request.op.as_str(), "release" | "drop" | "downgrade");
        if gives_back && let Some(guard) = guard {
            for hold in self.holds_of(client, guard) {
                self.holds[hold].closed.get_or_insert(at);
            }
        }
        let call = (request.op == "acquire").then(|| self.called(client, at, &request));
        if self.side(client).pending.insert(id, Asked { at, request, call }).is_some() {
            self.violated(Rule::Format, format!("{}: two requests {id}", self.clients[client]));
        }
    }

    fn holds_of(&self, client: usize, handle: u64) -> std::ops::Range<usize> {
        let found = self.sides.get(&client).and_then(|side| side.guards.get(&handle));
        found.map_or(0..0, |(first, count)| *first..first + count)
    }

    fn answered(&mut self, client: usize, heard: u64, answer: &Answer) {
        let Some(id) = answer.id else {
            match (answer.event.as_deref(), answer.handle) {
                (Some("lost"), Some(handle)) => {
                    for hold in self.holds_of(client, handle) {
                        self.lost(hold, answer.at_ns.unwrap_or(heard));
                    }
                }
                (Some("revoked"), Some(handle)) => {
                    for hold in self.holds_of(client, handle) {
                        self.holds[hold].revoked = Some(answer.at_ns.unwrap_or(heard));
                    }
                }
                (Some("state"), _) => {
                    let connected = answer.state.as_deref() == Some("connected");
                    self.trouble.told(client, answer.at_ns.unwrap_or(heard), connected);
                }
                _ => {}
            }
            return;
        };
        let Some(Asked { at: asked, request, call }) = self.side(client).pending.remove(&id) else {
            let who = &self.clients[client];
            let what =
                format!("{who}: an answer to {id}, which nobody asked or was answered before");
            return self.violated(Rule::Answers, what);
        };
        let ok = answer.ok == Some(true);
        let mut guards = self.holds_of(client, request.handle.unwrap_or_default());
        if matches!(request.op.as_str(), "check" | "release")
            && guards.any(|hold| self.holds[hold].lost.is_some())
        {
            self.seen.looks_at_lost += 1;
        }
        let error = || answer.error.clone().unwrap_or_default();
        if let Some(call) = call {
            self.calls[call].heard = heard;
            self.calls[call].answered = answer.at_ns.unwrap_or(heard);
            self.calls[call].begun = answer.begun_ns.unwrap_or(self.calls[call].asked);
            self.calls[call].outcome =
                if ok { Outcome::Granted } else { Outcome::Refused(error()) };
        } else if !ok {
            let hold = self.holds_of(client, request.handle.unwrap_or_default()).next();
            let (op, error) = (request.op.clone(), error());
            if op == "release" && error == HELD_TOO_LONG {
                self.held_too_long(client, asked, heard, request.handle.unwrap_or_default());
            }
            if let Some(hold) = hold.filter(|_| op == "downgrade") {
                self.holds[hold].stayed = Some(heard);
            }
            self.refusals.push(Refusal { client, op, hold, asked, heard, error });
        }
        match request.op.as_str() {
            "acquire" => {
                self.acquires += 1;
                if ok && let Some(call) = call {
                    let first = self.holds.len();
                    self.granted(call, asked, &request, answer);
                    self.calls[call].hold = (self.holds.len() > first).then_some(first);
                }
            }
            "split" if ok => self.split(client, asked, &request, answer),
            "downgrade" if ok => self.stepped_down(client, asked, &request, answer),
            "release" if ok => self.released(client, heard, &request, answer),
            "check" if ok => self.checked(client, &request, answer),
            "fenced_set" if ok => {
                let holds = self.holds_of(client, request.handle.unwrap_or_default());
                if let Some(hold) = holds.into_iter().next() {
                    let token = self.holds[hold].token;
                    let name = request.path.unwrap_or_default();
                    let path = self.path(name);
                    self.writes.push(FencedWrite { path, token, asked, done: heard });
                }
            }
            _ => {}
        }
    }

    fn path(&mut self, name: String) -> usize {
        let next = self.paths.len();
        let index = *self.names.entry(format!("path {name}")).or_insert(next);
        if index == next {
            self.paths.push(name);
        }
        index
    }

    /// What a request is for: which locks, and how each.
    fn wanted(&mut self, request: &Request) -> (Vec<usize>, Vec<Mode>) {
        let names = match &request.lock {
            serde_json::Value::Array(names) => &names[..],
            one => std::slice::from_ref(one),
        };
        let several = request.lock.is_array();
        let one = request.kind.as_ref().filter(|_| !several);
        let kind = |place| request.kinds.get(place).filter(|_| several).or(one);
        let names = names.iter().enumerate();
        let mut members: Vec<_> = names
            .filter_map(|(place, name)| Some((name.as_str()?, kind(place).map(String::as_str))))
            .collect();
        // A multi-lock takes its members in this order, and joins their tokens so.
        members.sort_unstable();
        let member = |(name, kind)| {
            let (mode, family) = match kind {
                Some("read") => (Mode::Read, "rw"),
                Some("write") => (Mode::Write, "rw"),
                Some("semaphore") => (Mode::Permit, "semaphore"),
                _ => (Mode::Mutex, "mutex"),
            };
            (self.lock(family, name), mode)
        };
        members.into_iter().map(member).unzip()
    }

    /// The limit of the semaphores that a request is for.
    fn limit(&self, request: &Request) -> u32 {
        let in_a_node = request.limit_at.as_ref().and_then(|node| self.limits.get(node));
        in_a_node.copied().or(request.limit).unwrap_or(1)
    }

    fn called(&mut self, client: usize, asked: u64, request: &Request) -> usize {
        let (locks, modes) = self.wanted(request);
        let parent = request.parent.and_then(|parent| self.holds_of(client, parent).next());
        self.calls.push(Call {
            client,
            id: request.id,
            locks,
            modes,
            permits: (request.permits.unwrap_or(1), self.limit(request)),
            asked,
            begun: asked,
            blocking: request.blocking,
            options: Options::of(request, &self.starts[client]),
            has_one_node: request.kind.as_deref() == Some("exclusive"),
            timeout: request.timeout_ms.map(|ms| ms * 1_000_000),
            tries: request.retries.unwrap_or(1),
            parent,
            heard: u64::MAX,
            answered: u64::MAX,
            outcome: Outcome::Pending,
            hold: None,
        });
        self.calls.len() - 1
    }

    fn granted(&mut self, call: usize, asked: u64, request: &Request, answer: &Answer) {
        let client = self.calls[call].client;
        let (locks, modes) = self.wanted(request);
        let peer = self.starts[client].peer.is_some();
        let tokens: Option<Vec<Token>> = if peer {
            Some(vec![Token::default(); locks.len()])
        } else {
            answer.token.as_deref().unwrap_or_default().split(',').map(token).collect()
        };
        let (Some(tokens), Some(handle), Some(granted)) = (tokens, answer.handle, answer.at_ns)
        else {
            let what = format!("{}: a grant without token, handle or time", self.clients[client]);
            return self.violated(Rule::Format, what);
        };
        if tokens.len() != locks.len() {
            let who = &self.clients[client];
            let what = format!("{who}: {} locks and {} tokens", locks.len(), tokens.len());
            return self.violated(Rule::Whole, what);
        }
        let paths: Vec<_> = answer.path.iter().flat_map(|path| path.split(',')).collect();
        let parent = request.parent.and_then(|parent| self.holds_of(client, parent).next());
        let first = self.holds.len();
        let limit = self.limit(request);
        let members = locks.iter().copied().zip(modes).zip(&tokens);
        for (place, ((lock, mode), token)) in members.enumerate() {
            let parent = self.holder_among(parent, lock);
            if let Some(parent) = parent {
                self.holds[parent].open_children += 1;
            }
            let nodes = if locks.len() == paths.len() { &paths[place..=place] } else { &paths };
            self.holds.push(Hold {
                client,
                handle,
                lock,
                mode,
                permits: (request.permits.unwrap_or(1), limit),
                token: *token,
                nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
                asked,
                granted,
                claimed: None,
                closed: None,
                released: None,
                parent,
                stepped_down: None,
                split_from: None,
                call,
                lost: None,
                revoked: None,
                valid: None,
                removed: None,
                perhaps_removed: false,
                stayed: None,
                surely: None,
                open_children: 0,
            });
        }
        self.keep(client, handle, first);
    }

    /// The nearest hold of a lock among a hold and its ancestors.
    pub(crate) fn holder_among(&self, mut hold: Option<usize>, lock: usize) -> Option<usize> {
        while let Some(index) = hold {
            // The members of a multi-lock are neighbours.
            let (client, handle) = (self.holds[index].client, self.holds[index].handle);
            let found = self.holds_of(client, handle).find(|one| self.holds[*one].lock == lock);
            if found.is_some() {
                return found;
            }
            hold = self.holds[index].parent;
        }
        None
    }

    fn keep(&mut self, client: usize, handle: u64, first: usize) {
        let count = self.holds.len() - first;
        if self.side(client).guards.insert(handle, (first, count)).is_some() {
            let what = format!("{}: two guards {handle}", self.clients[client]);
            self.violated(Rule::Format, what);
        }
    }

    fn stepped_down(&mut self, client: usize, asked: u64, request: &Request, answer: &Answer) {
        let Some(writer) = self.holds_of(client, request.handle.unwrap_or_default()).next() else {
            return;
        };
        // It succeeded, so it held until it was asked for.
        self.claim(writer, asked);
        let token = token(answer.token.as_deref().unwrap_or_default());
        let (Some(token), Some(handle)) = (token, answer.handle) else {
            let what = format!("{}: a downgrade without token or handle", self.clients[client]);
            return self.violated(Rule::Format, what);
        };
        let first = self.holds.len();
        let mut reader = self.holds[writer].clone();
        // It was one or the other all the time.
        (reader.granted, reader.claimed, reader.closed) = (asked, None, None);
        (reader.mode, reader.token, reader.handle) = (Mode::Read, token, handle);
        (reader.stepped_down, reader.surely) = (Some(writer), None);
        (reader.lost, reader.valid) = (None, None);
        if let Some(path) = &answer.path {
            reader.nodes = vec![path.clone()];
        }
        self.holds[writer].released = answer.at_ns;
        self.holds.push(reader);
        self.keep(client, handle, first);
    }

    fn released(&mut self, client: usize, heard: u64, request: &Request, answer: &Answer) {
        for hold in self.holds_of(client, request.handle.unwrap_or_default()) {
            self.holds[hold].released = Some(heard);
            if let Some(parent) = self.holds[hold].parent {
                self.holds[parent].open_children =
                    self.holds[parent].open_children.saturating_sub(1);
            }
            // Only the last hold of a chain asks whether the lock was lost.
            if self.holds[hold].open_children > 0 || self.holds[hold].parent.is_some() {
                continue;
            }
            if self.holds[hold].lost.is_some() {
                let what = self.describe(hold, "was lost, and its release succeeded");
                self.violated(Rule::Lost, what);
            }
            if let Some(at) = answer.at_ns {
                self.claim(hold, at);
                if self.is_over_time(hold, at) {
                    let what =
                        self.describe(hold, "was held for too long, and its release succeeded");
                    self.violated(Rule::Overtime, what);
                }
            }
        }
    }

    /// Whoever is told by its release that it held for too long had the lock until then: nothing stops
    /// one who holds without a body. Of several locks, another one may have been lost.
    fn held_too_long(&mut self, client: usize, asked: u64, heard: u64, handle: u64) {
        let holds = self.holds_of(client, handle);
        let is_one = holds.len() == 1;
        for hold in holds {
            self.holds[hold].released = Some(heard);
            match self.holds[hold].parent {
                Some(parent) => {
                    let open = &mut self.holds[parent].open_children;
                    *open = open.saturating_sub(1);
                }
                None if is_one && self.holds[hold].open_children == 0 => self.claim(hold, asked),
                None => {}
            }
        }
    }

    fn checked(&mut self, client: usize, request: &Request, answer: &Answer) {
        for hold in self.holds_of(client, request.handle.unwrap_or_default()) {
            let (Some(valid), Some(at)) = (answer.valid, answer.at_ns) else { continue };
            if !valid {
                self.lost(hold, at);
                continue;
            }
            self.holds[hold].valid = self.holds[hold].valid.max(Some(at));
            if self.holds[hold].lost.is_some() {
                let what = self.describe(hold, "was lost, and is valid again");
                self.violated(Rule::Lost, what);
            }
            let until = at + answer.remaining_ms.unwrap_or_default() * 1_000_000;
            self.holds[hold].surely = self.holds[hold].surely.max(Some(until));
        }
    }

    fn claim(&mut self, hold: usize, until: u64) {
        self.holds[hold].claimed = self.holds[hold].claimed.max(Some(until));
    }

    fn lost(&mut self, hold: usize, at: u64) {
        self.holds[hold].lost.get_or_insert(at);
    }

    fn ended(&mut self, client: usize, at: u64, how: &str) {
        let who = self.clients[client].clone();
        let side = self.side(client);
        side.ended = Some(at);
        let pending: Vec<_> = side.pending.drain().map(|(id, _)| id).collect();
        let guards: Vec<_> = side.guards.values().copied().collect();
        if how == "killed" {
            self.seen.cut_short += pending.len() as u64;
        } else {
            for id in pending {
                self.violated(Rule::Answers, format!("{who}: {id} was never answered"));
            }
        }
        // Nobody gave back what a killed process held: it is held as long as it said.
        for (first, count) in guards.into_iter().filter(|_| how != "killed") {
            for hold in first..first + count {
                self.holds[hold].closed.get_or_insert(at);
            }
        }
    }

    /// When a client ended, if it did.
    pub(crate) fn ended_at(&self, client: usize) -> Option<u64> {
        self.sides.get(&client)?.ended
    }

    /// The holds of one guard.
    pub(crate) fn holds_with(&self, hold: usize) -> impl Iterator<Item = usize> + use<> {
        self.holds_of(self.holds[hold].client, self.holds[hold].handle)
    }

    /// The names of locks.
    pub(crate) fn names(&self, locks: &[usize]) -> String {
        locks.iter().map(|lock| &*self.locks[*lock]).collect::<Vec<_>>().join(",")
    }

    /// Says which hold, and what about it.
    pub(crate) fn describe(&self, hold: usize, what: &str) -> String {
        let hold = &self.holds[hold];
        format!(
            "{} of {} by {} (handle {}, token {:x}-{}, from {} to {:?}) {what}",
            format!("{:?}", hold.mode).to_lowercase(),
            self.locks[hold.lock],
            self.clients[hold.client],
            hold.handle,
            hold.token.0,
            hold.token.1,
            hold.granted,
            hold.claimed,
        )
    }

    /// The options of the call that a hold was granted to.
    pub(crate) fn options(&self, hold: usize) -> &Options {
        &self.calls[self.holds[hold].call].options
    }

    /// How long the session of a client lives without it, in nanoseconds.
    pub(crate) fn session_timeout(&self, client: usize) -> u64 {
        self.starts[client].session_timeout_ms.unwrap_or(10_000) * 1_000_000
    }

    /// Whoever has lost a node to an outsider claims nothing from then on: only tokens protect,
    /// until it is told. That it is told in time is a rule of its own.
    fn excuse(&mut self) {
        let mut known: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, one) in self.removals.iter().enumerate() {
            known.entry(&*one.node).or_default().push(index);
        }
        for index in 0..self.holds.len() {
            let hold = &self.holds[index];
            // A name without a number is another's node the next moment: only who was granted before
            // the removal, and had not given it back, has lost it.
            let lost = |node: &str, removal: &Removal| {
                node.ends_with(|last: char| last.is_ascii_hexdigit())
                    || hold.granted < removal.at
                        && hold.closed.is_none_or(|closed| closed > removal.from)
            };
            let removed = hold.nodes.iter().find_map(|node| {
                let removals = known.get(&**node)?.iter().copied();
                removals.rev().find(|removal| lost(node, &self.removals[*removal]))
            });
            let (removed, other) = match removed {
                Some(removed) => (removed, false),
                None => match self.perhaps_another_node(hold) {
                    Some(removed) => (removed, true),
                    None => continue,
                },
            };
            let unsure = self.removals[removed].unsure;
            let hold = &mut self.holds[index];
            hold.removed = Some(removed);
            hold.perhaps_removed = unsure || other;
        }
        let told = self.told_of_removals();
        for index in 0..self.holds.len() {
            let hold = &self.holds[index];
            let Some(removed) = hold.removed else { continue };
            let Removal { from, at, .. } = self.removals[removed];
            let told =
                told.get(&(hold.client, removed)).filter(|_| !self.may_be_lost_otherwise(index));
            let in_time = hold.granted < at + self.session_timeout(hold.client)
                && told.is_none_or(|told| hold.granted <= *told);
            let hold = &mut self.holds[index];
            if in_time && hold.claimed.is_some_and(|claimed| claimed >= from) {
                hold.claimed = (hold.granted < from).then_some(from);
            }
        }
    }

    /// When each client said first that it knows of a removal. Nobody is granted a lock with that node from then
    /// on: whoever was before, and told it later, is lost before anything is asked of it.
    fn told_of_removals(&self) -> HashMap<(usize, usize), u64> {
        let mut told = HashMap::new();
        for (index, hold) in self.holds.iter().enumerate() {
            let (Some(removed), Some(lost)) = (hold.removed, hold.lost) else { continue };
            if lost >= self.removals[removed].from && !self.may_be_lost_otherwise(index) {
                let first = told.entry((hold.client, removed)).or_insert(lost);
                *first = lost.min(*first);
            }
        }
        told
    }

    /// Whether a guard may have been lost and its node be there: it has several, or ends for another reason.
    fn may_be_lost_otherwise(&self, hold: usize) -> bool {
        let hold = &self.holds[hold];
        let Call { locks, permits, options, .. } = &self.calls[hold.call];
        hold.perhaps_removed
            || locks.len() > 1
            || permits.0 > 1
            || hold.stayed.is_some()
            || hold.parent.is_some()
            || options.stops_early
            || options.at_most.is_some()
            || self.starts[hold.client].peer.is_some()
    }

    /// Of several permits the history has only one node, and of a writer that could not step down it
    /// lacks the reader's. The removal of another node of its client, in the same place while it was held,
    /// may have been that of another of its own; for a writer also the end of a session.
    fn perhaps_another_node(&self, hold: &Hold) -> Option<usize> {
        let directory = |node: &str| Some(node.rsplit_once('/')?.0.to_owned());
        if hold.permits.0 < 2 && hold.stayed.is_none() {
            return None;
        }
        let place = directory(hold.nodes.first()?)?;
        self.removals.iter().position(|removal| {
            let session = removal.session.filter(|_| hold.stayed.is_some());
            removal.owner.or(session) == Some(hold.client)
                && hold.asked < removal.at
                && hold.stayed.or(hold.closed).is_none_or(|until| until > removal.from)
                && directory(&removal.node).as_ref() == Some(&place)
        })
    }

    fn finish(&mut self) {
        for index in 0..self.holds.len() {
            let hold = &mut self.holds[index];
            // Nobody claims to hold what was given back, whatever time it still had.
            let surely = hold.surely.map(|until| until.min(hold.closed.unwrap_or(u64::MAX)));
            hold.claimed = hold.claimed.max(surely);
        }
        self.excuse();
        let mut open = Vec::new();
        for (client, side) in &self.sides {
            let who = &self.clients[*client];
            for (id, Asked { request, .. }) in &side.pending {
                let what = format!("{who}: {} {id} was never answered", request.op);
                open.push((Rule::Answers, what));
            }
        }
        for index in 0..self.holds.len() {
            let hold = &self.holds[index];
            if hold.closed.is_none() && hold.lost.is_none() && self.ended_at(hold.client).is_none()
            {
                open.push((Rule::Leaks, self.describe(index, "was never given back")));
            }
        }
        for (rule, what) in open {
            self.violated(rule, what);
        }
    }
}

fn token(text: &str) -> Option<Token> {
    let (czxid, grant) = text.split_once('-')?;
    Some((u64::from_str_radix(czxid, 16).ok()?, u64::from_str_radix(grant, 16).ok()?))
}
