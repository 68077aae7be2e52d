//! Which of several connections a process uses, and which server it goes to.

use std::collections::{BTreeMap, BTreeSet};

use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::memory::shared::Request;
use zklock_core::coordinator::node::NodeKind;

use super::control::Ensemble;
use super::frames::ToServer;
use super::machine::{Event, Machine};
use crate::executor::Process;

/// How long it may take until something is noticed, in microseconds.
const NOTICED: u64 = 30_000;

/// How long after a session was opened its process may tell why, in microseconds.
const TOLD: u64 = 5_000;

/// What was chosen.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// The paths below which nodes are asked for in the order of the calls.
    ordered: BTreeSet<String>,
    /// Whether a node was asked for on a connection that was silent for long, beside one that was not.
    in_silence: bool,
    /// The servers that differ from their leader.
    pub(super) differs: BTreeSet<usize>,
    /// When each process left such a server.
    left: BTreeMap<u32, u64>,
    /// Whether one asked for a node there in a session that it opened later.
    came_back: bool,
}

impl Machine {
    /// Notes on which connection a node is asked for.
    pub(super) fn note_choice(&mut self, id: u64, frame: &ToServer) {
        let ToServer::Request(xid, Request::Create { path, kind, .. }) = frame else { return };
        if !matches!(kind, NodeKind::Ephemeral | NodeKind::EphemeralSequential) {
            return;
        }
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&id) else { return };
        // What was held on the way arrives twice.
        if *xid <= wire.noted {
            return;
        }
        wire.noted = *xid;
        let silent = wire.to_server.silent;
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        // Where an order is promised, the next one of a lock goes where those before it went.
        let ordered = self.chosen.ordered.iter().any(|above| path.starts_with(above));
        let follows = ordered && wire.unanswered.iter().any(|(_, before)| before == directory);
        wire.unanswered.push((now, directory.to_owned()));
        // One of those who asked may have gone; of several, one is still there.
        let third = wire.unanswered.get(2).map_or(now, |(at, _)| *at);
        let (here, server, client) = (wire.process, wire.server, wire.client);
        let (asker, Some(client)) = (client, self.clients.get(&client)) else { return };
        // It has not moved since it was opened.
        let opened = client.opened_at + TOLD;
        let is_first = client.changes == 1;
        let left = self.chosen.left.get(&here).is_some_and(|left| opened > *left);
        self.chosen.came_back |= is_first && left && self.chosen.differs.contains(&server);
        let sixth = client.timing.session / 6;
        if silent && !follows && now > third + sixth + NOTICED {
            self.chosen.in_silence |= self.is_another_served(asker, here, sixth);
        }
    }

    /// Whether another connection of a process has been up for long, and answers.
    fn is_another_served(&self, asker: u64, process: u32, sixth: u64) -> bool {
        // What was asked on a connection that its own client has replaced may arrive late.
        let others = self.clients.iter().filter(|(other, _)| **other != asker);
        let mut others = others.map(|(_, one)| one).filter(|one| one.process.0 == process);
        others.any(|other| {
            let Some(at) = other.wire() else { return false };
            let Some(wire) = self.wires.get(&at) else { return false };
            let answers =
                wire.unanswered.first().is_none_or(|(since, _)| since + sixth / 2 > self.now);
            // One that holds nothing sends no heartbeats.
            let mut lives = self.journal.lives().iter().rev();
            let holds = lives.any(|life| life.owner == other.session && life.gone.is_none());
            let is_suspect = holds && other.proven + 2 * sixth <= self.now;
            other.link() == Link::Up
                && answers
                && !wire.to_server.silent
                && other.closing.is_none()
                && other.opened_at + 2 * sixth < self.now
                && wire.heard_at + sixth < self.now
                && !is_suspect
        })
    }
}

impl Ensemble {
    /// Below this path, nodes are asked for in the order of the calls.
    pub fn keeps_order(&self, below: String) {
        self.0.act(|machine| machine.chosen.ordered.insert(below));
    }

    /// Lets nothing through on the connection of a session, for so long.
    pub fn hush(&self, session: i64, long: u64) {
        self.0.act(|machine| {
            machine.say(|| format!("FAULT session {session:x}: its connection is silent"));
            for id in machine.wires_of(session) {
                if let Some(wire) = machine.wires.get_mut(&id) {
                    wire.to_server.silent = true;
                    wire.to_client.silent = true;
                }
                machine.after(long, Event::Hear(id));
            }
        });
    }

    /// Notes that a process leaves a server that differs.
    pub fn leaves(&self, process: &Process) {
        self.0.act(|machine| {
            let now = machine.now;
            machine.chosen.left.insert(process.id().0, now);
        });
    }

    /// Whether a server shows nodes that its leader does not know.
    pub fn differs(&self) -> bool {
        self.0.look(|machine| !machine.chosen.differs.is_empty())
    }

    /// Whether a process asked for a node on a connection that had been silent for a sixth of the session
    /// timeout, while another one was served.
    pub fn asked_in_silence(&self) -> bool {
        self.0.look(|machine| machine.chosen.in_silence)
    }

    /// Whether a process that had left a server that differs asked for a node there in a new session.
    pub fn came_back(&self) -> bool {
        self.0.look(|machine| machine.chosen.came_back)
    }
}
