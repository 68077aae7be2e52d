//! The ensemble from above: faults, and what the servers know.

use std::collections::BTreeSet;
use std::sync::Arc;

use zklock_core::coordinator::connector::Connector;
use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;

use super::connector::{Connecting, SimulatedConnector};
use super::journal::Life;
use super::machine::{Event, Machine};
use super::options::{Options, Weather};
use super::prepare::{Author, Write};
use super::server::Role;
use super::shared::Shared;
use super::tree::{Node, PLANTED};
use super::txn::Access;
use crate::executor::{Process, World};

/// A simulated ensemble. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Ensemble(pub(super) Arc<Shared>);

/// What went wrong so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that were struck.
    pub strikes: u64,
    /// Answers that were swallowed.
    pub forgets: u64,
    /// Those of them that were lists.
    pub lists: u64,
    /// Notifications that were swallowed.
    pub notices: u64,
    /// Requests that an outsider interfered with.
    pub meddles: u64,
    /// Reads that were refused for a moment.
    pub forbidden: u64,
    /// Empty directories that an outsider deleted just before they were used.
    pub swept: u64,
    /// Nodes that are gone.
    pub deaths: u64,
    /// Until when what was struck is disturbed.
    pub until: u64,
    /// Whether a session was asked for an ephemeral node while its connection was down.
    pub asked_while_down: bool,
    /// Whether somebody asked for a node again and again, without a pause.
    pub repeats: bool,
}

impl Ensemble {
    /// Starts the servers, which agree on a leader at once.
    pub fn new(world: &Arc<World>, options: Options) -> Self {
        Ensemble(Shared::new(world, options))
    }

    /// Opens sessions for a process.
    pub fn connector(&self, process: &Process, connecting: Connecting) -> Arc<dyn Connector> {
        Arc::new(SimulatedConnector::new(self.0.clone(), process.clone(), connecting))
    }

    /// Those of these processes that are to stand still from now on, since they just sent a request.
    pub fn take_stalled(&self, of: &[Process]) -> Vec<Process> {
        let stalled = self.0.act(|machine| std::mem::take(&mut machine.stalled));
        of.iter().filter(|process| stalled.contains(&process.id().0)).cloned().collect()
    }

    /// Changes how the network behaves.
    pub fn set_weather(&self, weather: Weather) {
        self.0.act(|machine| machine.options.weather = weather);
    }

    /// The number of requests that clients sent.
    pub fn requests(&self) -> u64 {
        self.0.look(|machine| machine.requests)
    }

    /// The number of messages that were struck.
    pub fn strikes(&self) -> u64 {
        self.0.look(|machine| machine.strikes)
    }

    // Connections and the network.

    /// The live sessions of a process, by the leader's word where there is one.
    pub fn sessions_of(&self, process: &Process) -> Vec<i64> {
        self.0.look(|machine| {
            let here = process.id().0;
            let opened = machine.opened_by.iter().filter(|(_, process)| **process == here);
            opened.map(|(session, _)| *session).filter(|one| machine.is_alive(*one)).collect()
        })
    }

    /// The live sessions, by the leader's word where there is one.
    pub fn sessions(&self) -> Vec<i64> {
        self.0.look(|machine| {
            let sessions = machine.newest().tree.sessions.keys().copied();
            sessions.filter(|session| machine.is_alive(*session)).collect()
        })
    }

    /// Breaks the connection of a session. What it sent and what has not arrived is lost, unless it
    /// `arrives` all the same.
    pub fn cut(&self, session: i64, arrives: bool) {
        self.0.act(|machine| {
            machine.say(|| format!("FAULT session {session:x}: its connection is cut"));
            for wire in machine.wires_of(session) {
                machine.cut(wire, arrives);
            }
        });
    }

    /// Breaks all connections of a process, as [`Ensemble::cut`] does.
    pub fn cut_process(&self, process: &Process) {
        self.0.act(|machine| {
            let clients = machine.clients.values().filter(|one| one.process == process.id());
            for wire in clients.filter_map(|one| one.wire()).collect::<Vec<_>>() {
                machine.cut(wire, false);
            }
        });
    }

    /// The servers to which a process is connected.
    pub fn servers_of(&self, process: &Process) -> Vec<usize> {
        self.0.look(|machine| {
            let here = machine.wires.values().filter(|wire| wire.process == process.id().0);
            let mut servers: Vec<usize> =
                here.filter(|wire| !wire.to_client.broken).map(|wire| wire.server).collect();
            servers.sort_unstable();
            servers.dedup();
            servers
        })
    }

