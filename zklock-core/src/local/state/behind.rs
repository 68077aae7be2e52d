//! Whether a contender of another process is behind the node, and for how long the node is kept.

use std::sync::Arc;

use super::{Phase, State};
use crate::base::clock::Instant;
use crate::base::mode::Mode;
use crate::local::callers::Grants;
use crate::local::todo::{Lent, Todo};

impl<L: Lent, B, O> State<L, B, O> {
    /// Whether to ask again whether a contender is behind the node, if nobody replied: readers hold it,
    /// and a reader that waits to enter beside them must not be told that it is busy.
    pub fn asks_again(&self, lease: &Arc<L>) -> bool {
        self.asking && matches!(self.phase, Phase::Held { .. }) && self.phase.stands_on(lease)
    }

    /// The reply whether a contender is behind the node.
    pub fn asked(
        &mut self,
        lease: &Arc<L>,
        behind: bool,
        by: &impl Grants<L, Mode, B, O>,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        if !self.phase.stands_on(lease) {
            return todo;
        }
        self.asking = false;
        let (mode, lingers_until) = match self.phase {
            Phase::Asking { mode, until, .. } => (mode, Some(until)),
            Phase::Held { mode, .. } => (mode, None),
            _ => return todo,
        };
        let next = self.callers.waiters.first().map(|next| next.wants);
        let Some(until) = lingers_until else {
            // Readers hold it. Either those that came meanwhile enter, or the node is closed to newcomers.
            let open = !behind && lease.is_valid(by.now()) && !lease.is_revoked();
            let reads = next == Some(Mode::Read) && mode == Mode::Read;
            if reads && lease.is_retired() {
                drop(self.renew(&mut todo));
            } else if open && reads {
                self.grant_first(&mut todo, (lease.clone(), mode), true, by);
            } else {
                if behind {
                    self.behind = Some(true);
                    // Those who wait here, or come later, enter when that one has gone.
                    self.accompany(&mut todo, lease);
                }
                todo.wake_all.extend(self.callers.turn_away(|| by.busy(lease)));
            }
            return todo;
        };
        let stays = !behind && lease.may_stay(by.now());
        if stays && next == Some(mode) {
            self.grant_first(&mut todo, (lease.clone(), mode), true, by);
        } else if stays && next.is_none() && until > by.now() {
            self.linger(&mut todo, lease.clone(), mode, until);
        } else {
            todo.release = self.renew(&mut todo);
        }
        todo
    }

    /// Whether the node is kept, and readers who come do not enter because somebody is behind it.
    pub fn is_closed(&self, lease: &Arc<L>) -> bool {
        self.behind == Some(true) && self.phase.stands_on(lease)
    }

    /// The companion of a node has looked behind it; `None` if nobody replied.
    pub fn looked_behind(
        &mut self,
        lease: &Arc<L>,
        behind: Option<bool>,
        by: &impl Grants<L, Mode, B, O>,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        if !self.phase.stands_on(lease) {
            return todo;
        }
        self.behind = behind;
        let next = self.callers.waiters.first().map(|next| next.wants);
        match self.phase {
            Phase::Lingering { .. } if behind == Some(true) => {
                todo.release = self.renew(&mut todo);
            }
            // Readers that waited because of somebody behind the node enter when that one has gone.
            Phase::Held { mode: Mode::Read, .. }
                if behind == Some(false) && next == Some(Mode::Read) =>
            {
                if lease.is_retired() {
                    drop(self.renew(&mut todo));
                } else if lease.is_valid(by.now()) && !lease.is_revoked() {
                    self.grant_first(&mut todo, (lease.clone(), Mode::Read), true, by);
                }
            }
            _ => {}
        }
        todo
    }

    /// Whether a node still needs its companion, which has `a_watch` or not, and ends if not. Where nobody is behind
    /// readers, those who come ask by themselves; only a node that `lingers` is watched for its next rest. Without a watch
    /// no node lingers, and somebody looks only where readers wait for one that is behind them.
    pub fn needs_companion(&mut self, lease: &Arc<L>, a_watch: bool, lingers: bool) -> bool {
        if !self.phase.stands_on(lease) {
            return false;
        }
        let reads = matches!(self.phase, Phase::Held { mode: Mode::Read, .. });
        let is_needed = match a_watch {
            true => !reads || lingers || self.behind != Some(false),
            false => reads && self.behind == Some(true),
        };
        if !is_needed {
            (self.behind, self.accompanied) = (None, false);
        }
        is_needed
    }

    /// A companion without a watch asks whether it should continue, and ends the lingering. Both at once: a node that
    /// begins to linger in between would have no companion.
    pub fn goes_on_unwatched(&mut self, lease: &Arc<L>, now: Instant) -> (bool, Todo<L>) {
        let (until, todo) = self.linger_on(lease, true, now);
        (until.is_some() && self.needs_companion(lease, false, false), todo)
    }

    /// The companion of a node asks whether it should continue, and until when to sleep. `doubt`
    /// ends the lingering.
    pub fn linger_on(
        &mut self,
        lease: &Arc<L>,
        doubt: bool,
        now: Instant,
    ) -> (Option<Instant>, Todo<L>) {
        let mut todo = Todo::default();
        if !self.phase.stands_on(lease) {
            return (None, todo);
        }
        self.sleeps_until = match &self.phase {
            Phase::Lingering { lease, until, .. }
                if doubt || now >= *until || !lease.may_stay(now) =>
            {
                todo.release = self.renew(&mut todo);
                return (None, todo);
            }
            Phase::Lingering { until, .. } => *until,
            // While a caller holds the lock, there is nothing to end.
            _ => Instant::FAR,
        };
        (Some(self.sleeps_until), todo)
    }
}
