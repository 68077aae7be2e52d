//! Outsiders: one who interferes with a request at the worst moment, and one who wants a lock, too.

use zklock_core::coordinator::memory::shared::{Request, split, target};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;

use super::control::Ensemble;
use super::frames::ToServer;
use super::journal::Life;
use super::machine::{Event, Machine};
use super::prepare::{Author, Write};

/// What such an outsider writes.
pub(super) const INTERFERENCE: &[u8] = b"somebody was here";

/// The sessions of outsiders, which no client has, are from this one on.
const STRANGERS: i64 = 0x0f0f_0000_0000_0000;

impl Ensemble {
    /// Lets a program of somebody else make an ephemeral node, with data that say nothing: it opens a session of
    /// its own, and is not heard of again, so that the node goes after this time at the latest. Nobody does so
    /// while there is no leader.
    pub fn contend(&self, path: &str, kind: NodeKind, lives: u64) -> Option<i64> {
        self.0.act(|machine| {
            machine.leader()?;
            let session = machine.stranger();
            machine.contend(session, path.to_owned(), kind, lives);
            Some(session)
        })
    }

    /// The nodes of a session.
    pub fn owned_by(&self, session: i64) -> Vec<String> {
        self.0.look(|machine| {
            let paths = machine.newest().tree.owned_by(session);
            paths.map(|path| path.to_string()).collect()
        })
    }

    /// The life of the node at a path that the owner of another one, given by its czxid, made while that was there:
    /// the last of several.
    pub fn life_beside(&self, path: &str, czxid: i64) -> Option<Life> {
        self.0.look(|machine| {
            let lives = machine.journal.lives();
            let other = lives.iter().rev().find(|life| life.czxid == czxid)?;
            let beside = |life: &&Life| {
                let there = other.gone.is_none_or(|(at, _)| life.born <= at);
                life.owner == other.owner && life.czxid > czxid && *life.path == *path && there
            };
            lives.iter().rev().find(beside).cloned()
        })
    }

    /// Whether another program had a node below a path at that moment or since then.
    pub fn was_contended_since(&self, below: &str, since: u64) -> bool {
        self.0.look(|machine| {
            let strange = |life: &Life| {
                life.owner >= STRANGERS
                    && life.path.starts_with(below)
                    && life.gone.is_none_or(|(at, _)| at >= since)
            };
            machine.journal.lives().iter().rev().any(strange)
        })
    }

    /// The nodes below a path of other programs: their paths and czxids.
    pub fn strangers(&self, below: &str) -> Vec<(String, i64)> {
        self.0.look(|machine| {
            let nodes = machine.newest().tree.below(below);
            let strange = nodes.filter(|(_, node)| node.owner >= STRANGERS);
            strange.map(|(path, node)| (path.to_string(), node.czxid)).collect()
        })
    }
}

impl Machine {
    /// Lets an outsider do something to a node near the one that a request is about: before the
    /// request arrives, or just after.
    pub(super) fn meddle(&mut self, frame: &ToServer) {
        let meddles = self.options.weather.meddles;
        let ToServer::Request(_, request) = frame else { return };
        let how = if meddles == 0 { 0 } else { self.world.seldom(3, meddles) };
        if how == 0 {
            return;
        }
        let Some(path) = self.one_near(request, |_| true) else { return };
        let operation = match how {
            1 => Operation::Delete { path },
            _ => Operation::Set { path, data: INTERFERENCE.to_vec() },
        };
        self.meddles += 1;
        let when = self.options.weather.latency * [0, 2, 4][self.world.choose(3) as usize];
        self.after(when, Event::Outside(operation));
    }

    /// Lets an outsider delete a node near the one that a request is about, and another program take its name within
    /// a round trip.
    pub(super) fn retake(&mut self, frame: &ToServer) {
        let retakes = self.options.weather.retakes;
        let ToServer::Request(_, request) = frame else { return };
        if retakes == 0 || self.world.seldom(2, retakes) == 0 {
            return;
        }
        let Some(path) = self.one_near(request, recurs) else { return };
        self.meddles += 1;
        let latency = self.options.weather.latency;
        let when = latency * [0, 2, 4][self.world.choose(3) as usize];
        let then = when + latency * [0, 1, 3][self.world.choose(3) as usize];
        let lives = latency * [2, 20, 500, 5_000][self.world.choose(4) as usize];
        self.after(when, Event::Outside(Operation::Delete { path: path.clone() }));
        self.after(then + 1, Event::Take { path, lives });
    }

    /// Lets an outsider delete an empty directory just before somebody makes another one in it.
    pub(super) fn sweep(&mut self, frame: &ToServer) {
        let sweeps = self.options.weather.sweeps;
        let ToServer::Request(_, Request::Create { path, kind, .. }) = frame else { return };
        let (directory, _) = split(path);
        let makes_one = matches!(kind, NodeKind::Persistent | NodeKind::Container);
        if sweeps == 0 || !makes_one || directory == "/" {
            return;
        }
        let node = self.newest().tree.node(directory);
        let is_empty = node.is_some_and(|node| node.children.is_empty());
        if is_empty && self.world.seldom(2, sweeps) == 1 {
            self.swept += 1;
            self.after(0, Event::Outside(Operation::Delete { path: directory.to_owned() }));
        }
    }

    /// Another program makes a node, and keeps it for so long.
    pub(super) fn occupy(&mut self, path: String, lives: u64) {
        let session = self.stranger();
        self.contend(session, path, NodeKind::Ephemeral, 10 * lives);
        self.after(lives, Event::Leave(session));
    }

    fn stranger(&mut self) -> i64 {
        STRANGERS + i64::try_from(self.unique()).unwrap_or_default()
    }

    fn contend(&mut self, session: i64, path: String, kind: NodeKind, lives: u64) {
        self.say(|| format!("FAULT another program, session {session:x}: makes {path}"));
        let author = Author { session, ..Author::default() };
        self.outside(author, Write::OpenSession { session, timeout: lives });
        let data = b"192.0.2.1".to_vec();
        self.outside(author, Write::One(Operation::Create { path, data, kind }));
    }

    /// One of the nodes of sessions near the one that a request is about.
    fn one_near(&self, request: &Request, is_one: impl Fn(&str) -> bool) -> Option<String> {
        let path = about(request)?;
        let directory = match split(path) {
            // The node of a contender, or its beginning.
            (directory, name) if name == "lock" || name.contains(['_', '-']) => directory,
            _ => path,
        };
        let tree = &self.newest().tree;
        let nodes = tree.below(directory).filter(|(_, node)| node.owner > 0);
        let nodes: Vec<String> =
            nodes.map(|(path, _)| path.to_string()).filter(|path| is_one(path)).collect();
        let many = u32::try_from(nodes.len()).ok().filter(|many| *many > 0)?;
        nodes.get(self.world.choose(many) as usize).cloned()
    }
}

/// Whether another node may have this path later: its name says nothing of who made it.
fn recurs(path: &str) -> bool {
    let name = split(path).1;
    ["lock", "read-node", "write-node", "host"].iter().any(|word| name.starts_with(word))
}

/// The path that a request is about.
fn about(request: &Request) -> Option<&str> {
    Some(match request {
        Request::Create { path, .. }
        | Request::Delete { path }
        | Request::Get { path, .. }
        | Request::Set { path, .. }
        | Request::Children { path, .. }
        | Request::Sync { path } => path,
        Request::Multi(operations) => target(operations.first()?),
    })
}
