//! What the servers know of nodes, for those who judge what their owners did with them.

use std::collections::BTreeMap;

use super::control::Ensemble;
use super::journal::{Gone, Life};
use super::machine::Machine;
use super::quorum::EPOCH;
use super::tree::PLANTED;
use crate::executor::Process;

impl Machine {
    /// Whether a process opened a session.
    pub(super) fn is_of(&self, session: i64, process: &Process) -> bool {
        self.opened_by.get(&session).copied() == Some(process.id().0)
    }
}

impl Ensemble {
    /// The paths below this one of the nodes that sessions own, as the server knows that has seen most.
    pub fn ephemerals(&self, below: &str) -> Vec<String> {
        self.0.look(|machine| {
            let paths = machine.newest().tree.below(below);
            let paths = paths.filter(|(_, node)| node.owner > 0 && node.owner != PLANTED);
            paths.map(|(path, _)| path.to_string()).collect()
        })
    }

    /// The paths below this one that nobody owns and no server reaps, as that server knows them.
    pub fn persistent(&self, below: &str) -> Vec<String> {
        self.0.look(|machine| {
            let paths = machine.newest().tree.below(below);
            let paths = paths.filter(|(_, node)| node.owner == 0);
            paths.map(|(path, _)| path.to_string()).collect()
        })
    }

    /// The nodes below this path by the sessions that own them: how many, and the bytes of their paths.
    pub fn owned(&self, below: &str) -> BTreeMap<i64, (usize, usize)> {
        self.0.look(|machine| {
            let mut owned = BTreeMap::<i64, (usize, usize)>::new();
            let nodes = machine.newest().tree.below(below);
            for (path, node) in nodes.filter(|(_, node)| node.owner > 0 && node.owner != PLANTED) {
                let of = owned.entry(node.owner).or_default();
                *of = (of.0 + 1, of.1 + path.len());
            }
            owned
        })
    }

    /// Whether one of the nodes below a path has no session, as that server knows them.
    pub fn has_lasting(&self, below: &str) -> bool {
        self.0.look(|machine| machine.newest().tree.below(below).any(|(_, node)| node.owner <= 0))
    }

    /// The data of a node, as that server knows it.
    pub fn data(&self, path: &str) -> Option<Vec<u8>> {
        self.0.look(|machine| machine.newest().tree.node(path).map(|node| node.data.to_vec()))
    }

    /// The same, and when that was written, to the millisecond.
    pub fn written(&self, path: &str) -> Option<(Vec<u8>, u64)> {
        self.0.look(|machine| {
            let node = machine.newest().tree.node(path)?;
            let at = u64::try_from(node.mtime - EPOCH).unwrap_or_default() * 1_000;
            Some((node.data.to_vec(), at))
        })
    }

    /// The nodes of others at a path that sessions of this process have deleted since then.
    pub fn deleted_by(&self, path: &str, process: &Process, since: u64) -> Vec<Life> {
        self.0.look(|machine| {
            let is_so = |life: &&Life| match life.gone {
                Some((at, Gone::Deleted { by })) => {
                    let is_here = |session| machine.is_of(session, process);
                    is_here(by) && !is_here(life.owner) && at >= since && *life.path == *path
                }
                _ => false,
            };
            machine.journal.lives().iter().rev().filter(is_so).cloned().collect()
        })
    }

    /// The nodes of sessions that another session deleted, from this number on: in that order, and each with whether
    /// both were of one process.
    pub fn taken_away(&self, from: usize) -> Vec<(Life, bool)> {
        self.0.look(|machine| {
            let process = |session| machine.opened_by.get(&session);
            let here = |life: &Life| match life.gone {
                Some((_, Gone::Deleted { by })) => process(by) == process(life.owner),
                _ => false,
            };
            machine.journal.taken().skip(from).map(|life| (life.clone(), here(life))).collect()
        })
    }

    /// Whether the owner of a node had another one below a path all the time when it made this one, and
    /// deleted that later.
    pub fn was_made_under(&self, below: &str, node: &Life) -> bool {
        self.0.look(|machine| {
            let is_it = |life: &Life| {
                let by_owner =
                    |(at, gone)| at >= node.born && gone == Gone::Deleted { by: node.owner };
                let before = life.owner == node.owner && life.czxid < node.czxid;
                before && life.gone.is_some_and(by_owner) && life.path.starts_with(below)
            };
            machine.journal.lives().iter().rev().any(is_it)
        })
    }

    /// The nodes below a path, by their czxids, that have been there since then.
    pub fn there_since(&self, below: &str, since: u64) -> Vec<i64> {
        self.0.look(|machine| {
            let there = |life: &&Life| {
                life.path.starts_with(below) && life.gone.is_none_or(|(at, _)| at >= since)
            };
            let lives = machine.journal.lives().iter().rev().filter(there);
            lives.map(|life| life.czxid).collect()
        })
    }

    /// The nodes below a path, by their czxids, that are there, and that a process made since then.
    pub fn made_since(&self, below: &str, since: u64, process: &Process) -> Vec<i64> {
        self.0.look(|machine| {
            let made = |life: &&Life| {
                let there = life.path.starts_with(below) && life.gone.is_none();
                there && life.born >= since && machine.is_of(life.owner, process)
            };
            let lives = machine.journal.lives().iter().rev().filter(made);
            lives.map(|life| life.czxid).collect()
        })
    }

    /// Whether a process opened a session.
    pub fn is_of(&self, session: i64, process: &Process) -> bool {
        self.0.look(|machine| machine.is_of(session, process))
    }

    /// A node that somebody asked for again and again, without a pause.
    pub fn asked_again(&self) -> Option<String> {
        self.0.look(|machine| machine.repeated.found().map(str::to_owned))
    }
}
