//! Events that happen with time, and when the link breaks or is restored.

use super::session::{Hold, Wire};
use super::state::State;
use super::watches::{WatchId, WatchKind};
use crate::base::clock::Instant;
use crate::coordinator::link::Link;
use crate::coordinator::request_error::RequestError;

impl State {
    /// Lets everything happen that was due, in the order of time.
    pub(super) fn advance(&mut self, now: Instant) {
        let idle = self.impaired.is_empty() && self.sending.is_empty();
        if idle && self.tree.longest_idle().is_none() {
            return;
        }
        loop {
            let reap = self.tree.longest_idle().map(|since| since + self.reap_after);
            let session = self
                .impaired
                .union(&self.sending)
                .filter_map(|id| Some((self.sessions.get(id)?.next_due()?, *id)))
                .min();
            match (reap, session) {
                (Some(at), session) if at <= now && session.is_none_or(|(due, _)| at <= due) => {
                    self.tree.reap_one(self.reap_after);
                    self.spread(at);
                }
                (_, Some((at, id))) if at <= now => self.lapse(id, at),
                _ => return,
            }
        }
    }

    fn lapse(&mut self, id: i64, at: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.arrives_at().is_some_and(|due| due <= at) {
            self.arrive(id, at);
        } else if session.notices_at().is_some_and(|due| due <= at) {
            if let Wire::Silent(since) = session.wire {
                session.wire = Wire::Down(since);
            }
            let error = RequestError::Other("no response from the server".to_owned());
            self.fail_in_flight(id, &error, at);
            self.wake_link(id);
        } else if session.expires_at().is_some_and(|due| due <= at) {
            self.end_server(id, at);
        } else {
            self.end_client(id, Link::Expired, at);
        }
        self.settle(id);
    }

    /// Removes what is no longer needed about a session.
    pub(super) fn settle(&mut self, id: i64) {
        let Some(session) = self.sessions.get(&id) else {
            self.impaired.remove(&id);
            self.sending.remove(&id);
            return;
        };
        if session.lapses_at().is_none() {
            self.impaired.remove(&id);
        }
        if session.queue.is_empty() {
            self.sending.remove(&id);
        }
        if session.orphan && !session.alive && session.slots.is_empty() {
            let gone = self.sessions.remove(&id);
            self.trash.extend(gone.into_iter().flat_map(|gone| gone.link_wakers.into_values()));
        }
    }

    /// The connection breaks and the client sees it.
    pub(super) fn disconnect(&mut self, id: i64, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.over.is_some() {
            return;
        }
        session.wire = Wire::Down(session.cut_off_since().unwrap_or(now));
        session.hold = None;
        self.fail_in_flight(id, &RequestError::ConnectionLoss, now);
        self.impair(id);
    }

    /// Nothing gets through any more, and the client has not noticed yet.
    pub(super) fn silence(&mut self, id: i64, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.over.is_none() && session.wire == Wire::Up {
            session.wire = Wire::Silent(now);
            self.impair(id);
        }
    }

    /// The connection is restored.
    pub(super) fn reconnect(&mut self, id: i64, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.closing {
            self.end_server(id, now);
        } else if session.over.is_none() && !session.alive {
            self.end_client(id, Link::Expired, now);
        } else if session.over.is_none() {
            session.wire = Wire::Up;
            // Watches are set again before the requests that waited go out.
            self.deliver_missed(id);
            self.flush(id, now);
            self.wake_link(id);
        }
        self.settle(id);
    }

    pub(super) fn hold(&mut self, id: i64, hold: Hold, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id)
            && session.hold.is_none()
        {
            session.hold = Some((hold, now));
        }
    }

    /// Delivers what was held back.
    pub(super) fn release(&mut self, id: i64, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.hold = None;
        for slot in session.slots.values_mut() {
            if slot.answer.is_some() && slot.at.is_none() {
                slot.at = Some(session.travel.back(now));
                self.wake.extend(slot.waker.take());
            }
        }
        if session.closing {
            self.end_server(id, now);
        } else if session.wire == Wire::Up {
            self.deliver_missed(id);
            self.flush(id, now);
        }
        self.settle(id);
    }

    fn deliver_missed(&mut self, id: i64) {
        let delivered = self.watches.deliver_missed(id, &mut self.wake);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.events += delivered;
        }
    }

    /// When the next event happens with time that a watch may see.
    pub(super) fn watch_due(&self, id: WatchId) -> Option<Instant> {
        let watch = self.watches.get(id)?;
        let own = self.sessions.get(&watch.session).and_then(|session| session.next_due());
        let node = self.node_due(&watch.path);
        let quiet = self.impaired.is_empty() && self.tree.longest_idle().is_none();
        let children = match watch.kind {
            WatchKind::Children if !quiet => {
                self.tree.child_paths(&watch.path).filter_map(|path| self.node_due(&path)).min()
            }
            _ => None,
        };
        [own, node, children, self.unattended_due()].into_iter().flatten().min()
    }

    /// When the next request takes effect among those for whose replies nobody holds a timer.
    fn unattended_due(&self) -> Option<Instant> {
        let sending = self.sending.iter().filter_map(|id| self.sessions.get(id));
        let due = sending.filter_map(|session| {
            session.arrives_at().filter(|arrives| *arrives <= session.unattended)
        });
        due.min()
    }

    /// When a node is deleted by itself.
    fn node_due(&self, path: &str) -> Option<Instant> {
        let owner = self.tree.owner_of(path).and_then(|id| self.sessions.get(&id));
        let reaped = self.tree.idle_since(path).map(|since| since + self.reap_after);
        owner.and_then(|session| session.expires_at()).into_iter().chain(reaped).min()
    }
}
