//! The documents' exclusive lock among sessions.

use std::time::{Duration, Instant};

use zklock::ErrorKind;
use zklock_test_support::Control;

use crate::bed::{Bed, soon, until};

#[tokio::test]
async fn a_holder_whose_node_is_taken_over_from_outside_is_lost_at_once() {
    let bed = Bed::shared("exclusive-outside");
    let builder = bed.builder().session_timeout(Duration::from_secs(20));
    let session = bed.adopt(builder.connect().await.unwrap());
    let other = bed.session().await;
    let guard =
        session.mutex("a").unwrap().with_driver(zklock::layout::OneNode).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = other.mutex("a").unwrap().with_driver(zklock::layout::OneNode);
        async move { lock.acquire().await.unwrap() }
    });
    let both = [&session, &other];
    let watches = |session| bed.watched_by(session).iter().any(|path| path == guard.node_path());
    until("both watch", || both.into_iter().all(watches).then_some(())).await;
    let control = Control::of(bed.server());
    let mut raw = bed.raw();
    raw.delete(guard.node_path()).unwrap();
    let start = Instant::now();
    raw.close().unwrap();
    // The node is there again, but it is another's.
    let next = soon("the next", waiting).await.unwrap();
    soon("the loss", guard.lost()).await;
    control.within("taken over", start.elapsed(), Duration::ZERO);
    assert!(next.fencing_token() > guard.fencing_token());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.is_valid());
    let mut raw = bed.raw();
    assert!(raw.exists(next.node_path(), false).unwrap());
    raw.close().unwrap();
    next.release().await.unwrap();
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_enter_one_at_a_time() {
    let bed = Bed::shared("exclusive-many");
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for session in bed.sessions(5).await {
        let (lock, inside) =
            (session.mutex("a").unwrap().with_driver(zklock::layout::OneNode), inside.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = soon("the lock", lock.acquire()).await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    bed.end().await;
}
