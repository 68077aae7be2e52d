//! The handles that break things, for tests.

use std::sync::Arc;
use std::time::Duration;

use super::coordinator::Embedded;
use super::fault::{Fault, Logged};
use super::session::Hold;
use super::state::State;
use super::store::Store;
use crate::clock::Instant;
use crate::coordinator::RequestError;

/// Breaks one session of an [`Embedded`] store. Everything takes effect at once, on the clock of
/// the caller; on a session that is over nothing does.
#[derive(Clone, Debug)]
pub struct Faults {
    store: Arc<Store>,
    session: i64,
}

impl Embedded {
    /// Returns the handle that breaks a session.
    pub fn faults(&self, session_id: i64) -> Faults {
        Faults { store: self.store.clone(), session: session_id }
    }

    /// Returns the ids of the sessions that the store knows, the oldest first.
    pub fn sessions(&self) -> Vec<i64> {
        self.store.access(|state, _| state.sessions.keys().copied().collect())
    }

    /// Makes every attempt to open a session fail with `error`, until it is `None` again.
    pub fn outage(&self, error: Option<RequestError>) {
        self.store.access(|state, _| state.outage = error);
    }

    /// Starts a log of all requests that are sent, and forgets what was logged before.
    pub fn record(&self) {
        self.store.access(|state, _| state.log = Some(Vec::new()));
    }

    /// Returns what was logged since [`record`](Embedded::record), in the order of arrival.
    pub fn recorded(&self) -> Vec<Logged> {
        self.store.access(|state, _| state.log.clone().unwrap_or_default())
    }

    /// Returns how many watch events were delivered to all sessions that the store knows.
    pub fn watch_events(&self) -> u64 {
        self.store.access(|state, _| state.sessions.values().map(|session| session.events).sum())
    }

    /// Makes `next` the number of the next sequential child of the node at `path`.
    ///
    /// # Errors
    ///
    /// [`RequestError::NoNode`].
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), RequestError> {
        self.store.access(|state, _| state.tree.set_sequence(path, next))
    }
}

impl Faults {
    fn act(&self, f: impl FnOnce(&mut State, i64, Instant)) {
        self.store.access(|state, now| f(state, self.session, now));
    }

    /// Breaks the connection. Requests in flight fail with a lost connection, later ones wait; the
    /// server gives the session up after the session timeout, the client after 7/5 of it.
    pub fn disconnect(&self) {
        self.act(State::disconnect);
    }

    /// Swallows everything from now on, in both directions. The client still believes that it is
    /// connected; after 2/5 of the session timeout it notices, and goes on as after
    /// [`disconnect`](Faults::disconnect).
    pub fn silence(&self) {
        self.act(State::silence);
    }

    /// Heals the connection: requests that waited go out in order, and watches that would have
    /// fired do. If the server has given up the session, the client learns that it expired.
    pub fn reconnect(&self) {
        self.act(State::reconnect);
    }

    /// Expires the session on the server. The client learns it now, or when it is connected again.
    pub fn expire(&self) {
        self.act(State::expire);
    }

    /// Freezes the server towards this session: requests are neither applied nor answered until
    /// [`release`](Faults::release).
    pub fn hold_requests(&self) {
        self.act(|state, id, now| state.hold(id, Hold::Requests, now));
    }

    /// Applies requests and keeps their replies, and all watch events, back until
    /// [`release`](Faults::release).
    pub fn hold_replies(&self) {
        self.act(|state, id, now| state.hold(id, Hold::Replies, now));
    }

    /// Lets go what was held back.
    pub fn release(&self) {
        self.act(State::release);
    }

    /// Applies requests at once and delays replies and watch events by `delay`.
    pub fn delay_replies(&self, delay: Duration) {
        self.act(|state, id, _| {
            if let Some(session) = state.sessions.get_mut(&id) {
                session.delay = delay;
            }
        });
    }

    /// Adds a fault that strikes chosen requests.
    pub fn inject(&self, fault: Fault) {
        self.act(|state, id, _| {
            if let Some(session) = state.sessions.get_mut(&id) {
                session.plan.add(fault);
            }
        });
    }

    /// Forgets the faults that did not strike yet.
    pub fn clear(&self) {
        self.act(|state, id, _| {
            if let Some(session) = state.sessions.get_mut(&id) {
                session.plan.clear();
            }
        });
    }

    /// Returns how many watch events were delivered to this session.
    pub fn watch_events(&self) -> u64 {
        self.store.access(|state, _| state.sessions.get(&self.session).map_or(0, |s| s.events))
    }

    /// Returns how many watches of this session have not seen anything yet.
    pub fn pending_watches(&self) -> usize {
        self.store.access(|state, _| state.watches.pending(self.session))
    }
}
