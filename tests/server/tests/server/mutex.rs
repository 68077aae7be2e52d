//! The mutex among sessions, each of which stands for a process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use zklock::{ErrorKind, Owner};

use crate::bed::{Bed, soon};
use crate::inside::Inside;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_their_tasks_never_overlap_and_tokens_grow() {
    let bed = Bed::shared("overlap");
    let sessions = bed.sessions(5).await;
    let busy = bed.busy(&[&sessions[0], &sessions[1]]).await;
    let inside = Arc::new(Inside::default());
    let mut tasks = JoinSet::new();
    for session in sessions {
        for task in 0..4 {
            let (mutex, inside) = (session.mutex("a").unwrap(), inside.clone());
            tasks.spawn(async move {
                for _ in 0..10 {
                    let guard = soon("the lock", mutex.acquire()).await.unwrap();
                    inside.pass(&guard, Duration::ZERO).await;
                    if task % 2 == 0 { guard.release().await.unwrap() } else { drop(guard) }
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    inside.assert_in_order(200);
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_sessions_wait_and_all_enter_one_at_a_time() {
    let bed = Bed::shared("twenty-wait");
    let inside = Arc::new(Inside::default());
    let start = Arc::new(Barrier::new(20));
    let mut tasks = JoinSet::new();
    for session in bed.sessions(20).await {
        let (mutex, inside) = (session.mutex("a").unwrap(), inside.clone());
        let start = start.clone();
        tasks.spawn(async move {
            start.wait().await;
            let guard = soon("the lock", mutex.acquire()).await.unwrap();
            inside.pass(&guard, Duration::ZERO).await;
            guard.release().await.unwrap();
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    inside.assert_in_order(20);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_sessions_that_try_once_one_wins() {
    let bed = Bed::shared("twenty-try");
    let (start, tried) = (Arc::new(Barrier::new(20)), Arc::new(Barrier::new(20)));
    let mut tasks = JoinSet::new();
    for session in bed.sessions(20).await {
        let (start, tried) = (start.clone(), tried.clone());
        let mutex = session.mutex("a").unwrap();
        tasks.spawn(async move {
            start.wait().await;
            let tried_once = mutex.try_acquire().await;
            tried.wait().await;
            match tried_once {
                Ok(guard) => guard.release().await.map(|()| 1).unwrap(),
                Err(error) => {
                    assert!(error.is_busy(), "{error}");
                    0
                }
            }
        });
    }
    let mut won = 0;
    while let Some(task) = tasks.join_next().await {
        won += task.unwrap();
    }
    assert_eq!(won, 1);
    bed.end().await;
}

#[tokio::test]
async fn a_failed_try_says_who_holds_and_leaves_nothing() {
    let bed = Bed::shared("failed-try");
    let (holder, other) = (bed.session().await, bed.session().await);
    let guard = holder.mutex("a").unwrap().acquire().await.unwrap();
    let node = guard.node_path().rsplit('/').next().unwrap().to_owned();
    for _ in 0..5 {
        let error = other.mutex("a").unwrap().try_acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Busy, "1011"));
        assert!(format!("{error:#}").starts_with("a is being processed by tests on "), "{error}");
        let by = error.holder().unwrap();
        assert_eq!((by.node.as_str(), by.ahead), (node.as_str(), 1));
        assert_eq!(by.owner.pid, Some(std::process::id()));
    }
    bed.until_contenders("a", 1).await;
    // The holder watches its own node once it has held the lock for a while.
    assert_eq!(bed.watched_by(&other), [""; 0]);
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_released_lock_is_acquired_again_and_again() {
    let bed = Bed::shared("again");
    let (one, two) = (bed.session().await, bed.session().await);
    let mut last = None;
    for round in 0..30 {
        let session = if round % 3 == 0 { &two } else { &one };
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        assert!(last < Some(guard.fencing_token()));
        last = Some(guard.fencing_token());
        assert_eq!(bed.contenders("a").len(), 1);
        guard.release().await.unwrap();
        assert_eq!(bed.contenders("a").len(), 0);
    }
    bed.end().await;
}

#[tokio::test]
async fn any_tool_can_read_who_holds() {
    let bed = Bed::shared("payload");
    let session = bed.session().await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let mut raw = bed.raw();
    let data = raw.data(guard.node_path()).unwrap();
    raw.close().unwrap();
    let text = std::str::from_utf8(&data).unwrap();
    for part in ["\"host\":", "\"app\":\"tests\"", &format!("\"pid\":{}", std::process::id())] {
        assert!(text.contains(part), "{text}");
    }
    let owner = Owner::from_payload(&data);
    assert!(!owner.host.is_empty() && owner.since.is_some(), "{text}");
    guard.release().await.unwrap();
    bed.end().await;
}
