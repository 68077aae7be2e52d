//! A caller comes to a lock.

use std::iter::empty;
use std::sync::Arc;

use super::{Phase, State};
use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::local::callers::Grants;
use crate::local::todo::{Joined, Lent, Todo};
use crate::local::turn::Turn;
use crate::local::waiter::Waiter;

/// What a holder means for a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// It has to be waited for.
    None,
    /// The newcomer holds it itself, and must not wait for those that wait for it.
    Own,
    /// The same, and it reads.
    OwnRead,
    /// The holder is the newcomer itself, which lost its lease and starts over.
    LetGo,
}

impl<L: Lent, B, O> State<L, B, O> {
    /// Whether a caller of this process certainly keeps a newcomer out. If not, ZooKeeper's reply
    /// is pending, and may grant the lock to the newcomer as well. `seen` says whether the running
    /// driver has seen somebody in the way.
    fn keeps_out(&self, newcomer: &Waiter, seen: bool) -> bool {
        match &self.phase {
            Phase::Idle | Phase::Lingering { .. } | Phase::Asking { .. } => false,
            Phase::Fetching(_) => seen,
            Phase::Held { lease, mode } => {
                let open = self.asking && self.behind != Some(true) && !lease.is_revoked();
                let all_read =
                    || self.callers.waiters.iter().all(|other| other.wants == Mode::Read);
                !open || (newcomer.wants, *mode) != (Mode::Read, Mode::Read) || !all_read()
            }
        }
    }

    /// A caller wants the lock. `seen` says whether the running driver has seen somebody in the
    /// way.
    pub fn join(
        &mut self,
        waiting: &Waiter,
        by: &impl Grants<L, Mode, B, O>,
        conflict: impl Fn(&B) -> Conflict,
        closed: impl FnOnce() -> LockError,
        seen: bool,
    ) -> (Joined<O>, Todo<L>) {
        let mut todo = Todo::default();
        if self.callers.closed {
            return (Joined::Refused(closed()), todo);
        }
        let now = waiting.since;
        match &self.phase {
            Phase::Lingering { lease, mode, .. }
                if *mode == waiting.wants && lease.may_stay(now) =>
            {
                let lease = lease.clone();
                self.turn = Turn::begin(&waiting.queue_policy.handoffs, now);
                return (Joined::Granted(self.enter(waiting, lease, by)), todo);
            }
            // Of another mode, or lost and so nobody's.
            Phase::Lingering { .. } => todo.release = self.renew(&mut todo),
            // The answer may come only when the connection is back.
            Phase::Asking { lease, .. } if !lease.is_valid(now) => {
                todo.release = self.renew(&mut todo);
            }
            // A caller that still works under a lost lease was told, and deletes the node in the
            // end; the next one waits in ZooKeeper's queue.
            Phase::Held { lease, .. } if !lease.is_valid(now) => drop(self.renew(&mut todo)),
            Phase::Held { lease, mode: Mode::Read }
                if waiting.wants == Mode::Read
                    && self.callers.waiters.is_empty()
                    && self.behind != Some(true)
                    && !lease.is_revoked()
                    && !lease.is_retired()
                    && self.turn.take(now) =>
            {
                let lease = lease.clone();
                return (Joined::Granted(self.enter(waiting, lease, by)), todo);
            }
            _ => {}
        }
        let (mut own, mut anew) = (false, false);
        for holder in self.in_the_way() {
            match conflict(holder) {
                Conflict::None => {}
                Conflict::Own | Conflict::OwnRead => own = true,
                Conflict::LetGo => anew = true,
            }
        }
        if anew {
            self.begin_anew(&mut todo, |holder| conflict(holder) == Conflict::LetGo);
        }
        let readers = self.readers(waiting);
        // Those between wait for these readers, and so for the newcomer, which reads already.
        if let (true, Some(lease)) = (own, readers) {
            let lease = lease.clone();
            return (Joined::Granted(self.enter(waiting, lease, by)), todo);
        }
        let reads = own && waiting.wants == Mode::Read;
        if let Some(lease) = reads.then(|| self.read_apart(&conflict)).flatten() {
            let (holder, granted) = by.grant(waiting, &lease, empty());
            self.apart.push((lease, holder));
            return (Joined::Granted(granted), todo);
        }
        // A session that is used no more ends with the last node in it: who comes now reads beside this one, by
        // a node in the next session.
        if readers.is_some_and(|lease| lease.is_retired()) && self.callers.waiters.is_empty() {
            drop(self.renew(&mut todo));
        }
        let readers = self.readers(waiting);
        let is_open = |lease: &Arc<L>| {
            self.callers.waiters.is_empty() && self.behind != Some(true) && !lease.is_revoked()
        };
        let open = readers.filter(|lease| is_open(lease)).cloned();
        if waiting.once && open.is_none() && self.keeps_out(waiting, seen) {
            return (Joined::Busy, todo);
        }
        let place = self.callers.enqueue(waiting, self.holders.len());
        if matches!(self.phase, Phase::Idle) {
            todo.fetch = self.fetch();
        } else if open.is_some() && !std::mem::replace(&mut self.asking, true) {
            // The limit is reached: the node stays open to newcomers only if nobody is behind it.
            todo.rare().ask = open;
        }
        (Joined::Waits(place), todo)
    }

    /// The node of the present readers, for one more.
    fn readers(&self, waiting: &Waiter) -> Option<&Arc<L>> {
        match &self.phase {
            Phase::Held { lease, mode: Mode::Read } if waiting.wants == Mode::Read => Some(lease),
            _ => None,
        }
    }

    /// A node by which the newcomer reads already, apart from the present one.
    fn read_apart(&self, conflict: impl Fn(&B) -> Conflict) -> Option<Arc<L>> {
        let reads = |(_, holder): &&(Arc<L>, B)| conflict(holder) == Conflict::OwnRead;
        self.apart.iter().find(reads).map(|(lease, _)| lease.clone())
    }

    /// Holders that lost the lock begin anew.
    pub fn begins_anew(&mut self, is_one: impl Fn(&B) -> bool) -> Todo<L> {
        let mut todo = Todo::default();
        self.begin_anew(&mut todo, is_one);
        todo
    }

    /// Their nodes go, unless others still work under them: readers share a node.
    fn begin_anew(&mut self, todo: &mut Todo<L>, is_one: impl Fn(&B) -> bool) {
        if self.holders.iter().any(&is_one) {
            drop(self.renew(todo));
        }
        let mut over = Vec::new();
        self.apart.retain(|(lease, holder)| {
            let goes = is_one(holder);
            over.extend(goes.then(|| lease.clone()));
            !goes
        });
        over.retain(|lease| !self.apart.iter().any(|(other, _)| Arc::ptr_eq(other, lease)));
        if !over.is_empty() {
            todo.rare().let_go = over;
        }
    }
}
