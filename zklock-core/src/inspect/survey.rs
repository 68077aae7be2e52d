//! Everything that ZooKeeper tells about a lock at one time, to find out why it is stuck.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::cooldown::mark::Mark;
use crate::cooldown::server_time::time_of;
use crate::coordinator::access::AclEntry;
use crate::coordinator::request_error::RequestError;
use crate::divergence::check::phantom_among;
use crate::inspect::contenders::{ContenderInfo, Described};
use crate::inspect::site::Site;
use crate::session::handle::Session;

/// The number of nodes at the head of a queue about which the leader is asked.
const MOST_CHECKED: usize = 1_000;

/// What ZooKeeper tells about a lock. Returned by [`Site::survey`].
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let _guard = session.mutex("orders")?.acquire().await?;
/// let survey: zklock::Survey = session.site("orders")?.survey().await?;
/// assert_eq!((survey.queue.len(), survey.next_number), (1, 1));
/// assert!(survey.strangers.is_empty() && survey.phantom.is_none() && survey.created.is_some());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// The queue, as [`contenders`](Site::contenders) returns it; but while the lock is unavailable, the first in
    /// it does not count as the holder.
    pub queue: Vec<ContenderInfo>,
    /// The names of the nodes behind the [head](Site::head) of the queue, in order. They were not read.
    pub unread: Vec<String>,
    /// The children of the directory that are no contenders, sorted.
    pub strangers: Vec<String>,
    /// The number of the next node. ZooKeeper counts to 2³¹−1, and a lock is refused from 2³¹−2²⁰.
    pub next_number: i64,
    /// When the directory was created, by the server's clock; `None` if there is none. ZooKeeper deletes a
    /// container within minutes when nobody uses the lock; a persistent directory stays.
    pub created: Option<SystemTime>,
    /// The access control list of the directory; `None` if the coordinator keeps none, or refuses to show it.
    pub acl: Option<Vec<AclEntry>>,
    /// The path of a node that the server shows and its leader does not know: the data of the
    /// server differ from its leader's.
    pub phantom: Option<String>,
    /// Until when the lock is unavailable by the server's clock, because its holder was lost
    /// ([`lock_delay`](crate::base::options::LockOptions::lock_delay)) or it is kept from a grant
    /// ([`hold_at_least`](crate::base::options::LockOptions::hold_at_least)).
    pub unavailable_until: Option<SystemTime>,
    /// How long the lock will be unavailable from the moment when somebody next tries to acquire it, because
    /// its holder was lost ([`lock_delay`](crate::base::options::LockOptions::lock_delay)) and nobody has
    /// tried since.
    pub lock_delay: Option<Duration>,
}

impl Site {
    /// Reads everything that ZooKeeper tells about this lock, from the server to which the session is
    /// connected, and asks the leader whether it knows the nodes, too.
    ///
    /// Costs three requests, one more for each node or for each of the [head](Site::head), one after the loss
    /// of a holder with `lock_delay`, and a commit that changes nothing.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let survey = session.site("orders")?.survey().await?;
    /// assert!(survey.queue.is_empty() && survey.acl.is_none());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`contenders`](Site::contenders).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn survey(&self) -> Result<Survey, LockError> {
        let mut survey = self
            .look(async |generation| {
                let coordinator = generation.coordinator();
                // The data first: a holder that it names has its node in the list, or none any more.
                let (got, listed, acl) = (
                    coordinator.get(self.path()),
                    coordinator.children(self.path()),
                    coordinator.acl(self.path()),
                );
                let listed = match listed.await {
                    Err(RequestError::NoNode) => return Ok(Survey::default()),
                    listed => listed?,
                };
                let (data, stat) = match got.await {
                    Err(RequestError::NoNode) => return Ok(Survey::default()),
                    got => got?,
                };
                let acl = match acl.await {
                    Err(error) if error.is_definite() => None,
                    acl => acl?,
                };
                let mark = Mark::read(&data).unwrap_or_default();
                let described = self.describe(&**coordinator, listed.clone(), &[], &mark).await?;
                let Described { queue, gone } = described;
                let behind = self.driver.queue(&listed).into_iter().skip(self.most);
                let unread: Vec<_> = behind.map(|one| one.name).collect();
                let in_queue = queue.iter().map(|one| &one.node).chain(&unread);
                let contenders: HashSet<_> = in_queue.chain(&gone).collect();
                let mut strangers: Vec<_> =
                    listed.iter().filter(|child| !contenders.contains(child)).cloned().collect();
                strangers.sort();
                let paths: Vec<_> =
                    queue.iter().take(MOST_CHECKED).map(|one| self.path_of(&one.node)).collect();
                let phantom = phantom_among(&generation, &paths).await?.map(|node| node.path);
                let is_gone = !queue.iter().any(|one| Ok(one.czxid) == u64::try_from(mark.node));
                // A release removes the mark with the node; a holder that is lost leaves it.
                let is_lost = is_gone
                    && !mark.delay.is_zero()
                    && match coordinator.get(self.path()).await {
                        Err(RequestError::NoNode) => false,
                        now => now?.1.version == stat.version,
                    };
                let lock_delay = is_lost.then_some(mark.delay);
                Ok(Survey {
                    queue,
                    unread,
                    strangers,
                    next_number: next_number(stat.cversion, stat.num_children),
                    created: time_of(stat.ctime),
                    acl,
                    phantom,
                    unavailable_until: mark.until(),
                    lock_delay,
                })
            })
            .await?;
        self.add_callers(&mut survey.queue);
        Ok(survey)
    }
}

impl Session {
    /// Returns the access control list of the session's root, such as `/zklock`; `None` if the coordinator
    /// keeps no such lists, refuses to show it, or there is no root yet.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.root_acl().await?, None);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`contenders`](Site::contenders).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the call only reads.
    pub async fn root_acl(&self) -> Result<Option<Vec<AclEntry>>, LockError> {
        let looking = self.site("root")?;
        let acl = looking.look(async |generation| {
            match generation.coordinator().acl(self.root().as_str()).await {
                Err(error) if error.is_definite() => Ok(None),
                acl => acl,
            }
        });
        acl.await
    }
}

/// The number that the next node gets: how many children were created. ZooKeeper counts deletions, too,
/// in 32 bits that overflow.
fn next_number(cversion: i32, children: i32) -> i64 {
    i64::from(cversion.wrapping_add(children).cast_unsigned() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_is_known_although_the_count_of_changes_overflows() {
        // Three created, one deleted.
        assert_eq!(next_number(4, 2), 3);
        let created = i32::MAX - 5;
        let changes = created.wrapping_mul(2).wrapping_sub(7);
        assert_eq!(next_number(changes, 7), i64::from(created));
    }
}
