//! What servers and clients know of each other, for those who judge.

use std::collections::{BTreeMap, BTreeSet};

use zklock_core::coordinator::request_error::RequestError;

use super::control::Ensemble;
use super::frames::Answer;
use super::journal::Life;
use super::machine::Machine;
use super::tree::PLANTED;
use crate::executor::Process;

/// What was told.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The sessions of which a server has heard what their clients know nothing of: that they are back, or
    /// what they sent on a connection, this one, that has told them nothing since.
    returned: BTreeMap<i64, u64>,
    /// The lists that were asked for, by connection and request.
    lists: BTreeMap<(u64, u64), (String, List)>,
    /// The lists that have arrived, by request, and are not read yet.
    unread: BTreeMap<u64, (i64, String, List)>,
    /// The lists of the children of a node that a session was shown, in the order in which they were read.
    shown: BTreeMap<(i64, String), Vec<List>>,
    /// For whom sessions were opened.
    labels: BTreeMap<i64, u64>,
    /// When processes were served last by servers that differ.
    served: BTreeMap<(u32, usize), u64>,
    /// The nodes whose deletion a leader refused.
    stuck: BTreeSet<String>,
    /// The nodes that said nothing when a leader refused to write into them, and for which session.
    empty: BTreeSet<(i64, String)>,
    /// The nodes that were asked for, by connection and request.
    asked: BTreeMap<(u64, u64), String>,
    /// When each session was told that it may not do something, and of which node, if it was to be read.
    refused: BTreeMap<i64, Vec<(u64, Option<String>)>>,
    /// The notifications that were swallowed on the way to each session: when, and of which node.
    unheard: BTreeMap<i64, Vec<(u64, String)>>,
    /// When answers were swallowed on the way to each process, other than lists, or its connection broke without them.
    swallowed: BTreeMap<u32, Vec<u64>>,
    /// When each process heard something of a server last, by its number.
    heard: Vec<Option<u64>>,
}

/// A list of the children of a node.
#[derive(Debug)]
struct List {
    /// The last transaction that a server had committed when it was asked for.
    asked: i64,
    /// The last transaction that the server knew that answered.
    served: i64,
    /// When the answer was read.
    at: u64,
}

/// Whether somebody has no right to do something.
pub(super) fn may_not(error: &RequestError) -> bool {
    match error {
        RequestError::Multi { error, .. } => may_not(error),
        error => *error == RequestError::NoAuth,
    }
}

impl Known {
    /// A client of a process hears something of its server.
    pub(super) fn hears(&mut self, process: u32, now: u64) {
        let process = process as usize;
        if self.heard.len() <= process {
            self.heard.resize(process + 1, None);
        }
        self.heard[process] = Some(now);
    }

    /// A leader refuses the deletion of a node.
    pub(super) fn refuses(&mut self, path: String) {
        self.stuck.insert(path);
    }

    /// A leader refuses a session to write into a node that says nothing.
    pub(super) fn leaves_empty(&mut self, session: i64, path: String) {
        self.empty.insert((session, path));
    }
}

impl Machine {
    /// A server hears of a session, or that its client is there again, perhaps late, on a connection that the
    /// client has given up or that tells it nothing.
    pub(super) fn is_heard(&mut self, session: i64, wire: u64) {
        self.known.returned.insert(session, wire);
    }

    /// The client hears of its server on a connection, so it knows that it is there.
    pub(super) fn is_back(&mut self, session: i64, wire: u64) {
        if self.known.returned.get(&session) == Some(&wire) {
            self.known.returned.remove(&session);
        }
    }

    /// A session is opened on a connection.
    pub(super) fn note_label(&mut self, session: i64, wire: u64) {
        let client = self.wires.get(&wire).and_then(|wire| self.clients.get(&wire.client));
        if let Some(client) = client {
            self.known.labels.insert(session, client.label);
        }
    }

    /// A client asks for a list of a directory.
    pub(super) fn asks_for_list(&mut self, wire: u64, xid: u64, path: &str) {
        let list = List { asked: self.newest().tree.zxid, served: 0, at: 0 };
        self.known.lists.insert((wire, xid), (path.to_owned(), list));
    }

    /// A client asks for a node.
    pub(super) fn asks_for_node(&mut self, wire: u64, xid: u64, path: &str) {
        self.known.asked.insert((wire, xid), path.to_owned());
    }

