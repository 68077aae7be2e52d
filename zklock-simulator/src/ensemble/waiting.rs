//! The futures that a coordinator hands out.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::memory::shared::Request;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::Reply;
use zklock_core::coordinator::watch::WatchEvent;

use super::client::{Asked, Client, Slot, WatchKind};
use super::frames::Answer;
use super::machine::Machine;
use super::shared::Shared;
use super::txn::Path;

type Answered = Result<(Answer, Option<u64>), RequestError>;

impl Machine {
    /// The client, if it is not over.
    fn living(&mut self, id: u64) -> Result<&mut Client, RequestError> {
        let client = self.clients.get_mut(&id).ok_or(RequestError::Closed)?;
        match client.link() {
            Link::Expired => Err(RequestError::SessionExpired),
            link if link.is_over() => Err(RequestError::Closed),
            _ => Ok(client),
        }
    }

    /// Takes note that the client is to send something, so that the server hears of the session.
    fn speak(&mut self, id: u64) -> Result<u64, RequestError> {
        let xid = self.unique();
        let client = self.living(id)?;
        client.slots.insert(xid, Slot::default());
        client.speaks.push(xid);
        client.handles += 1;
        self.wake_client(id);
        Ok(xid)
    }

    /// Takes note of a request that the client is to send, in order.
    fn ask(&mut self, id: u64, request: Request) -> Result<u64, RequestError> {
        let xid = self.unique();
        let client = self.living(id)?;
        request.check()?;
        let (down, session) = (client.link() == Link::Down, client.session);
        // The request of a session that has ended is never applied.
        if let Request::Create { path, kind, .. } = &request
            && matches!(kind, NodeKind::EphemeralSequential | NodeKind::Ephemeral)
            && down
            && self.newest().tree.sessions.contains_key(&session)
        {
            self.say(|| format!("{path} is asked for while the connection is down"));
            self.asked_while_down = true;
        }
        let client = self.clients.get_mut(&id).ok_or(RequestError::Closed)?;
        let watches = match &request {
            Request::Get { path, watch: true } => {
                Some((WatchKind::Data, Path::from(path.as_str())))
            }
            Request::Children { path, watch: true } => {
                Some((WatchKind::Children, Path::from(path.as_str())))
            }
            _ => None,
        };
        let reads = matches!(
            request,
            Request::Get { .. } | Request::Children { .. } | Request::Sync { .. }
        );
        let writes = (!reads).then_some(self.now);
        client.slots.insert(xid, Slot { watches, writes, ..Slot::default() });
        client.queue.push_back(Asked::Request(xid, request));
        client.handles += 1;
        self.wake_client(id);
        Ok(xid)
    }

    /// One that kept the client open is gone.
    pub(super) fn let_go(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.handles = client.handles.saturating_sub(1);
        if client.handles == 0 {
            if client.phase == super::client::Phase::Over {
                self.clients.remove(&id);
            } else {
                self.wake_client(id);
            }
        }
    }
}

/// Sends a request at once, and waits for its answer.
pub(super) fn ask<T: Send + 'static>(
    shared: &Arc<Shared>,
    client: u64,
    request: Request,
    convert: fn(Answer, Option<WatchFuture>) -> Option<T>,
) -> Reply<T> {
    answered(shared, client, shared.act(|machine| machine.ask(client, request)), convert)
}

/// Sends something at once, and waits for its answer.
pub(super) fn speak(shared: &Arc<Shared>, client: u64) -> Reply<()> {
    let said = shared.act(|machine| machine.speak(client));
    answered(shared, client, said, |answer, _| (answer == Answer::Done).then_some(()))
}

fn answered<T: Send + 'static>(
    shared: &Arc<Shared>,
    client: u64,
    xid: Result<u64, RequestError>,
    convert: fn(Answer, Option<WatchFuture>) -> Option<T>,
) -> Reply<T> {
    let xid = match xid {
        Ok(xid) => xid,
        Err(error) => return Box::pin(ready(Err(error))),
    };
    let waiting = Waiting { shared: shared.clone(), client, xid, done: false };
    Box::pin(async move {
        let (answer, watch) = waiting.await?;
        let mismatch = || RequestError::Other("the answer does not fit the request".to_owned());
        convert(answer, watch).ok_or_else(mismatch)
    })
}

