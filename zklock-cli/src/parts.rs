//! Reading a queue in parts: a long one of a server far away is not read in the time of one look.

use std::time::Duration;

use tokio::time::Instant;
use zklock::{ContenderInfo, LockError, Site};

/// So many nodes of each queue are read first: the holders, and who is next.
pub(crate) const HEAD: usize = 100;
/// Behind the head so many are read at a time as take about so long, by the time that the head took.
const ENOUGH: Duration = Duration::from_millis(500);

/// Reads a whole queue: of those that are known only who holds.
pub(crate) async fn whole(
    site: &Site,
    known: &[ContenderInfo],
) -> Result<Vec<ContenderInfo>, LockError> {
    read_while(site, known, (HEAD, ENOUGH), |_| true).await
}

/// Reads the head of a queue, and what is behind it for as long as this says so of what was read.
pub(crate) async fn head_and_while(
    site: &Site,
    goes_on: impl Fn(&[ContenderInfo]) -> bool,
) -> Result<Vec<ContenderInfo>, LockError> {
    read_while(site, &[], (HEAD, ENOUGH), goes_on).await
}

/// Whoever holds the inner lock of a semaphore waits for a permit.
pub(crate) fn all_wait(inner: &mut [ContenderInfo]) {
    inner.iter_mut().for_each(|one| one.holds = false);
}

async fn read_while(
    site: &Site,
    known: &[ContenderInfo],
    (part, enough): (usize, Duration),
    goes_on: impl Fn(&[ContenderInfo]) -> bool,
) -> Result<Vec<ContenderInfo>, LockError> {
    let (head, begin) = (site.clone().head(part), Instant::now());
    // What was read is shorter than the head also where nodes have gone meanwhile: their number says where the end is.
    let (children, queue) = tokio::join!(site.children(), head.contenders_reusing(known));
    let (most, mut queue, mut read) = (children?.len(), queue?, part);
    let fit = enough.as_nanos() / begin.elapsed().as_nanos().max(1);
    let step = part.saturating_mul(usize::try_from(fit).unwrap_or(usize::MAX).max(1));
    while read < most && goes_on(&queue) {
        let last = queue.last().map(|one| one.czxid);
        read = read.saturating_add(step);
        let next = site.clone().head(read);
        queue = match known {
            [] => next.contenders_reusing(&queue).await?,
            known => next.contenders_reusing(&[known, &queue].concat()).await?,
        };
        // The other children are no contenders, such as the directories of locks with longer names.
        if queue.last().map(|one| one.czxid) == last {
            break;
        }
    }
    Ok(queue)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;
    use zklock::driver::{Connector, NodeKind};
    use zklock::{Embedded, RwLockReadGuard, Session};

    /// A queue of seven, each with a session and a node of its own.
    pub(crate) struct Seven {
        pub(crate) site: Site,
        pub(crate) queue: Vec<ContenderInfo>,
        _guards: Vec<(Session, RwLockReadGuard)>,
    }

    impl Seven {
        pub(crate) async fn new() -> Self {
            let (store, mut guards) = (Embedded::new(), Vec::new());
            for _ in 0..7 {
                let session = Session::embedded_builder(&store).open().unwrap();
                let guard = session.rw_lock("a").unwrap().read().await.unwrap();
                guards.push((session, guard));
            }
            let session = Session::embedded_builder(&store).open().unwrap();
            let site = session.site("a").unwrap();
            let queue = site.contenders().await.unwrap();
            assert_eq!(queue.len(), 7);
            Seven { site, queue, _guards: guards }
        }
    }

    #[tokio::test]
    async fn the_end_of_a_queue_is_found_among_many_other_children() {
        let store = Embedded::new();
        let session = Session::embedded_builder(&store).open().unwrap();
        let _guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let raw = store.connector(Duration::from_secs(10)).connect().await.unwrap();
        for number in 0..1_000 {
            raw.create(&format!("/zklock/a/{number}"), b"", NodeKind::Persistent).await.unwrap();
        }
        let (site, asked) = (session.site("a").unwrap(), Cell::new(0));
        let goes_on = |_: &[ContenderInfo]| {
            asked.set(asked.get() + 1);
            true
        };
        let read = read_while(&site, &[], (1, Duration::ZERO), goes_on).await.unwrap();
        assert_eq!((read.len(), asked.get()), (1, 1), "parts");
    }

    #[tokio::test]
    async fn a_queue_is_read_to_its_end_or_for_as_long_as_it_is_wanted() {
        let seven = Seven::new().await;
        let (site, all) = (&seven.site, &seven.queue);
        for (part, enough) in [(1, 0), (2, 0), (3, 0), (7, 0), (100, 0), (1, 1_000), (2, 1_000)] {
            let parts = (part, Duration::from_secs(enough));
            for known in 0..=7 {
                let read = read_while(site, &all[..known], parts, |_| true).await.unwrap();
                assert_eq!(read, *all, "{parts:?} {known}");
            }
            let two = read_while(site, &[], parts, |queue| queue.len() < 2).await.unwrap();
            assert!((2..=7).contains(&two.len()) && two[..] == all[..two.len()], "{parts:?}");
            assert!(enough > 0 || two.len() <= 2.max(part), "{parts:?}: {}", two.len());
        }
    }
}
