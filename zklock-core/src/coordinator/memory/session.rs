//! One session: its link, as seen by the client and by the server, and its pending requests.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use super::fault::Fault;
use super::late::Travel;
use super::request::{Answer, Request};
use crate::base::clock::Instant;
use crate::base::times;
use crate::coordinator::link::Link;
use crate::coordinator::request_error::RequestError;

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Up,
    /// Nothing arrives any more, and the client has not noticed: it does after 4/15 of the session
    /// timeout without a reply.
    Silent(Instant),
    /// Broken at this time, and the client knows.
    Down(Instant),
}

/// The direction that is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Requests,
    Replies,
}

/// A reply that was not ready at once.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) answer: Option<Result<Answer, RequestError>>,
    /// When the reply arrives, if there is one.
    pub(super) at: Option<Instant>,
    pub(super) waker: Option<Waker>,
    /// Nobody waits for it any more; the request is sent all the same.
    pub(super) abandoned: bool,
}

/// A pending request.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) slot: u64,
    pub(super) request: Request,
    /// When it takes effect, unless the link is impaired.
    pub(super) arrives: Instant,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) timeout: Duration,
    pub(super) wire: Wire,
    pub(super) hold: Option<(Hold, Instant)>,
    /// The delays of its requests and replies.
    pub(super) travel: Travel,
    /// Whether the server still knows the session.
    pub(super) alive: bool,
    /// Why it is over for the client.
    pub(super) over: Option<Link>,
    /// The client has closed it, and the server cannot be told yet.
    pub(super) closing: bool,
    /// Its coordinator was dropped.
    pub(super) orphan: bool,
    pub(super) faults: Vec<Fault>,
    pub(super) events: u64,
    /// Requests that the server has not received yet, in order.
    pub(super) queue: VecDeque<Sent>,
    /// Until when requests are pending for whose replies nobody waits.
    pub(super) unattended: Instant,
    pub(super) slots: BTreeMap<u64, Slot>,
    pub(super) link_wakers: BTreeMap<u64, Waker>,
    /// The number of times that the client lost the connection.
    pub(super) losses: u64,
}

impl Session {
    pub(super) fn new(timeout: Duration, travel: Travel) -> Self {
        Session {
            timeout,
            wire: Wire::Up,
            hold: None,
            travel,
            alive: true,
            over: None,
            closing: false,
            orphan: false,
            faults: Vec::new(),
            events: 0,
            queue: VecDeque::new(),
            unattended: Instant::ORIGIN,
            slots: BTreeMap::new(),
            link_wakers: BTreeMap::new(),
            losses: 0,
        }
    }

    /// The link as the client sees it, even if events that are due have not been processed yet.
    pub(super) fn link(&self, now: Instant) -> Link {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match (self.over, self.wire) {
            (Some(over), _) => over,
            (None, _) if is_due(self.given_up_at()) => Link::Expired,
            (None, Wire::Silent(_)) if is_due(self.notices_at()) => Link::Down,
            (None, Wire::Up | Wire::Silent(_)) => Link::Up,
            (None, Wire::Down(_)) => Link::Down,
        }
    }

    /// The error of a request on a session that is over.
    pub(super) fn over_error(&self) -> Option<RequestError> {
        match self.over? {
            Link::Expired => Some(RequestError::SessionExpired),
            _ => Some(RequestError::Closed),
        }
    }

    /// The last time at which something got through; `None` while everything does.
    pub(super) fn last_contact(&self) -> Option<Instant> {
        let held = self.hold.map(|(_, since)| since);
        self.cut_off_since().into_iter().chain(held).min()
    }

    pub(super) fn cut_off_since(&self) -> Option<Instant> {
        match self.wire {
            Wire::Up => None,
            Wire::Silent(since) | Wire::Down(since) => Some(since),
        }
    }

    /// When the client notices that nothing is answered.
    pub(super) fn notices_at(&self) -> Option<Instant> {
        match self.wire {
            Wire::Silent(since) if self.over.is_none() => {
                Some(since + times::leave(self.timeout, false))
            }
            _ => None,
        }
    }

    /// When the server ends the session.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        self.cut_off_since().filter(|_| self.alive).map(|since| since + self.timeout)
    }

    /// When the client ends it by itself, after 7/5 of the session timeout.
    pub(super) fn given_up_at(&self) -> Option<Instant> {
        self.cut_off_since()
            .filter(|_| self.over.is_none())
            .map(|since| since + self.timeout * 7 / 5)
    }

    /// The next of these times.
    pub(super) fn lapses_at(&self) -> Option<Instant> {
        [self.notices_at(), self.expires_at(), self.given_up_at()].into_iter().flatten().min()
    }

    /// Whether the server receives what is sent.
    pub(super) fn is_heard(&self) -> bool {
        let held = self.hold.is_some_and(|(hold, _)| hold == Hold::Requests);
        self.wire == Wire::Up && !held && self.over.is_none()
    }

    /// When the next request takes effect.
    pub(super) fn arrives_at(&self) -> Option<Instant> {
        self.queue.front().filter(|_| self.is_heard()).map(|sent| sent.arrives)
    }

    /// When the next event happens with time.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lapses_at().into_iter().chain(self.arrives_at()).min()
    }
}