struct Waiting {
    shared: Arc<Shared>,
    client: u64,
    xid: u64,
    done: bool,
}

impl Waiting {
    fn take(&self, machine: &mut Machine, cx: &Context<'_>) -> Poll<Answered> {
        let Some(client) = machine.clients.get_mut(&self.client) else {
            return Poll::Ready(Err(RequestError::Closed));
        };
        let Some(slot) = client.slots.get_mut(&self.xid) else {
            return Poll::Ready(Err(RequestError::Closed));
        };
        let Some(answer) = slot.answer.take() else {
            slot.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        client.slots.remove(&self.xid);
        machine.let_go(self.client);
        machine.reads(self.xid, true);
        Poll::Ready(answer)
    }
}

impl Future for Waiting {
    type Output = Result<(Answer, Option<WatchFuture>), RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(answer) = self.shared.act(|machine| self.take(machine, cx)) else {
            return Poll::Pending;
        };
        self.done = true;
        let shared = self.shared.clone();
        Poll::Ready(answer.map(|(answer, watch)| {
            let watch = watch.map(|watch| WatchFuture { shared, client: self.client, watch });
            (answer, watch)
        }))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (id, xid) = (self.client, self.xid);
        let waker = self.shared.act(|machine| {
            machine.reads(xid, false);
            let client = machine.clients.get_mut(&id)?;
            let slot = client.slots.get_mut(&xid)?;
            slot.abandoned = true;
            let waker = slot.waker.take();
            if let Some(answer) = slot.answer.take() {
                client.slots.remove(&xid);
                if let Ok((_, Some(watch))) = answer {
                    client.queue.push_back(Asked::Unwatch(watch));
                    machine.wake_client(id);
                }
            }
            machine.let_go(id);
            waker
        });
        drop(waker);
    }
}

/// The future of a watch.
pub(super) struct WatchFuture {
    shared: Arc<Shared>,
    client: u64,
    watch: u64,
}

impl Future for WatchFuture {
    type Output = WatchEvent;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        self.shared.act(|machine| {
            let Some(client) = machine.clients.get_mut(&self.client) else {
                return Poll::Ready(WatchEvent::SessionEnded);
            };
            let over = client.over.is_some();
            match client.watches.get_mut(&self.watch) {
                Some(_) if over => Poll::Ready(WatchEvent::SessionEnded),
                Some(watching) => match watching.event {
                    Some(event) => Poll::Ready(event),
                    None => {
                        watching.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                },
                None => Poll::Ready(WatchEvent::SessionEnded),
            }
        })
    }
}

impl Drop for WatchFuture {
    fn drop(&mut self) {
        let (id, watch) = (self.client, self.watch);
        let waker = self.shared.act(|machine| {
            let client = machine.clients.get_mut(&id)?;
            let watching = client.watches.get_mut(&watch)?;
            let waker = watching.waker.take();
            if watching.event.is_some() {
                client.watches.remove(&watch);
            } else {
                client.queue.push_back(Asked::Unwatch(watch));
                machine.wake_client(id);
            }
            waker
        });
        drop(waker);
    }
}

/// Waits until what is seen of a client is something.
pub(super) struct Until<T, F: Fn(&Client) -> Option<T>> {
    shared: Arc<Shared>,
    client: u64,
    key: u64,
    gone: T,
    look: F,
}

impl<T, F: Fn(&Client) -> Option<T>> Until<T, F> {
    /// `gone` is the answer where the client is no more.
    pub(super) fn new(shared: &Arc<Shared>, client: u64, gone: T, look: F) -> Self {
        let key = shared.act(Machine::unique);
        Until { shared: shared.clone(), client, key, gone, look }
    }
}

impl<T: Clone + Unpin, F: Fn(&Client) -> Option<T> + Unpin> Future for Until<T, F> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.shared.act(|machine| {
            let Some(client) = machine.clients.get_mut(&self.client) else {
                return Poll::Ready(self.gone.clone());
            };
            match (self.look)(client) {
                Some(seen) => Poll::Ready(seen),
                None => {
                    client.watchers.insert(self.key, cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

impl<T, F: Fn(&Client) -> Option<T>> Drop for Until<T, F> {
    fn drop(&mut self) {
        let (id, key) = (self.client, self.key);
        let waker = self.shared.act(|machine| machine.clients.get_mut(&id)?.watchers.remove(&key));
        drop(waker);
    }
}
