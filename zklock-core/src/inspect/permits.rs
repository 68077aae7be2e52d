//! Which permits of a semaphore are held: the limit does not tell, because it may have been lowered.

use std::any::Any;

use crate::base::owner::Owner;
use crate::coordinator::node::Stat;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::inspect::site::Site;
use crate::layout::contender::Contender;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver as _;
use crate::layout::permits::{KazooPermits, Permits};
use crate::layout::verdict::Verdict;

/// How many permits are read at the same time. Few callers want more at once.
pub(crate) const AT_ONCE: usize = 8;

/// What was read of something that need not be there.
pub(crate) fn or_nothing<T: Default>(read: Result<T, RequestError>) -> Result<T, RequestError> {
    match read {
        Err(RequestError::NoNode) => Ok(T::default()),
        read => read,
    }
}

/// In which session a node was made, and when.
pub(crate) fn made(
    read: Result<(Vec<u8>, Stat), RequestError>,
) -> Result<(i64, i64), RequestError> {
    or_nothing(read.map(|(_, stat)| (stat.ephemeral_owner, stat.czxid)))
}

/// Who made a node, as its data say, in which session, and when.
fn made_by(read: Result<(Vec<u8>, Stat), RequestError>) -> Result<(Owner, i64, i64), RequestError> {
    let by = |(data, stat): (Vec<u8>, Stat)| {
        (Owner::from_payload(&data), stat.ephemeral_owner, stat.czxid)
    };
    or_nothing(read.map(by))
}

/// How many permits, from the last one on, are those that the first one in the inner lock waits for: it has
/// made them after its node there. Its session may hold others, which are older, or were made by callers that stood
/// before it there: Curator's client takes the inner lock for each permit, so one is its own at most, and zklock
/// writes into the node of a permit that it is held. Somebody holds the oldest of all, unless the semaphore is closed.
pub(crate) async fn awaited(
    coordinator: &dyn Coordinator,
    (leases, permits): (&str, &[Contender]),
    (locks, waiting): (&str, &[String]),
) -> Result<usize, RequestError> {
    let queue = Curator.queue(waiting);
    let Some(first) = queue.first().filter(|_| !permits.is_empty()) else { return Ok(0) };
    let (waiter, session, since) =
        made_by(coordinator.get(&format!("{locks}/{}", first.name)).await)?;
    let is_zklock = waiter.pid.is_some();
    let (mut awaited, mut newer_than_last) = (0, None);
    for some in permits.rchunks(AT_ONCE) {
        let read = |one: &Contender| coordinator.get(&format!("{leases}/{}", one.name));
        let asked: Vec<_> = some.iter().rev().map(read).collect();
        for one in asked {
            let (owner, of, at) = made_by(one.await)?;
            // One that is gone by now is held by nobody either.
            let is_gone = at == 0;
            if !is_gone {
                let may_wait = since != 0 && of == session && at > since && owner.granted.is_none();
                if !may_wait || (newer_than_last.is_some() && !is_zklock) {
                    return Ok(awaited);
                }
                newer_than_last = Some(awaited);
            }
            awaited += 1;
        }
    }
    Ok(newer_than_last.unwrap_or(awaited))
}

impl Site {
    /// How many nodes at the end of a queue of permits do not hold one. Costs nothing unless there are more than
    /// the limit.
    pub(crate) async fn without_permit(
        &self,
        coordinator: &dyn Coordinator,
        queue: &[Contender],
    ) -> Result<usize, RequestError> {
        let verdict = queue.last().map(|last| self.driver.verdict(queue, last));
        let Some(Verdict::Crowded { excess }) = verdict else { return Ok(0) };
        let driver = &*self.driver as &dyn Any;
        // There, nobody makes a node while there is no room for it.
        if driver.is::<KazooPermits>() {
            return Ok(0);
        }
        match self.path().strip_suffix("/leases").filter(|_| driver.is::<Permits>()) {
            None => Ok(excess),
            Some(semaphore) => {
                let locks = format!("{semaphore}/locks");
                let waiting = or_nothing(coordinator.children(&locks).await)?;
                awaited(coordinator, (self.path(), queue), (&locks, &waiting)).await
            }
        }
    }
}
