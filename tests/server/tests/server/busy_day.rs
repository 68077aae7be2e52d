//! The promises on a busy day.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use zklock_test_support::CreateMode;

use crate::bed::{Bed, acquiring, soon};
use crate::busy::{Busy, SHORT};

#[tokio::test]
async fn the_traffic_ends_with_its_guard_and_leaves_nothing() {
    let bed = Bed::shared("busy-ends");
    let session = bed.session().await;
    let busy = bed.busy(&[&session]).await;
    let guard = soon("the lock", acquiring(&session, "a")).await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    drop(busy);
    // On a panic as well.
    let busy = bed.busy(&[&session]).await;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _busy = busy;
        panic!("as asked");
    }));
    assert!(panicked.is_err());
    assert!(session.local_contenders().is_empty(), "{:?}", session.local_contenders());
    bed.end().await;
}

#[tokio::test]
async fn traffic_that_fails_fails_its_test() {
    let bed = Arc::new(Bed::shared("busy-fails"));
    let session = bed.session().await;
    let mut raw = bed.raw();
    // Nothing can be made below it.
    raw.create(&bed.path("")[..bed.path("").len() - 1], b"", CreateMode::Container).unwrap();
    raw.create(&bed.path("busy"), b"", CreateMode::Ephemeral).unwrap();
    let flows = tokio::spawn({
        let bed = bed.clone();
        async move { drop(bed.busy(&[&session]).await) }
    });
    assert!(flows.await.unwrap_err().is_panic());
    raw.close().unwrap();
    Arc::into_inner(bed).unwrap().end().await;
}

/// Whether the end of the traffic fails its test.
fn fails(busy: Busy) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(busy))).is_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traffic_that_stands_still_fails_its_test() {
    let bed = Bed::shared("busy-stands");
    let (session, other) = (bed.session().await, bed.session().await);
    for is_broken in [false, true] {
        let mut busy = match is_broken {
            false => bed.busy(&[&session]).await,
            true => bed.busy_while_broken(&[&session]).await,
        };
        let guard = soon("the lock", acquiring(&other, SHORT)).await.unwrap();
        // What was granted before does not count.
        busy.count_anew();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let ended = tokio::task::spawn_blocking(|| fails(busy));
        guard.release().await.unwrap();
        assert_eq!(ended.await.unwrap(), !is_broken);
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_traffic_fails_its_test_where_nothing_is_broken() {
    let bed = Bed::shared("busy-errs");
    for is_broken in [false, true] {
        let proxy = bed.proxy();
        let session = bed.session_through(&proxy).await;
        let busy = match is_broken {
            false => bed.busy(&[&session]).await,
            true => bed.busy_while_broken(&[&session]).await,
        };
        let guard = soon("the lock", acquiring(&session, "a")).await.unwrap();
        for key in proxy.sessions() {
            proxy.expire_session(key.id);
        }
        soon("the loss", guard.lost()).await;
        drop(guard);
        // All of it goes on, or has failed.
        soon("the lock", acquiring(&session, "a")).await.unwrap().release().await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(fails(busy), !is_broken);
    }
    bed.end().await;
}