    /// Sends the clients of a process to this server alone, from their next connection on.
    pub fn reroute(&self, process: &Process, server: usize) {
        self.0.act(|machine| {
            for client in machine.clients.values_mut().filter(|one| one.process == process.id()) {
                client.servers.fill(server);
            }
        });
    }

    /// Lets no server open another session for a process, for so long. Those that it has go on.
    pub fn opens_no_more(&self, process: &Process, long: u64) {
        self.0.act(|machine| {
            machine.say(|| format!("FAULT {}: no server opens another session", process.id()));
            let until = machine.now + long;
            machine.full.insert(process.id().0, until);
        });
    }

    /// Whether no server opens another session for a process.
    pub fn gets_no_session(&self, process: &Process) -> bool {
        self.0.look(|machine| machine.gets_no_session(process.id().0))
    }

    /// Lets nothing through between a process and a server, to it and from it, or lets it through
    /// again. What was sent meanwhile then arrives, in order, where both ends still want it.
    pub fn block(&self, process: &Process, server: usize, to_server: bool, to_client: bool) {
        self.0.act(|machine| {
            let here = process.id().0;
            let mut opened = false;
            for (way, blocked) in [(true, to_server), (false, to_client)] {
                let key = (here, server, way);
                opened |= if blocked {
                    machine.blocked.insert(key);
                    false
                } else {
                    machine.blocked.remove(&key)
                };
            }
            machine.say(|| {
                format!("FAULT process {here}, server {server}: silent {to_server}/{to_client}")
            });
            if opened {
                let wires = machine.wires.iter();
                let concerned =
                    wires.filter(|(_, one)| one.process == here && one.server == server);
                for wire in concerned.map(|(id, _)| *id).collect::<Vec<_>>() {
                    machine.release(wire);
                }
            }
        });
    }

    /// Cuts a server from another one by silence, in one direction, or ends that.
    pub fn part(&self, from: usize, to: usize, silent: bool) {
        self.0.act(|machine| {
            machine.say(|| format!("FAULT servers {from} to {to}: silent {silent}"));
            machine.silence_peer(from, to, silent);
        });
    }

    // Servers.

    /// How many servers there are.
    pub fn size(&self) -> usize {
        self.0.look(|machine| machine.servers.len())
    }

    /// The server that leads, if one does. There may be an older one that does not know better.
    pub fn leader(&self) -> Option<usize> {
        self.0.look(Machine::leader)
    }

    /// Kills a server. Of what its disk had not confirmed, so many entries are lost.
    pub fn crash(&self, server: usize, lost: usize) {
        self.0.act(|machine| machine.crash(server, lost));
    }

    /// Starts a server again that was killed.
    pub fn restart(&self, server: usize) {
        self.0.act(|machine| machine.restart(server));
    }

    /// Stops a server where it is, or lets it go on.
    pub fn freeze(&self, server: usize, frozen: bool) {
        self.0.act(|machine| {
            machine.say(|| format!("FAULT server {server}: stands still {frozen}"));
            if frozen {
                machine.frozen.insert(server);
            } else if machine.frozen.remove(&server) {
                machine.thaw(server);
            }
        });
    }

    /// Makes a server differ: it shows an ephemeral node of a session that is long over.
    pub fn plant(&self, server: usize, path: &str) {
        self.0.act(|machine| machine.plant(server, path));
    }

    // Outsiders.

    /// Ends a session on the servers, as an administrator does.
    pub fn expire(&self, session: i64) {
        self.0.act(|machine| {
            machine.say(|| format!("FAULT session {session:x}: is ended from outside"));
            machine.outside(Author { session, ..Author::default() }, Write::CloseSession);
        });
    }

    /// Lets an outsider write something.
    pub fn outsider(&self, operation: Operation) {
        self.0.act(|machine| machine.happen(Event::Outside(operation)));
    }

    /// Makes a persistent node that is there before anybody looks.
    pub fn prepare(&self, path: &str) {
        self.prepare_for(path, Access::Open);
    }

    /// The same, with what others may do with it.
    pub fn prepare_for(&self, path: &str, access: Access) {
        let (path, data) = (path.to_owned(), Vec::new());
        let create = Operation::Create { path, data, kind: NodeKind::Persistent };
        self.0.act(|machine| machine.administer(access, create));
    }

    /// Makes `next` the number of the next sequential child on all servers.
    pub fn set_sequence(&self, path: &str, next: i32) {
        self.each(path, |node| node.cversion = next);
    }

    /// Changes who may do what with a node, on all servers.
    pub fn restrict(&self, path: &str, access: Access) {
        self.each(path, |node| node.access = access);
    }

    fn each(&self, path: &str, mut change: impl FnMut(&mut Node)) {
        self.0.act(|machine| {
            for server in &mut machine.servers {
                if let Some(node) = server.tree.node_mut(path) {
                    change(node);
                }
            }
        });
    }

