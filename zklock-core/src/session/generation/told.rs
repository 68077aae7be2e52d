//! What the node of a held lock tells about its holder.
//!
//! A node is created before anybody holds the lock, and it may be handed on. A holder
//! of more than a heartbeat is written into the node with that heartbeat: in its transaction, in the
//! place of the check that the node exists.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::HeldNode;
use crate::base::clock::Clock;
use crate::base::owner::Owner;
use crate::base::token::FencingToken;
use crate::session::local_queues::Holding;

/// What a node tells, as far as this process has written it.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The holder that it names.
    by: Option<FencingToken>,
    /// Its data, if they are not those with which it was created.
    data: Option<Arc<[u8]>>,
    /// Whether these may not have been written.
    unsure: bool,
    /// Whether the server does not allow it to be written.
    refused: bool,
}

impl HeldNode {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data that it has or is about to have, if known.
    pub fn data(&self) -> Option<Arc<[u8]>> {
        self.told().data.clone().or_else(|| self.payload.clone())
    }

    /// Returns the data that are to be written now, and counts them as written: if somebody has
    /// held the lock for `long`, or if what the node tells is no longer so. `None` if it is, and for
    /// data of another format. Nodes whose names recur are never written, because another client may
    /// have created one at the same path, with the same version.
    pub fn news(
        &self,
        holding: Option<&Holding>,
        long: Duration,
        clock: &Clock,
    ) -> Option<Vec<u8>> {
        if self.is_recurring() {
            return None;
        }
        let by = holding.map(|holding| holding.token);
        let held_for = holding.map(|holding| clock.now().since(holding.since));
        let is_long = held_for.is_some_and(|held_for| held_for >= long);
        let mut told = self.told();
        if told.refused || told.by == by && by.is_some() {
            return None;
        }
        let before = Owner::of_zklock(told.data.as_ref().or(self.payload.as_ref())?)?;
        let label = holding.and_then(|holding| holding.label.as_deref());
        let owner = Owner { revoked: self.is_revoked(), granted: None, ..before.clone() };
        let owner = owner.label(label);
        let is_told = told.by.is_none() && !told.unsure && owner.label == before.label;
        if is_told && !is_long {
            return None;
        }
        let owner = match held_for {
            Some(held_for) => owner.granted_ago_on(clock.machine(), held_for),
            None => owner,
        };
        let data = owner.to_payload();
        *told = Told { by, data: Some(data.as_slice().into()), unsure: false, refused: false };
        Some(data)
    }

    /// Records that it is unknown whether such data were written: they are written again.
    pub fn unsure(&self) {
        let mut told = self.told();
        (told.by, told.unsure) = (None, true);
    }

    /// Records that the server refused to write such data: they are as they were created. As each refusal costs a
    /// request and proves nothing, nothing is written then.
    pub fn refuses(&self) {
        *self.told() = Told { refused: true, ..Told::default() };
    }
}
