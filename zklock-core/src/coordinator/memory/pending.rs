//! The futures that wait for a reply, for a watch, or for the link.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::alarm::Alarm;
use super::flow::Submitted;
use super::request::{Answer, Request};
use super::state::State;
use super::store::Store;
use super::watches::WatchId;
use crate::coordinator::link::Link;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Reply;
use crate::coordinator::watch::{Watch, WatchEvent};

/// Converts a reply into the caller's type.
type Convert<T> = fn(Answer, &Arc<Store>) -> Option<T>;

/// Sends a request, and returns the reply as a future.
pub(super) fn send<T: Send + 'static>(
    store: &Arc<Store>,
    session: i64,
    request: Request,
    convert: Convert<T>,
) -> Reply<T> {
    match store.access(|state, now| state.submit(session, request, now)) {
        Submitted::Ready(answer) => Box::pin(ready(finish(answer, store, convert))),
        Submitted::Pending(slot) => Box::pin(PendingReply {
            alarm: Alarm::new(store.clock.clone()),
            store: store.clone(),
            session,
            slot: Some(slot),
            convert,
        }),
    }
}

fn finish<T>(
    answer: Result<Answer, RequestError>,
    store: &Arc<Store>,
    convert: Convert<T>,
) -> Result<T, RequestError> {
    let mismatch = || RequestError::Other("the answer does not fit the request".to_owned());
    answer.and_then(|answer| convert(answer, store).ok_or_else(mismatch))
}

struct PendingReply<T> {
    store: Arc<Store>,
    session: i64,
    slot: Option<u64>,
    alarm: Alarm,
    convert: Convert<T>,
}

impl<T> Future for PendingReply<T> {
    type Output = Result<T, RequestError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(slot) = this.slot else {
            return Poll::Ready(Err(RequestError::Closed));
        };
        let session = this.session;
        let look = |state: &mut State, waker, now| state.look(session, slot, waker, now);
        this.alarm.look_until(&this.store, cx, look).map(|answer| {
            this.slot = None;
            finish(answer, &this.store, this.convert)
        })
    }
}

impl<T> Drop for PendingReply<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.store.access(|state, _| {
                state.abandon(self.session, slot);
                state.settle(self.session);
            });
        }
    }
}

/// A watch that is removed when it is dropped.
pub(super) struct PendingWatch {
    store: Arc<Store>,
    id: WatchId,
    alarm: Alarm,
}

impl PendingWatch {
    pub(super) fn boxed(id: WatchId, store: &Arc<Store>) -> Watch {
        Box::pin(PendingWatch { alarm: Alarm::new(store.clock.clone()), store: store.clone(), id })
    }
}

impl Future for PendingWatch {
    type Output = WatchEvent;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        let this = self.get_mut();
        let id = this.id;
        this.alarm.look_until(&this.store, cx, |state, waker, now| {
            let seen = state.watches.event(id);
            if let Some((event, at)) = seen
                && at <= now
            {
                state.trash.push(waker);
                return Ok(event);
            }
            let old = state.watches.set_waker(id, waker);
            state.trash.extend(old);
            Err(seen.map(|(_, at)| at).or_else(|| state.watch_due(id)))
        })
    }
}

impl Drop for PendingWatch {
    fn drop(&mut self) {
        self.store.access(|state, _| {
            let waker = state.watches.remove(self.id);
            state.trash.extend(waker);
        });
    }
}

/// What is known about a link.
#[derive(Clone, Copy)]
pub(super) enum SeenLink {
    /// Its state.
    As(Link),
    /// The number of times that it was lost.
    Lost(u64),
}

/// Waits until the link has changed.
pub(super) struct LinkChanged {
    pub(super) store: Arc<Store>,
    pub(super) session: i64,
    pub(super) seen: SeenLink,
    pub(super) alarm: Alarm,
    /// The key of the stored waker.
    pub(super) slot: Option<u64>,
}

impl Future for LinkChanged {
    type Output = Link;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Link> {
        let this = self.get_mut();
        let (id, seen, slot) = (this.session, this.seen, &mut this.slot);
        this.alarm.look_until(&this.store, cx, |state, waker, now| {
            let fresh = state.new_slot();
            let Some(session) = state.sessions.get_mut(&id) else {
                state.trash.push(waker);
                let known = matches!(seen, SeenLink::As(Link::Closed));
                return if known { Err(None) } else { Ok(Link::Closed) };
            };
            let link = session.link(now);
            let changed = match seen {
                SeenLink::As(seen) => link != seen,
                SeenLink::Lost(losses) => session.losses != losses,
            };
            if changed {
                state.trash.push(waker);
                return Ok(link);
            }
            let place = *slot.get_or_insert(fresh);
            state.trash.extend(session.link_wakers.insert(place, waker));
            Err(session.lapses_at())
        })
    }
}

impl Drop for LinkChanged {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.store.access(|state, _| {
                if let Some(session) = state.sessions.get_mut(&self.session) {
                    state.trash.extend(session.link_wakers.remove(&slot));
                }
            });
        }
    }
}