    // What the servers know.

    /// The paths below this one, as the server knows that has seen most.
    pub fn nodes(&self, below: &str) -> Vec<String> {
        self.0.look(|machine| {
            let paths = machine.newest().tree.below(below);
            let paths = paths.filter(|(_, node)| node.owner != PLANTED);
            paths.map(|(path, _)| path.to_string()).collect()
        })
    }

    /// The lives of all nodes that were ever committed, in the order of their births.
    pub fn lives(&self) -> Vec<Life> {
        self.0.look(|machine| machine.journal.lives().to_vec())
    }

    /// How many messages were struck, answers swallowed and requests interfered with, and how many
    /// nodes are gone.
    pub fn tally(&self) -> Tally {
        self.0.look(|machine| Tally {
            strikes: machine.strikes,
            forgets: machine.forgets,
            lists: machine.lists,
            notices: machine.notices,
            meddles: machine.meddles,
            forbidden: machine.forbidden,
            swept: machine.swept,
            deaths: machine.journal.deaths(),
            until: machine.struck,
            asked_while_down: machine.asked_while_down,
            repeats: machine.repeated.found().is_some(),
        })
    }

    /// The containers below this path that were never used.
    pub fn unused(&self, below: &str) -> Vec<String> {
        self.0.look(|machine| {
            let empty = machine.newest().tree.empty_containers();
            let unused = empty.filter(|(path, node)| path.starts_with(below) && node.cversion == 0);
            unused.map(|(path, _)| path.to_string()).collect()
        })
    }

    /// Whether a session was asked for an ephemeral node while its connection was down.
    pub fn asked_while_down(&self) -> bool {
        self.0.look(|machine| machine.asked_while_down)
    }

    /// When the latest answered write of a session was asked for, or the session itself, in microseconds.
    pub fn proven(&self, session: i64) -> Option<u64> {
        self.0.look(|machine| {
            let clients = machine.clients.values().filter(|one| one.session == session);
            clients.map(|one| one.proven).max()
        })
    }

    /// Whether the client of a session has no connection.
    pub fn is_down(&self, session: i64) -> bool {
        self.0.look(|machine| {
            let mut clients = machine.clients.values().filter(|one| one.session == session);
            clients.any(|one| one.link() == Link::Down)
        })
    }

    /// Whether somebody has had a node below a path since then, apart from the one that a session of
    /// this process may have made meanwhile.
    pub fn contended(&self, below: &str, since: u64, process: &Process) -> bool {
        self.0.look(|machine| {
            let (mut mine, mut others) = (0, 0);
            for life in machine.journal.lives().iter().rev() {
                let there = life.gone.is_none_or(|(at, _)| at >= since);
                if life.owner == 0 || !there || !life.path.starts_with(below) {
                    continue;
                }
                let new = machine.is_of(life.owner, process) && life.born >= since;
                *if new { &mut mine } else { &mut others } += 1;
            }
            others > 0 || mine > 1
        })
    }

    /// Whether another process than this one has had a node below a path since then.
    pub fn used_elsewhere(&self, below: &str, since: u64, process: &Process) -> bool {
        self.0.look(|machine| {
            machine.journal.lives().iter().rev().any(|life| {
                let there = life.gone.is_none_or(|(at, _)| at >= since);
                let used = life.owner != 0 && there && life.path.starts_with(below);
                used && !machine.is_of(life.owner, process)
            })
        })
    }

    /// Whether a node that was made after another one was below a path between two moments.
    pub fn had_one(&self, below: &str, czxid: i64, since: u64, end: u64) -> bool {
        self.0.look(|machine| {
            machine.journal.lives().iter().rev().any(|life| {
                let there = life.born < end && life.gone.is_none_or(|(at, _)| at >= since);
                life.owner != 0 && there && life.czxid > czxid && life.path.starts_with(below)
            })
        })
    }

    /// The last life of a node, by its path, and by its czxid where that is known.
    pub fn life(&self, path: &str, czxid: Option<i64>) -> Option<Life> {
        self.0.look(|machine| {
            let mut lives = machine.journal.lives().iter().rev();
            let is_it =
                |life: &&Life| czxid.is_none_or(|czxid| life.czxid == czxid) && *life.path == *path;
            lives.find(is_it).cloned()
        })
    }

    /// Whether another process than this one has waited since then, in a node below a path whose name is that of a
    /// contender.
    pub fn waits_since(
        &self,
        below: &str,
        contends: fn(&str) -> bool,
        since: u64,
        process: &Process,
    ) -> bool {
        self.0.look(|machine| {
            let mut lives = machine.journal.lives().iter().rev();
            lives.any(|life| {
                let waits = life.gone.is_none() && life.owner != 0 && life.born <= since;
                let name = life.path.strip_prefix(below);
                waits
                    && name.is_some_and(|name| !name.contains('/') && contends(name))
                    && !machine.is_of(life.owner, process)
            })
        })
    }

