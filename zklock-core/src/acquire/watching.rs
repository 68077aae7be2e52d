//! Waiting for other contenders: until a node is deleted, or the queue may have changed.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::lease::QueuedNode;
use crate::acquire::setback::Setback;
use crate::base::clock::Instant;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::watch::{Watch, WatchEvent};
use crate::session::generation::{Generation, Listed};
use crate::session::own_watch::OwnWatch;
use crate::session::watch_budget::Watching;

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// A watched node was deleted, while this contender's own node existed.
    Gone,
    /// Something else happened.
    News,
    /// Nothing happened for a long time.
    Time,
    /// The connection is there again. The client sets the watches anew, and they have been seen to get lost.
    Reconnected,
}

impl AcquireLoop<'_> {
    /// Waits until the number of children differs from the given one, and returns the children if
    /// they are known; or until something else happened after which the queue may have changed.
    pub(crate) async fn wait_for_room(
        &self,
        generation: &Arc<Generation>,
        seen: usize,
        limit: &mut Option<watch::Receiver<u32>>,
    ) -> Result<Option<Arc<Listed>>, Setback> {
        let Some(_watching) = generation.watches().take([self.directory()]) else {
            self.pass_time(generation).await;
            return Ok(None);
        };
        let watched = generation.coordinator().children_watched(self.directory()).await;
        let watch = match watched {
            Ok((children, watch)) if children.len() == seen => watch,
            Ok((children, _)) => return Ok(Some(self.saw(children))),
            Err(RequestError::NoNode) => return Ok(None),
            Err(error) => {
                self.after(generation, error).await?;
                return Ok(None);
            }
        };
        self.watch(generation, vec![watch], limit, None).await?;
        Ok(None)
    }

    /// Waits until one of the nodes is deleted, or the queue may have changed.
    pub(crate) async fn wait_for(
        &self,
        generation: &Arc<Generation>,
        paths: &[String],
        own: Option<&mut QueuedNode>,
    ) -> Result<Woken, Setback> {
        match generation.watches().take(paths) {
            // Boxed: without a watch, a waiter needs less memory.
            Some(watching) => Box::pin(self.watch_all(generation, paths, own, watching)).await,
            None => Ok(self.pass_time(generation).await),
        }
    }

    /// Waits with watches on the nodes.
    ///
    /// If the deletion of another node is to be the grant, this contender's own node is watched,
    /// too: somebody else may have deleted it, and then the contender behind it is next. A server
    /// reports changes in their order, so an earlier deletion of the own node is known at that
    /// time; the events after a reconnect are an exception.
    async fn watch_all(
        &self,
        generation: &Arc<Generation>,
        paths: &[String],
        mut own: Option<&mut QueuedNode>,
        _watching: Watching,
    ) -> Result<Woken, Setback> {
        let mut asked_own = None;
        if let Some(node) = own.as_mut()
            && !node.is_watched()
        {
            let Some(watching) = generation.watches().take([node.path()]) else {
                return Ok(Box::pin(self.pass_time(generation)).await);
            };
            let before = (generation.coordinator().link_lost(), generation.reconnects());
            let reply = generation.coordinator().get_watched(node.path());
            asked_own = Some((reply, watching, before));
        }
        let asked: Vec<_> =
            paths.iter().map(|path| generation.coordinator().get_watched(path)).collect();
        if let (Some(node), Some((reply, watching, before))) = (own.as_mut(), asked_own) {
            match reply.await {
                Ok((data, stat, watch)) if stat.czxid == node.czxid() => {
                    node.watch(OwnWatch::new(watch, (data, stat), watching, before));
                }
                Ok(_) | Err(RequestError::NoNode) => return Err(Setback::Vanished),
                Err(error) => {
                    self.after(generation, error).await?;
                    return Ok(Woken::News);
                }
            }
        }
        let mut watches = Vec::with_capacity(asked.len());
        for (path, reply) in paths.iter().zip(asked) {
            match reply.await {
                Ok((_, stat, _)) if self.is_other_lock(&stat) => {
                    self.passed().add(path);
                    return Ok(Woken::News);
                }
                Ok((_, _, watch)) => watches.push(watch),
                Err(RequestError::NoNode) => return Ok(Woken::News),
                Err(error) => {
                    self.after(generation, error).await?;
                    return Ok(Woken::News);
                }
            }
        }
        let woken = self.watch(generation, watches, &mut None, own.as_deref_mut()).await?;
        // After a loss of the connection, the watches set before may be gone.
        let is_watched = own.is_none_or(|node| node.is_watched());
        Ok(if is_watched { woken } else { Woken::News })
    }

    /// Waits without a watch, because there are too many watches; then the queue is read again.
    async fn pass_time(&self, generation: &Arc<Generation>) -> Woken {
        let (clock, rest) = (self.lane_permit.lane().clock(), generation.slow_look());
        let mut at = clock.now() + rest;
        if self.request.has_many_nodes {
            // All of them at the same time, so that they share one list.
            at = at.floor(rest);
        }
        let timer = async {
            clock.sleep_until(at).await;
            Woken::Time
        };
        let changed = async {
            generation.changed().await;
            Woken::News
        };
        futures_lite::future::or(timer, changed).await
    }

    /// When a waiter whose watch did not fire looks again.
    fn look_again_at(&self, generation: &Arc<Generation>) -> Instant {
        let (now, long) = (self.lane_permit.lane().clock().now(), generation.long_wait());
        if !self.request.has_many_nodes {
            return now + long;
        }
        // A little later, together with others.
        let step = long / 8;
        (now + long + step).floor(step)
    }

    /// Waits until one of the watches fires, or the queue may have changed for another reason.
    async fn watch(
        &self,
        generation: &Arc<Generation>,
        mut watches: Vec<Watch>,
        limit: &mut Option<watch::Receiver<u32>>,
        mut own: Option<&mut QueuedNode>,
    ) -> Result<Woken, Setback> {
        let reconnects = generation.reconnects();
        // Watches have been seen to get lost; an occasional look without one costs little.
        let clock = self.lane_permit.lane().clock();
        let mut poll = clock.sleep_until(self.look_again_at(generation));
        // Kept from one poll to the next: if it were dropped, it would not be woken any more.
        let mut raised = pin!(async {
            let told = match limit {
                Some(limit) => limit.changed().await.is_ok(),
                None => false,
            };
            if !told {
                pending::<()>().await;
            }
        });
        loop {
            let mut changed = pin!(generation.changed());
            changed.as_mut().enable();
            if generation.is_retired() {
                return Err(Setback::Interrupted);
            }
            if generation.reconnects() != reconnects {
                return Ok(Woken::Reconnected);
            }
            let event = poll_fn(|cx| {
                let seen = watches.iter_mut().find_map(|watch| match watch.as_mut().poll(cx) {
                    Poll::Ready(WatchEvent::Deleted) => Some(Ok(Woken::Gone)),
                    Poll::Ready(WatchEvent::Changed) => Some(Ok(Woken::News)),
                    Poll::Ready(WatchEvent::SessionEnded) => Some(Err(Setback::Interrupted)),
                    Poll::Pending => None,
                });
                // Polled after the others, so that events that came before theirs have arrived.
                if let Some(Poll::Ready(event)) = own.as_mut().map(|node| node.poll_own(cx)) {
                    return Poll::Ready(Some(match event {
                        WatchEvent::Deleted => Err(Setback::Vanished),
                        WatchEvent::Changed => Ok(Woken::News),
                        WatchEvent::SessionEnded => Err(Setback::Interrupted),
                    }));
                }
                if seen.is_some() {
                    return Poll::Ready(seen);
                }
                if Pin::new(&mut poll).poll(cx).is_ready() {
                    return Poll::Ready(Some(Ok(Woken::Time)));
                }
                if raised.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Some(Ok(Woken::News)));
                }
                changed.as_mut().poll(cx).map(|()| None)
            })
            .await;
            if let Some(woken) = event {
                return woken;
            }
        }
    }
}
