//! The network: one order in each direction of a connection, and what breaks it.

use super::frames::{ToClient, ToPeer, ToServer};
use super::machine::{Event, Machine, Way, Wire};
use crate::executor::ProcessId;
use zklock_core::coordinator::memory::shared::Request;

/// What strikes a request.
const STRIKES: u32 = 5;

/// The strike that swallows its answer alone.
const SWALLOWED: u32 = 3;

impl<T> Way<T> {
    /// When the next message arrives that is sent now and takes so long.
    fn schedule(&mut self, now: u64, takes: u64) -> u64 {
        self.last = self.last.max(now + takes);
        self.last
    }
}

impl Machine {
    /// Opens a connection.
    pub(super) fn dial(&mut self, client: u64, process: ProcessId, server: usize) -> u64 {
        let id = self.unique();
        let wire = Wire {
            client,
            process: process.0,
            server,
            to_server: Way::default(),
            to_client: Way::default(),
            swallowed: None,
            last_answered: None,
            unanswered: Vec::new(),
            noted: 0,
            heard_at: 0,
        };
        self.wires.insert(id, wire);
        self.send_to_server(id, ToServer::Dial);
        id
    }

    pub(super) fn send_to_server(&mut self, id: u64, frame: ToServer) {
        let takes = self.latency();
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let at = wire.to_server.schedule(now, takes);
        self.later.push((at, Event::ToServer(id, frame)));
    }

    pub(super) fn send_to_client(&mut self, id: u64, frame: ToClient) {
        if let ToClient::Notice(_, path) = &frame
            && self.options.weather.swallowed > 0
            && self.world.seldom(2, self.options.weather.swallowed) == 1
        {
            self.strikes += 1;
            self.notices += 1;
            self.note_unheard(id, path);
            self.say(|| format!("FAULT connection {id}: {frame:?} is swallowed"));
            return;
        }
        let takes = self.latency();
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if let ToClient::Reply { xid, .. } = &frame
            && wire.swallowed == Some(*xid)
        {
            wire.swallowed = None;
            return;
        }
        let at = wire.to_client.schedule(now, takes);
        self.later.push((at, Event::ToClient(id, frame)));
    }

    pub(super) fn arrive_at_server(&mut self, id: u64, frame: ToServer) {
        self.note_choice(id, &frame);
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if wire.to_server.broken {
            return;
        }
        let server = wire.server;
        let blocked = self.blocked.contains(&(wire.process, server, true));
        if blocked || wire.to_server.silent || self.frozen.contains(&server) {
            wire.to_server.held.push_back(frame);
            return;
        }
        self.serve(server, id, frame);
    }

