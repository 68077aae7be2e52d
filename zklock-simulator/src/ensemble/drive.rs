//! What a client does when its task runs.

use zklock_core::coordinator::request_error::RequestError;

use super::client::{Asked, Client, Phase, State, WatchKind};
use super::frames::ToServer;
use super::machine::{Event, Machine};
use super::watches::Aspect;

impl Machine {
    pub(super) fn wake_client(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id) {
            self.wake.extend(client.waker.take());
        }
    }

    pub(super) fn client_timer(&mut self, id: u64) {
        let now = self.now;
        if let Some(client) = self.clients.get_mut(&id) {
            client.timer = client.timer.filter(|at| *at > now);
        }
        self.wake_client(id);
    }

    /// Runs a client until it has nothing to do. False where it is over for good.
    pub(super) fn drive(&mut self, id: u64) -> bool {
        let Some(mut client) = self.clients.remove(&id) else { return false };
        while let Some((wire, frame)) = client.inbox.pop_front() {
            if client.wire() == Some(wire) {
                self.take_frame(id, &mut client, wire, frame);
            }
        }
        if client.due().is_some_and(|at| at <= self.now) {
            self.on_time(id, &mut client);
        }
        if let Phase::Serving { wire, .. } = client.phase {
            let speaks = std::mem::take(&mut client.speaks);
            if !speaks.is_empty() {
                self.say_something(&mut client, wire, speaks);
            }
            self.flush(&mut client, wire);
        }
        if let Some(at) = client.due()
            && client.timer.is_none_or(|timer| timer > at)
        {
            client.timer = Some(at);
            self.later.push((at, Event::ClientTimer(id)));
        }
        let over = client.phase == Phase::Over;
        if !(over && client.handles == 0) {
            self.clients.insert(id, client);
        }
        !over
    }

    /// Begins to look for a server.
    pub(super) fn start(&mut self, id: u64, client: &mut Client) {
        client.start_server = client.next_server;
        let long = if client.session == 0 { client.timing.session } else { client.timing.expires };
        client.deadline = client.last_receive + long;
        self.start_once(id, client);
    }

    pub(super) fn start_once(&mut self, id: u64, client: &mut Client) {
        let count = client.servers.len();
        let index = client.next_server - client.start_server;
        if count == 0 || index >= count && !client.cycles {
            return self.finish(client, State::Closed, &no_hosts());
        }
        client.next_server += 1;
        client.target = client.servers[index % count];
        let rest = self.rest(index, count).min(client.deadline.saturating_sub(self.now));
        if rest > 0 {
            client.phase = Phase::Resting { until: self.now + rest };
        } else {
            self.dial_target(id, client);
        }
    }

    /// How long the client rests before it tries a server again.
    fn rest(&self, index: usize, count: usize) -> u64 {
        let (offset, cycles) = (index % count, index / count);
        let jitter = |most: u64| u64::from(self.world.choose(4)) * most / 4;
        match (cycles, offset) {
            (0, _) => 0,
            (_, 0) => {
                let base = (100_000 * count as u64).min(1_000_000);
                let factor = 1_u64 << (cycles - 1).min(20);
                base * factor + jitter(100_000)
            }
            _ => 50_000 * offset as u64 + jitter(50_000),
        }
    }

    fn dial_target(&mut self, id: u64, client: &mut Client) {
        let wire = self.dial(id, client.process, client.target);
        let until = (self.now + client.timing.silence).min(client.deadline.max(self.now));
        client.phase = Phase::Dialing { wire, until };
    }

    fn on_time(&mut self, id: u64, client: &mut Client) {
        match client.phase {
            Phase::Resting { .. } => self.dial_target(id, client),
            Phase::Dialing { wire, .. } => {
                self.hang_up(wire);
                self.failed(id, client);
            }
            Phase::Shaking { wire, .. } => {
                self.hang_up(wire);
                self.start_once(id, client);
            }
            Phase::Serving { wire, .. } => {
                if self.now >= client.last_receive + client.timing.silence {
                    let silence = client.timing.silence / 1_000;
                    let why = format!("no response from connection in {silence}ms");
                    self.lost(id, client, &RequestError::Other(why));
                } else if !client.pinged {
                    self.ping(client, wire);
                }
            }
            Phase::Over => {}
        }
    }

    /// No connection came about.
    pub(super) fn failed(&mut self, id: u64, client: &mut Client) {
        if self.now >= client.deadline {
            self.finish(client, State::Expired, &RequestError::Other("Timeout".to_owned()));
        } else {
            self.start_once(id, client);
        }
    }

    /// The connection is gone. The session may be there.
    pub(super) fn lost(&mut self, id: u64, client: &mut Client, error: &RequestError) {
        if let Some(wire) = client.wire() {
            self.hang_up(wire);
        }
        client.set_state(State::Disconnected, &mut self.wake);
        if !client.sent.is_empty() {
            self.note_missing(client.process.0);
        }
        client.fail_sent(error, &mut self.wake);
        client.closing = None;
        self.start(id, client);
    }

    /// The client is over.
    pub(super) fn finish(&mut self, client: &mut Client, state: State, error: &RequestError) {
        if let Some(wire) = client.wire() {
            self.hang_up(wire);
        }
        client.phase = Phase::Over;
        client.opened.get_or_insert(Err(error.clone()));
        client.set_state(state, &mut self.wake);
        _ = client.end.set(client.link());
        let error = match state {
            State::Expired => RequestError::SessionExpired,
            _ => RequestError::Closed,
        };
        client.fail_sent(&error, &mut self.wake);
        for xid in std::mem::take(&mut client.speaks) {
            client.answer(xid, Err(error.clone()), &mut self.wake);
        }
        for asked in std::mem::take(&mut client.queue) {
            if let Asked::Request(xid, _) = asked {
                client.answer(xid, Err(error.clone()), &mut self.wake);
            }
        }
        client.queue.clear();
        client.tell_watchers(&mut self.wake);
    }

    pub(super) fn ping(&mut self, client: &mut Client, wire: u64) {
        client.pinged = true;
        self.say_something(client, wire, Vec::new());
    }

    /// Sends something for those who asked for that.
    fn say_something(&mut self, client: &mut Client, wire: u64, speaks: Vec<u64>) {
        client.last_send = self.now;
        client.said.push_back(speaks);
        self.send_to_server(wire, ToServer::Ping);
    }

    /// The client shuffles its list of servers.
    pub(super) fn shuffle(&self, servers: &mut [usize]) {
        let distinct = servers.iter().any(|one| *one != servers[0]);
        for at in (1..servers.len()).rev().filter(|_| distinct) {
            // 0 leaves it where it is.
            servers.swap(at, at - self.world.choose(at as u32 + 1) as usize);
        }
    }

    /// Sends what was asked for.
    fn flush(&mut self, client: &mut Client, wire: u64) {
        while let Some(asked) = client.queue.pop_front() {
            match asked {
                Asked::Request(xid, request) => {
                    client.sent.push(xid);
                    client.last_send = self.now;
                    self.send_request(wire, ToServer::Request(xid, request));
                }
                Asked::Unwatch(watch) => self.unwatch(client, wire, watch),
            }
        }
        if client.handles == 0 && client.closing.is_none() {
            let xid = self.unique();
            client.closing = Some(xid);
            client.sent.push(xid);
            client.last_send = self.now;
            self.send_to_server(wire, ToServer::Close(xid));
        }
    }

    fn unwatch(&mut self, client: &mut Client, wire: u64, watch: u64) {
        let Some(gone) = client.watches.remove(&watch) else { return };
        if gone.event.is_some() {
            return;
        }
        let mut there = client
            .watches
            .values()
            .filter(|other| other.path == gone.path && other.event.is_none())
            .peekable();
        let alone = there.peek().is_none();
        let shared = there.any(|other| other.kind == gone.kind);
        let asked = client.sent.iter().filter_map(|xid| client.slots.get(xid)?.watches.as_ref());
        // One that is under way would be taken back, too.
        if shared || asked.into_iter().any(|(_, path)| *path == gone.path) {
            return;
        }
        let aspect = (!alone).then_some(match gone.kind {
            WatchKind::Data => Aspect::Data,
            WatchKind::Children => Aspect::Children,
        });
        let xid = self.unique();
        client.sent.push(xid);
        client.last_send = self.now;
        self.send_to_server(wire, ToServer::RemoveWatches(xid, gone.path, aspect));
    }

    /// The process of a client is gone; its sockets are closed.
    pub(super) fn bury_client(&mut self, id: u64) {
        let Some(client) = self.clients.remove(&id) else { return };
        if let Some(wire) = client.wire() {
            self.hang_up(wire);
        }
        // Its task has nothing to do any more.
        self.wake.extend(client.waker);
    }
}

/// What the client says when none of its servers let it in.
pub(super) fn no_hosts() -> RequestError {
    RequestError::Other("no hosts".to_owned())
}
