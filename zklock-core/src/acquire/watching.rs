//! Waiting for others: until a node is gone, or another look is worth while.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_lite::future::poll_once;
use tokio::sync::watch;

use crate::acquire::acquire_loop::{AcquireLoop, Setback};
use crate::acquire::lease::QueuedNode;
use crate::coordinator::traits::{RequestError, Watch, WatchEvent};
use crate::session::generation::Generation;
use crate::session::keeper::OwnWatch;

impl AcquireLoop<'_> {
    /// Waits until there are other children than so many, and answers them if they are known, or
    /// until something else happened that makes another look worth while.
    pub(crate) async fn wait_for_room(
        &self,
        generation: &Arc<Generation>,
        seen: usize,
        limit: &mut Option<watch::Receiver<u32>>,
    ) -> Result<Option<Vec<String>>, Setback> {
        let Some(_watching) = generation.watches().take([self.directory()]) else {
            self.pass_time(generation).await;
            return Ok(None);
        };
        let watched = generation.coordinator().children_watched(self.directory()).await;
        let watch = match watched {
            Ok((children, watch)) if children.len() == seen => watch,
            Ok((children, _)) => return Ok(Some(children)),
            Err(RequestError::NoNode) => return Ok(None),
            Err(error) => {
                self.after(generation, error).await?;
                return Ok(None);
            }
        };
        self.watch(generation, vec![watch], limit, None).await?;
        Ok(None)
    }

    /// Waits until one of the nodes is gone (answers true) or something happened that makes another
    /// look at the queue worth while (false).
    ///
    /// Our own node is watched too where the deletion of another is to be the grant: somebody else
    /// may have deleted it, and then the one behind it is next. A server tells of changes in their
    /// order, so one that came before that deletion is known when that is, but for what it tells
    /// after a reconnect.
    pub(crate) async fn wait_for(
        &self,
        generation: &Arc<Generation>,
        paths: &[String],
        mut own: Option<&mut QueuedNode>,
    ) -> Result<bool, Setback> {
        let Some(_watching) = generation.watches().take(paths) else {
            self.pass_time(generation).await;
            return Ok(false);
        };
        let link_lost = own.is_some().then(|| generation.coordinator().link_lost());
        let mut asked_own = None;
        if let Some(node) = own.as_ref().filter(|node| !node.is_watched()) {
            let Some(watching) = generation.watches().take([node.path()]) else {
                self.pass_time(generation).await;
                return Ok(false);
            };
            asked_own = Some((generation.coordinator().get_watched(node.path()), watching));
        }
        let asked: Vec<_> =
            paths.iter().map(|path| generation.coordinator().get_watched(path)).collect();
        if let (Some(node), Some((reply, watching))) = (own.as_mut(), asked_own) {
            match reply.await {
                Ok((data, stat, watch)) if stat.czxid == node.czxid() => {
                    node.watch(OwnWatch::new(watch, (data, stat), watching));
                }
                Ok(_) | Err(RequestError::NoNode) => return Err(Setback::Vanished),
                Err(error) => {
                    self.after(generation, error).await?;
                    return Ok(false);
                }
            }
        }
        let mut watches = Vec::with_capacity(asked.len());
        for (path, reply) in paths.iter().zip(asked) {
            match reply.await {
                Ok((_, stat, _)) if self.is_other_lock(&stat) => {
                    self.passed().add(path);
                    return Ok(false);
                }
                Ok((_, _, watch)) => watches.push(watch),
                Err(RequestError::NoNode) => return Ok(false),
                Err(error) => {
                    self.after(generation, error).await?;
                    return Ok(false);
                }
            }
        }
        let gone = self.watch(generation, watches, &mut None, own.as_deref_mut()).await?;
        if let (Some(node), Some(mut lost)) = (own, link_lost)
            && poll_once(&mut lost).await.is_some()
        {
            // And what was watched before may not be watched any more.
            node.unwatch();
            return Ok(false);
        }
        Ok(gone)
    }

    /// Waits without a watch, because there are too many: another look after a while will do.
    async fn pass_time(&self, generation: &Arc<Generation>) {
        let clock = self.lane_permit.lane().clock();
        let timer = clock.sleep_until(clock.now() + generation.slow_look());
        futures_lite::future::or(timer, generation.changed()).await;
    }

    /// Waits until one of the watches fires, or another look is worth while for other reasons.
    /// Answers whether a node was deleted, while our own was there.
    async fn watch(
        &self,
        generation: &Arc<Generation>,
        mut watches: Vec<Watch>,
        limit: &mut Option<watch::Receiver<u32>>,
        mut own: Option<&mut QueuedNode>,
    ) -> Result<bool, Setback> {
        let reconnects = generation.reconnects();
        // Watches were seen to be lost; a slow look now and then costs little.
        let clock = self.lane_permit.lane().clock();
        let mut poll = clock.sleep_until(clock.now() + generation.long());
        // Kept from one look to the next: dropped, it would be woken no more.
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
                return Ok(false);
            }
            let event = poll_fn(|cx| {
                let seen = watches.iter_mut().find_map(|watch| match watch.as_mut().poll(cx) {
                    Poll::Ready(WatchEvent::Deleted) => Some(Ok(true)),
                    Poll::Ready(WatchEvent::Changed) => Some(Ok(false)),
                    Poll::Ready(WatchEvent::SessionEnded) => Some(Err(Setback::Interrupted)),
                    Poll::Pending => None,
                });
                // After the others: what was told before them is there by now.
                if let Some(Poll::Ready(event)) = own.as_mut().map(|node| node.poll_own(cx)) {
                    return Poll::Ready(Some(match event {
                        WatchEvent::Deleted => Err(Setback::Vanished),
                        WatchEvent::Changed => Ok(false),
                        WatchEvent::SessionEnded => Err(Setback::Interrupted),
                    }));
                }
                if seen.is_some() {
                    return Poll::Ready(seen);
                }
                if Pin::new(&mut poll).poll(cx).is_ready() {
                    return Poll::Ready(Some(Ok(false)));
                }
                if raised.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Some(Ok(false)));
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