    pub(super) fn arrive_at_client(&mut self, id: u64, frame: ToClient) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if wire.to_client.broken {
            return;
        }
        if self.blocked.contains(&(wire.process, wire.server, false)) || wire.to_client.silent {
            wire.to_client.held.push_back(frame);
            return;
        }
        let client = wire.client;
        if let ToClient::Reply { .. } = frame {
            wire.unanswered.clear();
        }
        let is_last =
            matches!(&frame, ToClient::Reply { xid, .. } if wire.last_answered == Some(*xid));
        self.say(|| format!("connection {id}: {frame:?}"));
        if let Some(client) = self.clients.get_mut(&client) {
            client.inbox.push_back((id, frame));
        }
        self.wake_client(client);
        // The client is told both before anybody who waits for the answer runs.
        if is_last && self.options.weather.last > 0 {
            self.strikes += 1;
            self.say(|| format!("FAULT connection {id}: this answer is the last"));
            self.cut(id, false);
        }
    }

    /// The client gives a connection up. What it sent before may still arrive.
    pub(super) fn hang_up(&mut self, id: u64) {
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.to_client.broken = true;
            self.send_to_server(id, ToServer::End);
        }
    }

    /// Both ends see that the connection is broken. What is under way is lost, or what goes to the
    /// server arrives after all.
    pub(super) fn cut(&mut self, id: u64, arrives: bool) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if wire.to_client.broken {
            return;
        }
        wire.to_client.broken = true;
        wire.to_server.broken = !arrives;
        let (client, server) = (wire.client, wire.server);
        let how = if self.world.choose(2) == 0 { ToClient::End } else { ToClient::Reset };
        self.say(|| format!("connection {id} breaks"));
        if let Some(client) = self.clients.get_mut(&client) {
            client.inbox.push_back((id, how));
        }
        self.wake_client(client);
        if arrives {
            self.send_to_server(id, ToServer::End);
        } else {
            self.forget_connection(server, id);
            self.wires.remove(&id);
        }
    }

    /// Sends a request, which may be struck.
    pub(super) fn send_request(&mut self, id: u64, frame: ToServer) {
        self.requests += 1;
        self.repeated.note(id, &frame, self.now);
        match &frame {
            ToServer::Request(xid, Request::Children { path, .. }) => {
                self.asks_for_list(id, *xid, path);
            }
            ToServer::Request(xid, Request::Get { path, .. }) => {
                self.asks_for_node(id, *xid, path);
            }
            _ => {}
        }
        self.meddle(&frame);
        self.retake(&frame);
        self.sweep(&frame);
        let stalls = self.options.weather.stalls;
        if stalls > 0 && self.world.seldom(2, stalls) == 1 {
            self.stalled.extend(self.wires.get(&id).map(|wire| wire.process));
        }
        let mut strike = self.strike();
        let forgets = self.options.weather.forgets;
        if strike == 0 && forgets > 0 && self.world.seldom(2, forgets) == 1 {
            strike = SWALLOWED;
            self.forgets += 1;
        }
        let unread = self.options.weather.unread;
        let lists = matches!(frame, ToServer::Request(_, Request::Children { .. }));
        if strike == 0 && unread > 0 && lists && self.world.seldom(2, unread) == 1 {
            strike = SWALLOWED;
            (self.forgets, self.lists) = (self.forgets + 1, self.lists + 1);
        }
        if strike == 0 {
            self.say(|| format!("connection {id}: {frame:?}"));
            let last = self.options.weather.last;
            if last > 0
                && self.world.seldom(2, last) == 1
                && let (Some(wire), ToServer::Request(xid, _)) = (self.wires.get_mut(&id), &frame)
            {
                wire.last_answered = Some(*xid);
            }
            return self.send_to_server(id, frame);
        }
        self.strikes += 1;
        self.say(|| {
            let how = [
                "",
                "is lost, and the connection breaks",
                "arrives, its answer is lost, and the connection breaks",
                "arrives, and its answer is swallowed",
                "arrives late, after the connection broke",
                "meets a silent network",
            ];
            format!("FAULT connection {id}: {frame:?} {}", how[strike as usize])
        });
        let takes = self.latency();
        match strike {
            1 => self.after(takes, Event::Cut { wire: id, arrives: false }),
            2 => {
                self.send_to_server(id, frame);
                let at = self.wires.get(&id).map_or(self.now, |wire| wire.to_server.last);
                self.later.push((at, Event::Cut { wire: id, arrives: false }));
            }
            SWALLOWED => {
                if let (Some(wire), ToServer::Request(xid, _)) = (self.wires.get_mut(&id), &frame) {
                    wire.swallowed = Some(*xid);
                }
                if !lists {
                    self.note_swallowed(id);
                }
                self.send_to_server(id, frame);
            }
            4 => {
                let late = self.units();
                self.struck = self.struck.max(self.now + late);
                if let Some(wire) = self.wires.get_mut(&id) {
                    wire.to_server.last = self.now + late;
                }
                self.send_to_server(id, frame);
                self.after(0, Event::Cut { wire: id, arrives: true });
            }
            _ => {
                let long = self.units();
                self.struck = self.struck.max(self.now + long);
                if let Some(wire) = self.wires.get_mut(&id) {
                    wire.to_server.silent = true;
                    wire.to_client.silent = true;
                }
                self.send_to_server(id, frame);
                self.after(long, Event::Hear(id));
            }
        }
    }

    fn strike(&mut self) -> u32 {
        match &mut self.options.weather.budget {
            Some(0) => 0,
            Some(left) => {
                let strike = self.world.choose(STRIKES + 1);
                *left -= u32::from(strike > 0);
                strike
            }
            None if self.options.weather.strikes == 0 => 0,
            None => self.world.seldom(STRIKES + 1, self.options.weather.strikes),
        }
    }

    /// From half a unit to sixteen.
    fn units(&self) -> u64 {
        let unit = self.options.weather.unit.unwrap_or(self.options.tick);
        unit / 2 * (1 + u64::from(self.world.choose(32)))
    }

    /// A silent connection is heard again.
    pub(super) fn hear(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        wire.to_server.silent = false;
        wire.to_client.silent = false;
        wire.heard_at = self.now;
        self.release(id);
    }

    /// Sends on what was held on a connection.
    pub(super) fn release(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let (up, down) =
            (std::mem::take(&mut wire.to_server.held), std::mem::take(&mut wire.to_client.held));
        // At once: what is under way was sent later, and may arrive at this very moment.
        for frame in up {
            self.happen(Event::ToServer(id, frame));
        }
        for frame in down {
            self.happen(Event::ToClient(id, frame));
        }
    }

    pub(super) fn send_to_peer(&mut self, from: usize, to: usize, message: ToPeer) {
        let takes = self.latency();
        let (now, term) = (self.now, self.servers[from].term);
        let way = self.peers.entry((from, to)).or_default();
        let at = way.schedule(now, takes);
        self.later.push((at, Event::ToPeer { from, to, term, message }));
    }

    /// Holds what another server sends while it is not heard. That comes first: what is held arrives before
    /// what is sent later, also where the other one stands still meanwhile.
    pub(super) fn unless_silent(&mut self, event: Event) -> Option<Event> {
        let Event::ToPeer { from, to, term, message } = event else { return Some(event) };
        let way = self.peers.entry((from, to)).or_default();
        if way.silent {
            way.held.push_back((term, message));
            return None;
        }
        Some(Event::ToPeer { from, to, term, message })
    }

    pub(super) fn arrive_at_peer(&mut self, from: usize, to: usize, term: u64, message: ToPeer) {
        if self.servers[to].term == term && self.servers[to].up {
            self.hear_peer(from, to, message);
        }
    }

    /// Whether two servers hear each other.
    pub(super) fn in_touch(&self, one: usize, other: usize) -> bool {
        let silent = |pair| self.peers.get(&pair).is_some_and(|way| way.silent);
        let frozen = self.frozen.contains(&one) || self.frozen.contains(&other);
        one == other || !frozen && !silent((one, other)) && !silent((other, one))
    }

    /// Lets nothing through from one server to another, or lets it through again.
    pub(super) fn silence_peer(&mut self, from: usize, to: usize, silent: bool) {
        let way = self.peers.entry((from, to)).or_default();
        way.silent = silent;
        if silent {
            return;
        }
        let held = std::mem::take(&mut way.held);
        for (term, message) in held {
            self.happen(Event::ToPeer { from, to, term, message });
        }
    }
}
