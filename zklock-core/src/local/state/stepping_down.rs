//! A writer becomes a reader.

use std::sync::Arc;

use super::{Phase, State};
use crate::base::mode::Mode;
use crate::local::callers::Grants;
use crate::local::todo::{Lent, Todo};

impl<L: Lent, B, O> State<L, B, O> {
    /// A writer was downgraded: the lock has a new node, held for reading by the same caller. The
    /// readers that wait next enter beside it, also in a ZooKeeper session that is used no more: nobody who comes
    /// later does, so that it ends. If it is `in_doubt` whether something that was sent under the writer is applied as
    /// long as its node is there, they come in by a node of their own, once that one is deleted.
    pub fn stepped_down(
        &mut self,
        (from, to): (&Arc<L>, Arc<L>),
        reader: B,
        in_doubt: bool,
        by: &impl Grants<L, Mode, B, O>,
    ) -> Todo<L> {
        let mut todo = Todo::default();
        if in_doubt && self.phase.stands_on(from) {
            drop(self.renew(&mut todo));
        }
        if !matches!(self.phase, Phase::Held { .. }) || !self.phase.stands_on(from) {
            // The writer continues under the new node.
            self.apart.retain(|(lease, _)| !Arc::ptr_eq(lease, from));
            self.apart.push((to, reader));
            return todo;
        }
        (self.behind, self.accompanied, self.asking) = (None, false, false);
        self.holders.clear();
        self.holders.push(reader);
        self.phase = Phase::Held { lease: to.clone(), mode: Mode::Read };
        let reads = self.callers.waiters.first().is_some_and(|next| next.wants == Mode::Read);
        // Whoever was asked to let go lets nobody in.
        if reads && !to.is_revoked() {
            self.grant_first(&mut todo, (to, Mode::Read), true, by);
        }
        todo
    }
}
