//! The ensemble, its clients and the network between them, as one machine: it is told what happens,
//! and says what is to happen later. It has no time of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use super::chosen::Chosen;
use super::client::Client;
use super::frames::{ToClient, ToPeer, ToServer};
use super::journal::{Journal, OUTSIDER};
use super::known::Known;
use super::options::Options;
use super::prepare::{Author, Write};
use super::repeated::Repeated;
use super::server::Server;
use super::tracker::Tracker;
use super::txn::Access;
use crate::executor::World;
use crate::few::Few;
use zklock_core::coordinator::operation::Operation;

/// Who may do everything: nodes are restricted to this one.
const ADMINISTRATOR: u32 = 1;

/// What happens at a moment.
#[derive(Debug)]
pub(super) enum Event {
    ToServer(u64, ToServer),
    ToClient(u64, ToClient),
    ToPeer {
        from: usize,
        to: usize,
        term: u64,
        message: ToPeer,
    },
    /// A server has written its log up to here.
    Logged {
        server: usize,
        term: u64,
        zxid: i64,
    },
    /// A server does its next step.
    Step {
        server: usize,
        term: u64,
    },
    /// Half a tick of a server is over.
    Tick {
        server: usize,
        term: u64,
        since: u64,
        count: u64,
    },
    Reap {
        server: usize,
        term: u64,
    },
    Elect,
    /// An outsider writes something.
    Outside(Operation),
    /// Another program makes a node, and keeps it for so long.
    Take {
        path: String,
        lives: u64,
    },
    /// Another program ends its session.
    Leave(i64),
    /// A connection breaks. What goes to the server may arrive all the same.
    Cut {
        wire: u64,
        arrives: bool,
    },
    /// A silent connection is heard again.
    Hear(u64),
    /// It is time for a client to look.
    ClientTimer(u64),
}

/// One way of a connection, in order.
#[derive(Debug)]
pub(super) struct Way<T> {
    pub(super) last: u64,
    /// What could not get through, oldest first.
    pub(super) held: VecDeque<T>,
    /// Whether nothing gets through on this way, whatever else does.
    pub(super) silent: bool,
    /// Whether what is under way is lost.
    pub(super) broken: bool,
}

impl<T> Default for Way<T> {
    fn default() -> Self {
        Way { last: 0, held: VecDeque::new(), silent: false, broken: false }
    }
}

/// The connection of a client with a server.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) client: u64,
    pub(super) process: u32,
    pub(super) server: usize,
    pub(super) to_server: Way<ToServer>,
    pub(super) to_client: Way<ToClient>,
    /// The request whose answer is swallowed.
    pub(super) swallowed: Option<u64>,
    /// The request behind whose answer it breaks.
    pub(super) last_answered: Option<u64>,
    /// When ephemeral nodes were asked for since the last answer.
    pub(super) unanswered: Vec<(u64, String)>,
    /// The last request for one of these.
    pub(super) noted: u64,
    /// When it was heard again after a silence.
    pub(super) heard_at: u64,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) world: Arc<World>,
    pub(super) options: Options,
    pub(super) now: u64,
    pub(super) servers: Vec<Server>,
    pub(super) peers: BTreeMap<(usize, usize), Way<(u64, ToPeer)>>,
    pub(super) wires: Few<Wire>,
    /// Boxed: whoever drives one takes it out, and puts it back.
    pub(super) clients: Few<Box<Client>>,
    /// The ways between processes and servers on which nothing gets through; `true` is the way to
    /// the server.
    pub(super) blocked: BTreeSet<(u32, usize, bool)>,
    /// Until when no server opens another session for a process.
    pub(super) full: BTreeMap<u32, u64>,
    /// The servers that stand still.
    pub(super) frozen: BTreeSet<usize>,
    pub(super) frozen_events: Vec<Event>,
    pub(super) journal: Journal,
    /// Which process opened a session.
    pub(super) opened_by: BTreeMap<i64, u32>,
    pub(super) term: u64,
    pub(super) electing: bool,
    pub(super) next: u64,
    pub(super) later: Vec<(u64, Event)>,
    pub(super) wake: Vec<Waker>,
    pub(super) requests: u64,
    pub(super) strikes: u64,
    /// The answers that were swallowed, among them, and what outsiders did to requests.
    pub(super) forgets: u64,
    pub(super) lists: u64,
    /// The notifications that were swallowed.
    pub(super) notices: u64,
    pub(super) meddles: u64,
    /// The reads that were refused for a moment.
    pub(super) forbidden: u64,
    /// The directories that an outsider deleted because they were empty.
    pub(super) swept: u64,
    /// The processes that are to stand still from now on.
    pub(super) stalled: Vec<u32>,
    /// Whether an ephemeral node was asked for while the connection was down.
    pub(super) asked_while_down: bool,
    /// What was asked for again and again.
    pub(super) repeated: Repeated,
    /// Which connection was chosen of several, and which server.
    pub(super) chosen: Chosen,
    /// What servers and clients know of each other.
    pub(super) known: Known,
    /// Until when a strike lasts.
    pub(super) struck: u64,
}

