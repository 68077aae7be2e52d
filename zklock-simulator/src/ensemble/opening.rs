//! How a client begins: a look at the servers, and what the library sets up for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use zklock_core::base::times;

use super::client::{Client, Phase, State, Timing};
use super::connector::{Connecting, micros};
use super::machine::Machine;
use crate::executor::Process;
use crate::few::Few;

/// What a look at a server shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Answers,
    Silent,
    Fails,
}

/// How often a single server is named to the client.
fn repetitions(session_timeout: u64) -> usize {
    let steps = usize::try_from(session_timeout / 25_000).unwrap_or(usize::MAX);
    (steps.isqrt() + 2).min(50)
}

impl Machine {
    /// Looks at the servers: whom to send the client to, and how long the look takes.
    pub(super) fn probe(
        &mut self,
        process: &Process,
        connecting: &Connecting,
        look: u64,
    ) -> (Vec<usize>, u64) {
        let known = match connecting.servers.is_empty() {
            true => (0..self.servers.len()).collect(),
            false => connecting.servers.clone(),
        };
        let here = process.id().0;
        let seen: Vec<Seen> = known
            .iter()
            .map(|at| {
                let silent = |way| self.blocked.contains(&(here, *at, way));
                if silent(true) || silent(false) || self.frozen.contains(at) {
                    Seen::Silent
                } else if self.servers[*at].serves() {
                    Seen::Answers
                } else {
                    Seen::Fails
                }
            })
            .collect();
        let answers = seen.contains(&Seen::Answers);
        let takes = match (seen.contains(&Seen::Silent), answers) {
            (false, _) => self.latency() * 2,
            (true, true) => look / 4,
            (true, false) => look,
        };
        let fits =
            |seen: &Seen| if answers { *seen != Seen::Silent } else { *seen == Seen::Silent };
        let candidates = known.iter().zip(&seen).filter(|(_, seen)| fits(seen));
        (candidates.map(|(at, _)| *at).collect(), takes)
    }

    /// A client that begins to open a session.
    pub(super) fn open(
        &mut self,
        process: &Process,
        connecting: &Connecting,
        candidates: Vec<usize>,
    ) -> u64 {
        let timeout = micros(connecting.session_timeout);
        let several = candidates.len() > 1;
        let configured = micros(times::leave(connecting.session_timeout, several));
        let mut servers =
            if several { candidates } else { candidates.repeat(repetitions(timeout)) };
        self.shuffle(&mut servers);
        let id = self.unique();
        let mut client = Client {
            process: process.id(),
            label: connecting.label,
            servers,
            next_server: 0,
            start_server: 0,
            target: 0,
            cycles: !several,
            configured,
            timing: Timing::new(timeout, configured),
            credentials: connecting.credentials,
            access: connecting.access,
            session: 0,
            state: State::Disconnected,
            phase: Phase::Over,
            deadline: 0,
            seen: 0,
            opened_at: self.now,
            last_receive: self.now,
            last_send: self.now,
            proven: self.now,
            pinged: false,
            speaks: Vec::new(),
            said: VecDeque::new(),
            timer: None,
            inbox: VecDeque::new(),
            queue: VecDeque::new(),
            slots: Few::default(),
            sent: Vec::new(),
            watches: BTreeMap::new(),
            watches_set: false,
            handles: 1,
            closing: None,
            over: None,
            end: Arc::default(),
            changes: 0,
            waker: None,
            watchers: BTreeMap::new(),
            opened: None,
        };
        self.start(id, &mut client);
        self.clients.insert(id, Box::new(client));
        id
    }

    /// The task of a client has ended, or its process has.
    pub(super) fn driver_is_gone(&mut self, id: u64) {
        let over = self.clients.get(&id).is_none_or(|client| client.phase == Phase::Over);
        if !over {
            self.bury_client(id);
        }
    }
}
