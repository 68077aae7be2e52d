use std::cell::Cell;
use std::pin::pin;

use futures_lite::future::poll_once;

use crate::base::options::LockOptions;
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