impl Machine {
    pub(super) fn new(world: Arc<World>, options: Options) -> Self {
        let servers = (0..options.servers).map(Server::new).collect();
        let mut machine = Machine {
            now: world.now(),
            world,
            options,
            servers,
            peers: BTreeMap::new(),
            wires: Few::default(),
            clients: Few::default(),
            blocked: BTreeSet::new(),
            full: BTreeMap::new(),
            frozen: BTreeSet::new(),
            frozen_events: Vec::new(),
            journal: Journal::default(),
            opened_by: BTreeMap::new(),
            term: 0,
            electing: false,
            next: 1,
            later: Vec::new(),
            wake: Vec::new(),
            requests: 0,
            strikes: 0,
            forgets: 0,
            lists: 0,
            notices: 0,
            meddles: 0,
            forbidden: 0,
            swept: 0,
            stalled: Vec::new(),
            asked_while_down: false,
            repeated: Repeated::default(),
            chosen: Chosen::default(),
            known: Known::default(),
            struck: 0,
        };
        machine.elect();
        machine
    }

    /// A number that was not used before.
    pub(super) fn unique(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn after(&mut self, delay: u64, event: Event) {
        self.later.push((self.now + delay, event));
    }

    pub(super) fn say(&self, line: impl FnOnce() -> String) {
        self.world.say(line);
    }

    /// How long a message takes.
    pub(super) fn latency(&self) -> u64 {
        let weather = &self.options.weather;
        let mut takes = weather.latency;
        if weather.steps > 0 {
            takes += u64::from(self.world.choose(weather.steps + 1)) * weather.step;
        }
        if weather.slow > 0 {
            takes += u64::from(self.world.seldom(4, weather.slow)) * 100 * weather.step;
        }
        takes
    }

    /// A delay of at most so many steps.
    pub(super) fn delay(&self, most: u32) -> u64 {
        if most == 0 {
            return 0;
        }
        u64::from(self.world.choose(most + 1)) * self.options.weather.step
    }

    /// Lets something happen.
    pub(super) fn happen(&mut self, event: Event) {
        let Some(event) = self.unless_silent(event) else { return };
        if acts(&event).is_some_and(|server| self.frozen.contains(&server)) {
            self.frozen_events.push(event);
            return;
        }
        self.happen_now(event);
    }

    /// Lets something happen that has arrived.
    pub(super) fn happen_now(&mut self, event: Event) {
        match event {
            Event::ToServer(wire, frame) => self.arrive_at_server(wire, frame),
            Event::ToClient(wire, frame) => self.arrive_at_client(wire, frame),
            Event::ToPeer { from, to, term, message } => {
                self.arrive_at_peer(from, to, term, message);
            }
            Event::Logged { server, term, zxid } => self.logged(server, term, zxid),
            Event::Step { server, term } => self.step(server, term),
            Event::Tick { server, term, since, count } => self.tick(server, term, since, count),
            Event::Reap { server, term } => self.reap(server, term),
            Event::Elect => {
                self.electing = false;
                self.elect();
            }
            Event::Outside(operation) => {
                self.say(|| format!("FAULT an outsider: {operation:?}"));
                self.administer(Access::Open, operation);
            }
            Event::Take { path, lives } => self.occupy(path, lives),
            Event::Leave(session) => {
                self.outside(Author { session, ..Author::default() }, Write::CloseSession);
            }
            Event::Cut { wire, arrives } => self.cut(wire, arrives),
            Event::Hear(wire) => self.hear(wire),
            Event::ClientTimer(client) => self.client_timer(client),
        }
    }

    /// An administrator writes something: what is not for the clients to change is for those who made it so.
    pub(super) fn administer(&mut self, access: Access, operation: Operation) {
        let credentials = Some(ADMINISTRATOR);
        let author = Author { session: OUTSIDER, credentials, access };
        self.outside(author, Write::One(operation));
    }

    pub(super) fn new_tracker(&self) -> Tracker {
        // The servers' clocks begin anywhere.
        let phase = u64::from(self.world.choose(4)) * self.options.tick / 4;
        Tracker::new(self.options.tick, phase)
    }
}

/// The server that acts in an event of its own.
pub(super) fn acts(event: &Event) -> Option<usize> {
    match event {
        Event::Logged { server, .. }
        | Event::Step { server, .. }
        | Event::Tick { server, .. }
        | Event::Reap { server, .. } => Some(*server),
        Event::ToPeer { to, .. } => Some(*to),
        _ => None,
    }
}
