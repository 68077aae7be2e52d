//! The mutex among tasks and sessions.

use std::sync::Arc;
use std::time::Duration;

use zklock::{ErrorKind, LockOptions, Mutex, Session};
use zklock_core::coordinator::memory::Op;

use crate::support::{Inside, client, contenders, on, store};

#[tokio::test]
async fn it_is_free_held_and_free_again() {
    let (store, session) = store();
    let mutex = session.mutex("orders/create").unwrap();
    let guard = mutex.acquire().await.unwrap();
    assert!(guard.is_valid() && !guard.remaining().is_zero());
    assert_eq!(contenders(&store, "/zklock/orders/create").await.len(), 1);
    assert!(guard.node_path().starts_with("/zklock/orders/create/_c_"));
    guard.release().await.unwrap();
    assert!(contenders(&store, "/zklock/orders/create").await.is_empty());
    mutex.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn dropping_the_guard_releases() {
    let (store, session) = store();
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test]
async fn an_uncontended_lock_is_one_flight_and_a_deletion() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    store.record();
    mutex.acquire().await.unwrap().release().await.unwrap();
    let ops: Vec<_> = store.recorded().iter().map(|logged| logged.op).collect();
    // The last is the embedded coordinator's own watch on the held node, which stands in for the
    // heartbeat.
    assert_eq!(ops, [Op::Create, Op::Children, Op::Get, Op::Delete]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_one_session_and_of_many_never_overlap() {
    let (store, session) = store();
    let inside = Arc::new(Inside::default());
    let mut tasks = Vec::new();
    for task in 0..20 {
        let session = if task % 2 == 0 { session.clone() } else { on(&store) };
        let inside = inside.clone();
        tasks.push(crate::spawn(async move {
            let mutex = session.mutex("a").unwrap();
            for _ in 0..50 {
                let guard = mutex.acquire().await.unwrap();
                inside.pass().await;
                if task % 3 == 0 { guard.release().await.unwrap() } else { drop(guard) }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((inside.most(), inside.total()), (1, 1000));
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test]
async fn tokens_grow_over_handoffs_sessions_and_directories_made_anew() {
    let (store, session) = store();
    let other = on(&store);
    let mut tokens = Vec::new();
    for round in 0..4 {
        for session in [&session, &other, &session] {
            let guard = session.mutex("a").unwrap().acquire().await.unwrap();
            tokens.push(guard.fencing_token());
        }
        if round == 1 {
            assert!(contenders(&store, "/zklock/a").await.is_empty());
            client(&store).await.delete("/zklock/a").await.unwrap();
        }
    }
    // Handoffs within one node.
    let first = session.mutex("a").unwrap().acquire().await.unwrap();
    tokens.push(first.fencing_token());
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let mutex = session.mutex("a").unwrap();
            crate::spawn(async move { mutex.acquire().await.unwrap().fencing_token() })
        })
        .collect();
    tokio::task::yield_now().await;
    drop(first);
    for task in waiting {
        tokens.push(task.await.unwrap());
    }
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}

#[tokio::test]
async fn local_waiters_share_one_node_first_come_first_served() {
    let (store, session) = store();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for task in 0..10 {
        let (mutex, order) = (session.mutex("a").unwrap(), order.clone());
        tasks.push(crate::spawn(async move {
            let _guard = mutex.acquire().await.unwrap();
            order.lock().unwrap().push(task);
            tokio::task::yield_now().await;
        }));
        tokio::task::yield_now().await;
    }
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    let here = session.local_contenders();
    assert_eq!((here.len(), here.iter().filter(|one| one.holds).count()), (11, 1));
    drop(guard);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert!(session.local_contenders().is_empty());
}

#[tokio::test]
async fn a_try_asks_once_and_leaves_nothing() {
    let (store, session) = store();
    let other = on(&store);
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    for asking in [&other, &session] {
        let mutex = asking.mutex("a").unwrap();
        let error = crate::spawn(async move { mutex.try_acquire().await }).await.unwrap();
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Busy, "1011"));
        assert_eq!(error.lock_name(), Some("a"));
        let holder = error.holder().unwrap();
        assert_eq!(holder.owner.app.as_deref(), Some("test"));
        assert_eq!(holder.owner.pid, Some(std::process::id()));
        assert_eq!(holder.ahead, 1);
        assert_eq!(error.to_string(), "a is being processed");
        assert_eq!(error.body(), None);
        assert!(format!("{error:#}").starts_with("a is being processed by test on "), "{error}");
    }
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    guard.release().await.unwrap();
    drop(other.mutex("a").unwrap().try_acquire().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_tasks_that_try_once_one_wins() {
    let (store, session) = store();
    let barrier = Arc::new(tokio::sync::Barrier::new(20));
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let session = if n % 2 == 0 { session.clone() } else { on(&store) };
            let barrier = barrier.clone();
            crate::spawn(async move {
                let mutex = session.mutex("a").unwrap();
                barrier.wait().await;
                let result = mutex.try_acquire().await;
                barrier.wait().await;
                result.is_ok()
            })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += usize::from(task.await.unwrap());
    }
    assert_eq!(won, 1);
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test]
async fn the_name_of_one_lock_may_begin_that_of_another() {
    let (_store, session) = store();
    let _outer = session.mutex("a").unwrap().acquire().await.unwrap();
    let _inner = session.mutex("a/b").unwrap().acquire().await.unwrap();
    let _third = session.mutex("a/b/c").unwrap().try_acquire().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_node_is_deleted_does_not_enter_beside_the_one_behind_it() {
    let (store, one) = store();
    let [two, three] = [on(&store), on(&store)];
    let first = one.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = |session: &Session| {
        let mutex = session.mutex("a").unwrap();
        crate::spawn(async move { mutex.acquire().await.unwrap() })
    };
    let nodes = async |count| {
        for _ in 0..10_000 {
            let mut names = contenders(&store, "/zklock/a").await;
            if names.len() == count {
                names.sort_by_key(|name| name[name.len() - 10..].to_owned());
                return names;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("there are never {count} nodes");
    };
    let second = waiting(&two);
    nodes(2).await;
    let third = waiting(&three);
    let queue = nodes(3).await;
    client(&store).await.delete(&format!("/zklock/a/{}", queue[1])).await.unwrap();
    first.release().await.unwrap();
    let third = third.await.unwrap();
    assert!(!nodes(2).await.contains(&queue[1]));
    assert!(!second.is_finished() && third.is_valid());
    third.release().await.unwrap();
    assert!(second.await.unwrap().is_valid());
}

#[tokio::test]
async fn foreign_children_are_in_nobodys_way() {
    let (store, session) = store();
    let client = client(&store).await;
    drop(session.mutex("a").unwrap().acquire().await.unwrap());
    for name in ["0", "zzz", "lock-1", "_c_x-lock-y"] {
        let path = format!("/zklock/a/{name}");
        let kind = zklock_core::coordinator::node::NodeKind::Persistent;
        client.create(&path, b"", kind).await.unwrap();
    }
    let guard = session.mutex("a").unwrap().try_acquire().await.unwrap();
    let other = on(&store).mutex("a").unwrap();
    assert!(other.try_acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    drop(other.try_acquire().await.unwrap());
}

#[tokio::test]
async fn sequence_numbers_that_run_out_are_refused_with_the_cure() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    drop(mutex.acquire().await.unwrap());
    store.set_sequence("/zklock/a", i32::MAX - (1 << 20) + 1).unwrap();
    let error = mutex.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(format!("{error:#}").contains("become empty"), "{error}");
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    client(&store).await.delete("/zklock/a").await.unwrap();
    drop(mutex.acquire().await.unwrap());
}

#[tokio::test]
async fn acquiring_again_outside_the_scope_waits_and_is_told_the_cure() {
    let (_store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let error = mutex.acquire_timeout(Duration::from_millis(20)).await.unwrap_err();
    assert!(error.is_busy() && format!("{error:#}").contains("scope"), "{error}");
    // Another task waits as ever, and so does this one for a guard that it gave away.
    let waiting = crate::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire_timeout(Duration::from_millis(20)).await }
    });
    assert!(waiting.await.unwrap().unwrap_err().is_busy());
    let guard = guard.detach();
    let releasing = crate::spawn(async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        drop(guard);
    });
    drop(mutex.acquire().await.unwrap());
    releasing.await.unwrap();
}

#[test]
fn guards_futures_and_handles_can_be_sent() {
    fn sendable<T: Send + 'static>(_: T) {}
    fn shareable<T: Send + Sync + Clone + 'static>() {}
    shareable::<Session>();
    shareable::<Mutex>();
    let acquiring = |mutex: Mutex| async move {
        let guard = mutex.acquire().await?;
        guard.lost().await;
        guard.release().await
    };
    let session = Session::embedded();
    sendable(acquiring(session.mutex("a").unwrap()));
}

#[tokio::test(start_paused = true)]
async fn who_holds_and_who_waits_here_is_told_with_task_and_label() {
    let (_store, session) = store();
    let labelled =
        |label: &str| session.mutex("a").unwrap().with_options(LockOptions::new().label(label));
    let guard = labelled("import").acquire().await.unwrap();
    let waiting = labelled("report");
    let waiting = crate::spawn(async move { waiting.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(5)).await;
    let told: Vec<_> = session
        .local_contenders()
        .iter()
        .map(|one| (one.holds, one.label.clone(), one.caller.split(' ').next() == Some("task")))
        .collect();
    // The test itself is no task, but a thread.
    let expected = [(true, Some("import".into()), false), (false, Some("report".into()), true)];
    assert_eq!(told, expected);
    let contenders = session.site("a").unwrap().contenders().await.unwrap();
    assert_eq!(contenders[0].local.len(), 2);
    drop(guard);
    drop(waiting.await.unwrap());
}

/// Ten thousand waiters cost ten thousand of these.
#[test]
fn the_future_of_a_waiter_is_small() {
    let session = Session::embedded();
    let mutex = session.mutex("a").unwrap();
    let lock = session.rw_lock("b").unwrap();
    let semaphore = session.semaphore("c", 1).unwrap();
    for (what, size, most) in [
        ("acquire", size_of_val(&mutex.acquire()), 200),
        ("acquire_tries", size_of_val(&mutex.acquire_tries()), 520),
        ("read", size_of_val(&lock.read()), 200),
        ("write", size_of_val(&lock.write()), 200),
        ("semaphore", size_of_val(&semaphore.acquire()), 224),
    ] {
        assert!(size <= most, "{what}: {size} bytes");
    }
}
