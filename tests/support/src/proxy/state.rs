//! What all threads of a proxy share.

use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};

use super::connection::Connection;
use super::frame::Frame;
use super::rule::{Action, Entry};
use crate::raw_client::SessionKey;
use crate::wire::OpCode;

/// The log forgets its oldest frames beyond this many, so that a benchmark can run through it.
const LOG_LIMIT: usize = 200_000;

/// How the proxy reads the stream.
#[derive(Clone, Debug)]
pub(crate) enum Framing {
    /// As ZooKeeper's client protocol.
    Client,
    /// As bytes.
    Raw,
    /// As bytes behind the first message of ZooKeeper's election protocol, in which the sender
    /// says where it can be reached: this address is put there instead.
    Election(SocketAddr),
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) framing: Framing,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) upstream: SocketAddr,
    pub(super) black_hole: [bool; 2],
    pub(super) delay: [Duration; 2],
    pub(super) refuse: bool,
    pub(super) closed: bool,
    /// The listening socket, for waking the thread that accepts on it.
    pub(super) listener: Option<TcpListener>,
    pub(super) connections: Vec<Weak<Connection>>,
    pub(super) accepted: u64,
    pub(super) sessions: Vec<SessionKey>,
    pub(super) requests: BTreeMap<OpCode, u64>,
    pub(super) watch_events: u64,
    pub(super) bytes: [u64; 2],
    pub(super) log: VecDeque<Frame>,
    rules: Vec<Entry>,
    old_hits: BTreeMap<u64, u64>,
    next_rule: u64,
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr, framing: Framing) -> Arc<Self> {
        let state = State {
            upstream,
            black_hole: [false; 2],
            delay: [Duration::ZERO; 2],
            refuse: false,
            closed: false,
            listener: None,
            connections: Vec::new(),
            accepted: 0,
            sessions: Vec::new(),
            requests: BTreeMap::new(),
            watch_events: 0,
            bytes: [0; 2],
            log: VecDeque::new(),
            rules: Vec::new(),
            old_hits: BTreeMap::new(),
            next_rule: 0,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), framing })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes whoever waits for a change.
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `check` returns something; `None` once the deadline has passed.
    pub(super) fn wait_until<R>(
        &self,
        deadline: Option<Instant>,
        mut check: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let mut state = self.lock();
        loop {
            if let Some(result) = check(&mut state) {
                return Some(result);
            }
            let left = match deadline {
                None => Duration::from_secs(3600),
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            };
            if left.is_zero() {
                return None;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    pub(super) fn live(&self) -> Vec<Arc<Connection>> {
        let live = self.connections.iter().filter_map(Weak::upgrade);
        live.filter(|connection| !connection.is_cut()).collect()
    }

    /// Makes the thread that accepts stop listening.
    pub(super) fn stop_listening(&mut self) {
        if let Some(listener) = self.listener.take() {
            // On Linux this ends listening at once, and a blocked `accept` with it.
            _ = shutdown(&listener, Shutdown::Both);
        }
    }

    pub(super) fn add_rule(&mut self, make: impl FnOnce(u64) -> Entry) -> u64 {
        self.next_rule += 1;
        self.rules.push(make(self.next_rule));
        self.next_rule
    }

    pub(super) fn remove_rule(&mut self, id: u64) {
        if let Some(index) = self.rules.iter().position(|rule| rule.id == id) {
            let rule = self.rules.remove(index);
            self.old_hits.insert(id, rule.hits);
        }
    }

    pub(super) fn has_rule(&self, id: u64) -> bool {
        self.rules.iter().any(|rule| rule.id == id)
    }

    pub(super) fn remove_all_rules(&mut self) {
        for rule in self.rules.drain(..) {
            self.old_hits.insert(rule.id, rule.hits);
        }
    }

    pub(super) fn hits(&self, id: u64) -> u64 {
        let live = self.rules.iter().find(|rule| rule.id == id).map(|rule| rule.hits);
        live.or_else(|| self.old_hits.get(&id).copied()).unwrap_or_default()
    }

    /// Finds the first rule that applies and writes the frame to the log.
    pub(super) fn judge(&mut self, mut frame: Frame) -> (Action, u64) {
        let rule = self.rules.iter_mut().find_map(|rule| {
            let due = rule.applies(&frame);
            due.then_some((rule.action, rule.id, rule.refuses))
        });
        if rule.is_some_and(|(_, _, refuses)| refuses) {
            self.refuse = true;
            self.stop_listening();
        }
        frame.action = rule.map(|(action, ..)| action);
        if self.log.len() == LOG_LIMIT {
            self.log.pop_front();
        }
        self.log.push_back(frame);
        rule.map_or((Action::Pass, 0), |(action, id, _)| (action, id))
    }

    pub(super) fn learn_session(&mut self, key: SessionKey) {
        self.sessions.retain(|known| known.id != key.id);
        self.sessions.push(key);
    }
}
