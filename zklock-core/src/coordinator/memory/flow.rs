//! The way of requests: at once, or through queues while the link is impaired.

use std::task::Waker;

use super::request::{Answer, Request};
use super::session::{Sent, Slot};
use super::state::State;
use crate::base::clock::Instant;
use crate::coordinator::request_error::RequestError;

pub(super) enum Submitted {
    Ready(Result<Answer, RequestError>),
    Pending(u64),
}

/// The answer, or when to look again unless woken before.
pub(super) type Looked = Result<Result<Answer, RequestError>, Option<Instant>>;

impl State {
    pub(super) fn submit(&mut self, id: i64, request: Request, now: Instant) -> Submitted {
        let Some(session) = self.sessions.get_mut(&id) else {
            return Submitted::Ready(Err(RequestError::Closed));
        };
        if let Some(error) = session.over_error().or_else(|| request.check().err()) {
            return Submitted::Ready(Err(error));
        }
        let arrives = session.travel.there(now);
        if session.is_heard() && session.queue.is_empty() && arrives <= now {
            let answer = self.execute(id, request, now);
            let answer = match answer {
                Some(answer)
                    if answer.as_ref().is_err_and(broken) || self.answers_at_once(id, now) =>
                {
                    return Submitted::Ready(answer);
                }
                answer => answer,
            };
            let slot = self.new_slot();
            if let Some(session) = self.sessions.get_mut(&id) {
                session.slots.insert(slot, Slot::default());
            }
            if let Some(answer) = answer {
                self.fill(id, slot, answer, now);
            }
            return Submitted::Pending(slot);
        }
        let slot = self.new_slot();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.slots.insert(slot, Slot::default());
            session.queue.push_back(Sent { slot, request, arrives });
            self.sending.insert(id);
        }
        Submitted::Pending(slot)
    }

    fn answers_at_once(&mut self, id: i64, now: Instant) -> bool {
        let session = self.sessions.get_mut(&id);
        session.is_some_and(|session| session.hold.is_none() && session.travel.back(now) <= now)
    }

    /// Stores a reply for its waiter.
    fn fill(&mut self, id: i64, slot: u64, answer: Result<Answer, RequestError>, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return self.discard(answer) };
        let held = session.hold.is_some() && !answer.as_ref().is_err_and(broken);
        let at = (!held).then(|| session.travel.back(now));
        match session.slots.get_mut(&slot) {
            Some(waiting) if !waiting.abandoned => {
                waiting.answer = Some(answer);
                waiting.at = at;
                self.wake.extend(waiting.waker.take());
            }
            _ => {
                session.slots.remove(&slot);
                self.discard(answer);
            }
        }
    }

    /// Delivers everything that waited, in order, as far as the link allows.
    pub(super) fn flush(&mut self, id: i64, now: Instant) {
        while self.arrive(id, now) {}
    }

    /// Applies the next request.
    pub(super) fn arrive(&mut self, id: i64, now: Instant) -> bool {
        let session = self.sessions.get_mut(&id).filter(|session| session.is_heard());
        let Some(Sent { slot, request, .. }) = session.and_then(|it| it.queue.pop_front()) else {
            return false;
        };
        if let Some(answer) = self.execute(id, request, now) {
            self.fill(id, slot, answer, now);
        }
        true
    }

    /// Fails every request that was sent and whose reply has not arrived.
    pub(super) fn fail_in_flight(&mut self, id: i64, error: &RequestError, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.losses += 1;
        session.queue.clear();
        let mut lost = Vec::new();
        session.slots.retain(|_, slot| {
            let arrived = slot.answer.is_some() && slot.at.is_some_and(|at| at <= now);
            if !arrived {
                lost.extend(slot.answer.replace(Err(error.clone())));
                slot.at = Some(now);
                self.wake.extend(slot.waker.take());
            }
            !slot.abandoned
        });
        for answer in lost {
            self.discard(answer);
        }
    }

    pub(super) fn look(&mut self, id: i64, slot: u64, waker: Waker, now: Instant) -> Looked {
        let closed = || Ok(Err(RequestError::Closed));
        let Some(session) = self.sessions.get_mut(&id) else { return closed() };
        let due = session.next_due();
        let Some(waiting) = session.slots.get_mut(&slot) else { return closed() };
        let arrived = waiting.at.is_some_and(|at| at <= now);
        if !arrived {
            self.trash.extend(waiting.waker.replace(waker));
            return Err([waiting.at, due].into_iter().flatten().min());
        }
        self.trash.push(waker);
        let answer = waiting.answer.take();
        session.slots.remove(&slot);
        Ok(answer.unwrap_or(Err(RequestError::Closed)))
    }

    /// Nobody waits for this reply any more; the request is not taken back.
    pub(super) fn abandon(&mut self, id: i64, slot: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(waiting) = session.slots.get_mut(&slot) else { return };
        waiting.abandoned = true;
        self.trash.extend(waiting.waker.take());
        if let Some(answer) = waiting.answer.take() {
            session.slots.remove(&slot);
            return self.discard(answer);
        }
        if let Some(sent) = session.queue.iter().find(|sent| sent.slot == slot) {
            // Watchers of what it changes have to check the clock from now on.
            session.unattended = session.unattended.max(sent.arrives);
            self.watches.nudge_all(&mut self.wake);
        }
    }
}

/// Whether the client itself made this reply because of a broken link; such a reply is never held
/// back.
fn broken(error: &RequestError) -> bool {
    matches!(error, RequestError::ConnectionLoss | RequestError::SessionExpired)
}