    /// Whether a node below a path, with the name of a contender, was there when this one was made below it, and for so
    /// long beside it.
    pub fn had_to_wait(
        &self,
        below: &str,
        contends: fn(&str) -> bool,
        node: &Life,
        long: u64,
    ) -> bool {
        self.0.look(|machine| {
            let mut lives = machine.journal.lives().iter().rev();
            lives.any(|life| {
                let before = life.owner != 0 && life.czxid < node.czxid;
                let name = life.path.strip_prefix(below);
                before
                    && life.gone.is_some_and(|(at, _)| at > node.born + long)
                    && name.is_some_and(|name| !name.contains('/') && contends(name))
            })
        })
    }

    /// Whether an outsider who only interferes has overwritten a node since then.
    pub fn overwritten(&self, path: &str, since: u64) -> bool {
        self.0.look(|machine| machine.journal.overwritten(path).is_some_and(|at| at >= since))
    }

    /// Whether a node at this path has gone since then.
    pub fn has_gone(&self, path: &str, since: u64) -> bool {
        self.0.look(|machine| {
            let mut lives = machine.journal.lives().iter().rev().filter(|life| *life.path == *path);
            lives.any(|life| life.gone.is_some_and(|(at, _)| at >= since))
        })
    }

    /// When the end of a session was committed.
    pub fn ended(&self, session: i64) -> Option<u64> {
        self.0.look(|machine| machine.journal.ended(session))
    }

    /// How many watches the servers keep.
    pub fn watches(&self) -> usize {
        self.0.look(|machine| machine.servers.iter().map(|one| one.watches.count()).sum())
    }

    /// What clients wait to be told, by the paths of their watches.
    pub fn watched(&self) -> Vec<String> {
        self.0.look(|machine| {
            let watches = machine.clients.values().flat_map(|client| client.watches.values());
            watches.map(|watch| watch.path.to_string()).collect()
        })
    }

    /// How many clients there are, whose sessions may be over.
    pub fn clients(&self) -> usize {
        self.0.look(|machine| machine.clients.len())
    }
}

impl Machine {
    pub(super) fn leader(&self) -> Option<usize> {
        let leaders = self.servers.iter().enumerate();
        let leaders = leaders.filter(|(_, one)| one.up && matches!(one.role, Role::Leader(_)));
        leaders.max_by_key(|(_, one)| one.term).map(|(index, _)| index)
    }

    /// The server that has applied most.
    pub(super) fn newest(&self) -> &super::server::Server {
        let newest = self.servers.iter().max_by_key(|one| one.tree.zxid);
        newest.unwrap_or(&self.servers[0])
    }

    fn is_alive(&self, session: i64) -> bool {
        match self.leader().map(|at| &self.servers[at].role) {
            Some(Role::Leader(lead)) => lead.tracker.is_alive(session),
            _ => self.newest().tree.sessions.contains_key(&session),
        }
    }

    pub(super) fn wires_of(&self, session: i64) -> Vec<u64> {
        let clients = self.clients.values().filter(|one| one.session == session);
        clients.filter_map(|one| one.wire()).collect()
    }

    /// Something is written by nobody's connection.
    pub(super) fn outside(&mut self, author: Author, write: Write) {
        if let Some(leader) = self.leader() {
            if let (Write::CloseSession, Some(lead)) = (&write, self.servers[leader].lead()) {
                lead.tracker.set_closing(author.session);
            }
            self.write(leader, author, write, None);
        }
    }

    /// A server goes on: what happened to it meanwhile happens now.
    fn thaw(&mut self, server: usize) {
        let (mine, others) = std::mem::take(&mut self.frozen_events)
            .into_iter()
            .partition::<Vec<Event>, _>(|event| super::machine::acts(event) == Some(server));
        self.frozen_events = others;
        // At once: what is under way was sent later, and may arrive at this very moment.
        for event in mine {
            self.happen_now(event);
        }
        let wires: BTreeSet<u64> =
            self.wires.iter().filter(|(_, one)| one.server == server).map(|(id, _)| *id).collect();
        for wire in wires {
            self.release(wire);
        }
    }

    fn plant(&mut self, at: usize, path: &str) {
        self.say(|| format!("FAULT server {at}: shows {path}, which the others do not have"));
        let tree = &mut self.servers[at].tree;
        tree.plant(path);
        self.chosen.differs.insert(at);
    }
}
