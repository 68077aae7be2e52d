//! The leader of the recipes.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zklock::testing::TestLocks;
use zklock::{LockError, is_held_in_scope, zk_locked};

/// Works until the lock is lost, or somebody asks for it.
#[zk_locked("leaders/importer", timeout = "1h", retries = 1, on_lost = cancel, on_revoked = cancel)]
async fn lead(work: &impl AsyncFn()) -> Result<Infallible, LockError> {
    loop {
        work().await;
    }
}

/// Returns when trying again is useless, or the session is closed.
async fn stand(work: impl AsyncFn()) -> LockError {
    loop {
        let error = match lead(&work).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        if error.is_permanent() || error.is_closing() {
            return error;
        }
        // Another process leads, ZooKeeper is out of reach, or the lock was lost.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[test]
fn the_recipe_is_the_same() {
    let (page, here) = (include_str!("../../../../docs/recipes.md"), include_str!("leader.rs"));
    let items = here
        .split("\n\n")
        .filter(|item| item.contains("async fn lead(") || item.contains("async fn stand("));
    let items: Vec<_> = items.filter(|item| item.starts_with("/// ")).collect();
    assert_eq!(items.len(), 2);
    assert!(items.iter().all(|item| page.contains(item)));
}

/// Its lock is lost, asked for, and out of reach; each time it stops, and leads again.
#[tokio::test(start_paused = true)]
async fn a_leader_stops_with_its_lock_and_stands_again() {
    let locks = TestLocks::install();
    let (began, ended) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
    struct Ends<'a>(&'a AtomicUsize);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let work = async || {
        let _ends = Ends(ended);
        assert!(is_held_in_scope("leaders/importer"));
        began.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
    };
    let moment = || tokio::time::sleep(Duration::from_secs(1));
    let counts = || (began.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
    let disturb = async {
        moment().await;
        assert_eq!(counts(), (1, 0));
        locks.lose();
        moment().await;
        assert_eq!(counts(), (2, 1));
        assert_eq!(locks.revoke("leaders/importer").unwrap(), 1);
        moment().await;
        assert_eq!(counts(), (3, 2));
        locks.begin_outage();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(counts(), (3, 3));
        locks.end_outage();
        moment().await;
        moment().await;
        assert_eq!(counts(), (4, 3));
        locks.session().close().await;
    };
    let (last, ()) = tokio::join!(stand(work), disturb);
    assert!(last.is_lost() || last.is_closing(), "{last:?}");
    assert_eq!(counts(), (4, 4));
}