    /// A server lists a directory.
    pub(super) fn lists(&mut self, wire: u64, xid: u64, zxid: i64) {
        if let Some((_, list)) = self.known.lists.get_mut(&(wire, xid)) {
            list.served = zxid;
        }
    }

    /// An answer arrives.
    pub(super) fn shows(
        &mut self,
        session: i64,
        (wire, xid): (u64, u64),
        answer: &Result<Answer, RequestError>,
    ) {
        let (node, list) =
            (self.known.asked.remove(&(wire, xid)), self.known.lists.remove(&(wire, xid)));
        if answer.as_ref().is_err_and(may_not) {
            let path = node.or_else(|| list.as_ref().map(|(path, _)| path.clone()));
            self.known.refused.entry(session).or_default().push((self.now, path));
        }
        if let Some((path, list)) = list {
            self.known.unread.insert(xid, (session, path, list));
        }
    }

    /// Whoever asked reads the answer that arrived, or will never do so.
    pub(super) fn reads(&mut self, xid: u64, read: bool) {
        if let Some((session, path, list)) = self.known.unread.remove(&xid)
            && read
        {
            let list = List { at: self.now, ..list };
            self.known.shown.entry((session, path)).or_default().push(list);
        }
    }

    /// The answer to something other than a list is to be swallowed on a connection.
    pub(super) fn note_swallowed(&mut self, wire: u64) {
        // The client that sends it is not among the others meanwhile.
        if let Some(process) = self.wires.get(&wire).map(|wire| wire.process) {
            self.note_missing(process);
        }
    }

    /// An answer to a process will be missing.
    pub(super) fn note_missing(&mut self, process: u32) {
        self.known.swallowed.entry(process).or_default().push(self.now);
    }

    /// A notification of a node is swallowed on a connection.
    pub(super) fn note_unheard(&mut self, wire: u64, path: &str) {
        let client = self.wires.get(&wire).and_then(|wire| self.clients.get(&wire.client));
        if let Some(session) = client.map(|client| client.session) {
            let unheard = self.known.unheard.entry(session).or_default();
            unheard.push((self.now, path.to_owned()));
        }
    }

    /// A server serves a process.
    pub(super) fn note_served(&mut self, at: usize, wire: u64) {
        if self.chosen.differs.contains(&at)
            && let Some(wire) = self.wires.get(&wire)
        {
            self.known.served.insert((wire.process, at), self.now);
        }
    }
}

impl Ensemble {
    /// Whether a server has heard that the client of a session is there again, or what it sent, and the client has
    /// heard nothing since: it does not know that the server keeps the session for longer.
    pub fn has_returned(&self, session: i64) -> bool {
        self.0.look(|machine| machine.known.returned.contains_key(&session))
    }

    /// Whether a leader has refused the deletion of a node.
    pub fn is_stuck(&self, path: &str) -> bool {
        self.0.look(|machine| machine.known.stuck.contains(path))
    }

    /// Whether a session was ever told that it may not do something.
    pub fn refused_in(&self, session: i64) -> bool {
        self.0.look(|machine| machine.known.refused.contains_key(&session))
    }

    /// How often sessions of a process were told that they may not do something.
    pub fn refusals(&self, process: &Process) -> usize {
        self.0.look(|machine| {
            let refused = machine.known.refused.iter();
            let of_it = refused.filter(|(session, _)| machine.is_of(**session, process));
            of_it.map(|(_, told)| told.len()).sum()
        })
    }

    /// When a process heard something of a server last, whatever it was.
    pub fn heard(&self, process: &Process) -> Option<u64> {
        let process = process.id().0 as usize;
        self.0.look(|machine| machine.known.heard.get(process).copied().flatten())
    }

    /// Whether a session of a process was told since then that it may not do something.
    pub fn refused_since(&self, since: u64, process: &Process) -> bool {
        self.0.look(|machine| {
            machine.known.refused.iter().any(|(session, told)| {
                told.last().is_some_and(|(at, _)| *at >= since) && machine.is_of(*session, process)
            })
        })
    }

