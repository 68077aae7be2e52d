use std::cell::Cell;
use std::pin::pin;

use futures_lite::future::poll_once;

use crate::base::options::LockOptions;
use crate::base::times;
use crate::coordinator::connector::Connector as _;
use crate::coordinator::memory::Embedded;
use crate::session::handle::Session;

thread_local! {
    /// How many holders were kept, of all that were looked at.
    pub(super) static KEPT: Cell<usize> = const { Cell::new(0) };
}

#[tokio::test]
async fn of_a_thousand_holders_an_acquire_keeps_those_that_are_its_caller() {
    for fair in [false, true] {
        let semaphore = Session::embedded().semaphore("a", 1_001).unwrap();
        let semaphore = semaphore.with_options(LockOptions::new().fair(fair));
        let others = semaphore.clone();
        let theirs = tokio::spawn(async move {
            let mut all = others.acquire_many(1_000).await.unwrap();
            let mut parts: Vec<_> = (1..1_000).map(|_| all.split(1).unwrap()).collect();
            parts.push(all);
            parts
        });
        let theirs = theirs.await.unwrap();
        let before = KEPT.get();
        let own = semaphore.acquire().await.unwrap();
        assert_eq!(KEPT.get() - before, 0, "fair: {fair}");
        let mut waiting = pin!(semaphore.acquire());
        assert!(poll_once(&mut waiting).await.is_none());
        assert_eq!(KEPT.get() - before, 1, "fair: {fair}");
        drop((own, theirs));
    }
}

/// It is lost between the caller's look and the split.
#[tokio::test(start_paused = true)]
async fn of_permits_of_which_one_is_lost_no_part_makes_the_rest_valid_again() {
    for was_asked in [true, false] {
        let store = Embedded::new();
        let session = Session::embedded_builder(&store).open().unwrap();
        let three = session.semaphore("a", 3).unwrap().acquire_many(3).await.unwrap();
        let (grant, view) = (&three.grant, three.view());
        let raw = store.connector(times::SESSION_TIMEOUT).connect().await.unwrap();
        let last = grant.leases().last().unwrap().clone();
        raw.delete(last.path()).await.unwrap();
        while last.is_valid() {
            tokio::time::sleep(times::SHORTEST_TRY).await;
        }
        assert!(!was_asked || !view.is_valid());
        assert!(grant.split(1).is_none(), "asked before: {was_asked}");
        assert!(!view.is_valid() && grant.leases().count() == 3);
    }
}

/// Another thread has seen the loss of a part a moment before it is split off.
#[tokio::test]
async fn permits_that_somebody_was_told_are_lost_are_not_split() {
    let semaphore = Session::embedded().semaphore("a", 3).unwrap();
    let three = semaphore.acquire_many(3).await.unwrap();
    assert!(three.grant.is_known_lost(|_| false));
    assert!(three.grant.split(1).is_none());
    assert!(!three.is_valid() && three.grant.leases().count() == 3);
}
