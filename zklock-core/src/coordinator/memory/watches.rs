//! One-shot watches: who waits for which node, and what they saw.

use std::collections::{BTreeMap, HashMap};
use std::task::Waker;

use crate::base::clock::Instant;
use crate::coordinator::watch::WatchEvent;

pub(super) type WatchId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WatchKind {
    Data,
    Children,
}

#[derive(Debug)]
pub(super) struct Watching {
    pub(super) session: i64,
    pub(super) path: String,
    pub(super) kind: WatchKind,
    /// The event, and from when on the waiter may know it.
    event: Option<(WatchEvent, Instant)>,
    /// Whether the event was sent; until then a later one replaces it.
    delivered: bool,
    waker: Option<Waker>,
}

/// What the watches of a kind at a path see of a change.
pub(super) type Change = ((WatchKind, String), WatchEvent);

#[derive(Debug, Default)]
pub(super) struct Watches {
    next: WatchId,
    by_id: BTreeMap<WatchId, Watching>,
    by_path: HashMap<(WatchKind, String), Vec<WatchId>>,
}

impl Watches {
    pub(super) fn add(&mut self, session: i64, path: &str, kind: WatchKind) -> WatchId {
        self.next += 1;
        let (id, path) = (self.next, path.to_owned());
        self.by_path.entry((kind, path.clone())).or_default().push(id);
        let watch = Watching { session, path, kind, event: None, delivered: false, waker: None };
        self.by_id.insert(id, watch);
        id
    }

    pub(super) fn get(&self, id: WatchId) -> Option<&Watching> {
        self.by_id.get(&id)
    }

    /// Removes a watch; its waker is returned, because dropping one may run any code.
    pub(super) fn remove(&mut self, id: WatchId) -> Option<Waker> {
        let watch = self.by_id.remove(&id)?;
        self.unlist(&watch.path, watch.kind, id);
        watch.waker
    }

    fn unlist(&mut self, path: &str, kind: WatchKind, id: WatchId) {
        let key = (kind, path.to_owned());
        if let Some(ids) = self.by_path.get_mut(&key) {
            ids.retain(|listed| *listed != id);
            if ids.is_empty() {
                self.by_path.remove(&key);
            }
        }
    }

    /// The event of a watch, if it may be known, and from when on.
    pub(super) fn event(&self, id: WatchId) -> Option<(WatchEvent, Instant)> {
        self.by_id.get(&id).filter(|watch| watch.delivered).and_then(|watch| watch.event)
    }

    /// Sets the waker; the previous one is returned.
    pub(super) fn set_waker(&mut self, id: WatchId, waker: Waker) -> Option<Waker> {
        match self.by_id.get_mut(&id) {
            Some(watch) => watch.waker.replace(waker),
            None => Some(waker),
        }
    }

    /// Records a change. `arrives` says when a session receives an event, or `None` if only when it is connected
    /// again. Returns the session of every event that was sent.
    pub(super) fn note(
        &mut self,
        (key, event): &Change,
        mut arrives: impl FnMut(i64) -> Option<Instant>,
        wake: &mut Vec<Waker>,
    ) -> Vec<i64> {
        let (mut sent, mut left) = (Vec::new(), Vec::new());
        for id in self.by_path.remove(key).into_iter().flatten() {
            let Some(watch) = self.by_id.get_mut(&id) else { continue };
            match arrives(watch.session) {
                Some(at) => {
                    watch.event = Some((*event, at));
                    watch.delivered = true;
                    wake.extend(watch.waker.take());
                    sent.push(watch.session);
                }
                None => {
                    watch.event = Some((*event, Instant::ORIGIN));
                    left.push(id);
                }
            }
        }
        if !left.is_empty() {
            self.by_path.insert(key.clone(), left);
        }
        sent
    }

    /// Delivers the events that a session missed. Returns their number.
    pub(super) fn deliver_missed(&mut self, session: i64, wake: &mut Vec<Waker>) -> u64 {
        let missed: Vec<WatchId> = self
            .by_id
            .iter_mut()
            .filter(|(_, watch)| {
                watch.session == session && watch.event.is_some() && !watch.delivered
            })
            .map(|(id, watch)| {
                watch.delivered = true;
                wake.extend(watch.waker.take());
                *id
            })
            .collect();
        for id in &missed {
            if let Some((kind, path)) = self.by_id.get(id).map(|w| (w.kind, w.path.clone())) {
                self.unlist(&path, kind, *id);
            }
        }
        missed.len() as u64
    }

    /// Tells every watch of a session that has not fired that the session is over.
    pub(super) fn end_session(&mut self, session: i64, wake: &mut Vec<Waker>) {
        let mut ended = Vec::new();
        for (id, watch) in &mut self.by_id {
            if watch.session == session && !watch.delivered {
                watch.event = Some((WatchEvent::SessionEnded, Instant::ORIGIN));
                watch.delivered = true;
                wake.extend(watch.waker.take());
                ended.push((*id, watch.kind, watch.path.clone()));
            }
        }
        for (id, kind, path) in ended {
            self.unlist(&path, kind, id);
        }
    }

    /// Wakes the watches on a path, so that they look again when the next event is due.
    pub(super) fn nudge(&mut self, path: &str, kind: WatchKind, wake: &mut Vec<Waker>) {
        for id in self.by_path.get(&(kind, path.to_owned())).into_iter().flatten() {
            wake.extend(self.by_id.get_mut(id).and_then(|watch| watch.waker.take()));
        }
    }

    /// Wakes all watches.
    pub(super) fn nudge_all(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(self.by_id.values_mut().filter_map(|watch| watch.waker.take()));
    }

    /// Wakes all watches of a session.
    pub(super) fn nudge_session(&mut self, session: i64, wake: &mut Vec<Waker>) {
        for watch in self.by_id.values_mut().filter(|watch| watch.session == session) {
            wake.extend(watch.waker.take());
        }
    }

    /// The number of watches of a session that have not fired.
    pub(super) fn pending(&self, session: i64) -> usize {
        self.by_id.values().filter(|watch| watch.session == session && !watch.delivered).count()
    }
}