    /// Whether a session of a process was told since then that it may not read a node, or what that is in.
    pub fn may_not_read_since(&self, since: u64, process: &Process, node: &str) -> bool {
        let is_near = |path: &str| {
            let below = node.strip_prefix(path);
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        self.0.look(|machine| {
            machine.known.refused.iter().any(|(session, told)| {
                let mut since = told.iter().rev().take_while(|(at, _)| *at >= since);
                machine.is_of(*session, process)
                    && since.any(|(_, path)| path.as_deref().is_some_and(is_near))
            })
        })
    }

    /// Whether a process was refused to write into a node while that said nothing.
    pub fn has_left_empty(&self, path: &str, process: &Process) -> bool {
        self.0.look(|machine| {
            let mut empty = machine.known.empty.iter();
            empty.any(|(session, node)| node == path && machine.is_of(*session, process))
        })
    }

    /// Whether a notification was swallowed on the way to a session of a process since then.
    pub fn is_unheard_since(&self, since: u64, process: &Process) -> bool {
        self.0.look(|machine| {
            let late = |unheard: &Vec<(u64, String)>| unheard.iter().any(|(at, _)| *at >= since);
            machine
                .known
                .unheard
                .iter()
                .any(|(session, unheard)| machine.is_of(*session, process) && late(unheard))
        })
    }

    /// Whether an answer to something other than a list was swallowed on the way to a process since then, or was missing
    /// when its connection broke.
    pub fn has_swallowed_since(&self, since: u64, process: &Process) -> bool {
        self.0.look(|machine| {
            let swallowed = machine.known.swallowed.get(&process.id().0);
            swallowed.is_some_and(|times| times.iter().any(|at| *at >= since))
        })
    }

    /// Whether a notification of a node was swallowed on the way to its owner.
    pub fn is_unheard(&self, node: &Life) -> bool {
        let is_its = |(at, path): &(u64, String)| *at >= node.born && **path == *node.path;
        self.0.look(|machine| {
            let unheard = machine.known.unheard.get(&node.owner);
            unheard.is_some_and(|unheard| unheard.iter().any(is_its))
        })
    }

    /// Whether the owner of a node was shown its directory with it before a moment.
    pub fn was_shown_by(&self, node: &Life, until: u64) -> bool {
        let there = |shown: &List| shown.served >= node.czxid && shown.at < until;
        let Some((directory, _)) = node.path.rsplit_once('/') else { return false };
        self.0.look(|machine| {
            let shown = machine.known.shown.get(&(node.owner, directory.to_owned()));
            shown.is_some_and(|shown| shown.iter().any(there))
        })
    }

    /// Whether the owner of a node asked for its directory after the node had gone, and was shown it so.
    pub fn was_shown_without(&self, node: &Life) -> bool {
        let gone = |shown: &List, last| shown.asked >= last && shown.served >= last;
        self.shown(node, |shown, last| shown.last().is_some_and(|shown| gone(shown, last)))
    }

    /// Whether the owner of a node that is gone was ever shown its directory with it.
    pub fn was_shown(&self, node: &Life) -> bool {
        let there = |shown: &List, last| shown.served >= node.czxid && shown.served < last;
        self.shown(node, |shown, last| shown.iter().any(|shown| there(shown, last)))
    }

    fn shown(&self, node: &Life, f: impl FnOnce(&[List], i64) -> bool) -> bool {
        let (Some((directory, _)), Some(last)) = (node.path.rsplit_once('/'), node.last) else {
            return false;
        };
        self.0.look(|machine| {
            let shown = machine.known.shown.get(&(node.owner, directory.to_owned()));
            shown.is_some_and(|shown| f(shown, last))
        })
    }

    /// The live sessions that were opened for one, by the leader's word where there is one.
    pub fn sessions_for(&self, label: u64) -> Vec<i64> {
        let live = self.sessions();
        self.0.look(|machine| {
            let is_its = |session: &i64| machine.known.labels.get(session) == Some(&label);
            live.into_iter().filter(is_its).collect()
        })
    }

    /// Whether a session has a client that has not given it up.
    pub fn has_client(&self, session: i64) -> bool {
        self.0.look(|machine| machine.clients.values().any(|client| client.session == session))
    }

    /// Whether a server has served a process since then that shows nodes below this path which its leader
    /// does not know.
    pub fn was_shown_strays(&self, below: &str, since: u64, process: &Process) -> bool {
        self.0.look(|machine| {
            let here = process.id().0;
            let served = machine.known.served.iter();
            let mut served = served.filter(|((by, _), at)| *by == here && **at >= since);
            served.any(|((_, at), _)| {
                let mut nodes = machine.servers[*at].tree.below(below);
                nodes.any(|(_, node)| node.owner == PLANTED)
            })
        })
    }
}
