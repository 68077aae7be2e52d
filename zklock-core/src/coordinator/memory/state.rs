//! Everything under the mutex: the tree, the sessions, the watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Waker;
use std::time::Duration;

use super::fault::{Effect, Logged, strike};
use super::late::Late;
use super::path;
use super::request::{Answer, Request};
use super::session::{Session, Wire};
use super::tree::{Caller, Tree};
use super::watches::{WatchKind, Watches};
use crate::base::clock::Instant;
use crate::coordinator::link::Link;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::watch::WatchEvent;

/// Unique in the process, so that sessions of two stores are never confused.
static NEXT_SESSION: AtomicI64 = AtomicI64::new(0x0100_0000_0000_0001);

#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) watches: Watches,
    pub(super) sessions: BTreeMap<i64, Session>,
    /// Sessions for which something happens with time.
    pub(super) impaired: BTreeSet<i64>,
    /// Sessions with pending requests.
    pub(super) sending: BTreeSet<i64>,
    pub(super) reap_after: Duration,
    /// The delays of sessions that are opened from now on.
    pub(super) late: Late,
    pub(super) outage: Option<RequestError>,
    pub(super) log: Option<Vec<Logged>>,
    /// Tasks to wake once the mutex is free.
    pub(super) wake: Vec<Waker>,
    /// Wakers to drop once the mutex is free: the last waker of a task drops the task.
    pub(super) trash: Vec<Waker>,
    next_slot: u64,
}

impl State {
    pub(super) fn new(reap_after: Duration, epoch: i64) -> Self {
        State {
            tree: Tree::new(epoch),
            watches: Watches::default(),
            sessions: BTreeMap::new(),
            impaired: BTreeSet::new(),
            sending: BTreeSet::new(),
            reap_after,
            late: Late::default(),
            outage: None,
            log: None,
            wake: Vec::new(),
            trash: Vec::new(),
            next_slot: 0,
        }
    }

    /// Opens a session; also returns when its client learns of it.
    pub(super) fn connect(
        &mut self,
        timeout: Duration,
        now: Instant,
    ) -> Result<(i64, Instant), RequestError> {
        if let Some(error) = &self.outage {
            return Err(error.clone());
        }
        let id = NEXT_SESSION.fetch_add(1, Ordering::Relaxed);
        let mut travel = self.late.another();
        let opened = travel.back(now);
        self.sessions.insert(id, Session::new(timeout, travel));
        Ok((id, opened))
    }

    pub(super) fn new_slot(&mut self) -> u64 {
        self.next_slot += 1;
        self.next_slot
    }

    /// Delivers a request to the server, or applies a fault to it; `None` if there is no reply.
    pub(super) fn execute(
        &mut self,
        id: i64,
        request: Request,
        now: Instant,
    ) -> Option<Result<Answer, RequestError>> {
        if let Some(log) = &mut self.log {
            let path = request.paths().first().copied().unwrap_or_default().to_owned();
            log.push(Logged { session: id, op: request.op(), path });
        }
        let effect = self.sessions.get_mut(&id).and_then(|s| strike(&mut s.faults, &request));
        Some(match effect {
            None => self.apply(id, request, now),
            Some(Effect::Refuse(error)) => Err(error),
            Some(Effect::LoseRequest) => Err(RequestError::ConnectionLoss),
            Some(Effect::LoseReply) => {
                let answer = self.apply(id, request, now);
                self.discard(answer);
                Err(RequestError::ConnectionLoss)
            }
            Some(Effect::ForgetReply) => {
                let answer = self.apply(id, request, now);
                self.discard(answer);
                return None;
            }
            Some(Effect::CutBefore) => {
                self.disconnect(id, now);
                Err(RequestError::ConnectionLoss)
            }
            Some(Effect::CutAfter) => {
                let answer = self.apply(id, request, now);
                self.discard(answer);
                self.disconnect(id, now);
                Err(RequestError::ConnectionLoss)
            }
            Some(Effect::Expire) => {
                self.expire(id, now);
                Err(RequestError::SessionExpired)
            }
        })
    }

