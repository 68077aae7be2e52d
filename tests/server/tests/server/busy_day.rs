//! The promises on a busy day.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zklock_test_support::CreateMode;

use crate::bed::{Bed, acquiring, soon};

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
    assert!(session.held().is_empty(), "{:?}", session.held());
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