    fn apply(&mut self, id: i64, request: Request, now: Instant) -> Result<Answer, RequestError> {
        let caller = Caller { session: id, now };
        let answer = match request {
            Request::Create { path, data, kind } => {
                self.tree.create(&path, data, kind, caller).map(Answer::Created)
            }
            Request::Delete { path } => self.tree.delete(&path, now).map(|()| Answer::Done),
            Request::Children { path, watch } => self.tree.children(&path).map(|names| {
                let watch = watch.then(|| self.watches.add(id, &path, WatchKind::Children));
                Answer::Children(names, watch)
            }),
            Request::Get { path, watch } => self.tree.get(&path).map(|(data, stat)| {
                let watch = watch.then(|| self.watches.add(id, &path, WatchKind::Data));
                Answer::Data(data, stat, watch)
            }),
            Request::Set { path, data } => self.tree.set(&path, data, now).map(Answer::Stat),
            Request::Multi(operations) => {
                self.tree.multi(operations, caller).map(|()| Answer::Done)
            }
            Request::Sync { .. } => Ok(Answer::Done),
        };
        self.spread(now);
        answer
    }

    /// Removes the watch of a reply that nobody receives.
    pub(super) fn discard(&mut self, answer: Result<Answer, RequestError>) {
        if let Some(watch) = answer.ok().as_ref().and_then(Answer::watch) {
            self.trash.extend(self.watches.remove(watch));
        }
    }

    /// Reports the changes of the tree to the watches.
    pub(super) fn spread(&mut self, now: Instant) {
        for change in self.tree.take_changes() {
            let sessions = &mut self.sessions;
            let arrives = |id: i64| {
                let session = sessions.get_mut(&id)?;
                let is_told = session.wire == Wire::Up && session.hold.is_none();
                is_told.then(|| session.travel.back(now))
            };
            let sent = self.watches.note(&change, arrives, &mut self.wake);
            for id in sent {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.events += 1;
                }
            }
            if let ((WatchKind::Children, path), WatchEvent::Changed) = change
                && self.tree.idle_since(&path).is_some()
            {
                self.nudge_around(&path);
            }
        }
    }

    /// Wakes those whose watch may fire when the node at `path` is deleted with time.
    fn nudge_around(&mut self, path: &str) {
        self.watches.nudge(path, WatchKind::Data, &mut self.wake);
        self.watches.nudge(path, WatchKind::Children, &mut self.wake);
        self.watches.nudge(path::split(path).0, WatchKind::Children, &mut self.wake);
    }

    /// Records that events may happen to a session with time, and lets the waiting tasks set their
    /// timers.
    pub(super) fn impair(&mut self, id: i64) {
        self.impaired.insert(id);
        let owned: Vec<String> = self.tree.owned_by(id).map(str::to_owned).collect();
        for path in owned {
            self.nudge_around(&path);
        }
        self.watches.nudge_session(id, &mut self.wake);
        if let Some(session) = self.sessions.get_mut(&id) {
            self.wake.extend(session.slots.values_mut().filter_map(|slot| slot.waker.take()));
        }
        self.wake_link(id);
    }

    pub(super) fn wake_link(&mut self, id: i64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            self.wake.extend(std::mem::take(&mut session.link_wakers).into_values());
        }
    }

    /// The client's end of a session is over: everything that waits for it is told.
    pub(super) fn end_client(&mut self, id: i64, link: Link, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.over.is_some() {
            return;
        }
        session.over = Some(link);
        if session.wire == Wire::Up {
            session.wire = Wire::Down(now);
        }
        let error = session.over_error().unwrap_or(RequestError::Closed);
        self.fail_in_flight(id, &error, now);
        self.watches.end_session(id, &mut self.wake);
        self.wake_link(id);
    }

    /// The server's end of a session is over: its ephemeral nodes are deleted.
    pub(super) fn end_server(&mut self, id: i64, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id)
            && session.alive
        {
            session.alive = false;
            self.tree.end_session(id, now);
            self.spread(now);
        }
    }

    /// Ends the session for both, or only for the server while the client cannot be told.
    pub(super) fn expire(&mut self, id: i64, now: Instant) {
        let told = self.sessions.get(&id).is_some_and(|session| session.wire == Wire::Up);
        self.end_server(id, now);
        if told {
            self.end_client(id, Link::Expired, now);
        }
    }

    pub(super) fn close(&mut self, id: i64, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.over.is_some() {
            return;
        }
        // Earlier requests are answered before the session ends.
        self.flush(id, now);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.hold.is_none() && session.wire == Wire::Up {
            for slot in session.slots.values_mut().filter(|slot| slot.answer.is_some()) {
                slot.at = Some(now);
                self.wake.extend(slot.waker.take());
            }
        }
        let reachable = session.is_heard();
        if reachable {
            self.end_server(id, now);
        } else {
            session.closing = true;
        }
        self.end_client(id, Link::Closed, now);
        if !reachable {
            self.impair(id);
        }
    }
}
