//! The read/write lock among tasks and sessions.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zklock::driver::LockDriver;
use zklock::layout::{HostNodes, ReadWriteNodes};
use zklock::{
    Embedded, ErrorKind, Handoffs, LockError, LockOptions, RwLock, Session, StopAt, carry,
    carry_sync,
};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{Inline, client, contenders, late, on, prompt, store};

fn lock(session: &Session) -> RwLock {
    session.rw_lock("a").unwrap()
}

/// The modes of the nodes in the queue, in order: `RRW`.
async fn queue(store: &Embedded) -> String {
    let mut nodes: Vec<_> = contenders(store, "/zklock/a")
        .await
        .into_iter()
        .map(|name| (name[name.len() - 10..].to_owned(), name.contains("__WRIT__")))
        .collect();
    nodes.sort();
    nodes.iter().map(|(_, writes)| if *writes { 'W' } else { 'R' }).collect()
}

/// Lets everything that can happen without time happen.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn reader_second_reader_writer_yes_yes_no() {
    let (store, session) = store();
    let first = lock(&session).try_read().await.unwrap();
    let second = lock(&on(&store)).try_read().await.unwrap();
    let refused = lock(&on(&store)).try_write().await.unwrap_err();
    assert!(refused.is_busy(), "{refused}");
    let refused = lock(&session).try_write().await.unwrap_err();
    assert!(refused.is_busy() && format!("{refused:#}").contains("scope"), "{refused}");
    first.release().await.unwrap();
    second.release().await.unwrap();
    drop(lock(&session).try_write().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn local_readers_share_a_node() {
    let (store, session) = store();
    let mut readers = Vec::new();
    for _ in 0..50 {
        readers.push(lock(&session).read().await.unwrap());
    }
    assert_eq!(queue(&store).await, "R");
    let tokens: std::collections::HashSet<_> =
        readers.iter().map(|guard| guard.fencing_token()).collect();
    assert_eq!(tokens.len(), 50);
    readers.truncate(1);
    assert_eq!(queue(&store).await, "R");
    readers.clear();
    assert_eq!(queue(&store).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_read_lock_alone_is_one_flight_and_a_deletion() {
    let (store, session) = store();
    let lock = lock(&session);
    lock.read().await.unwrap().release().await.unwrap();
    store.record();
    lock.read().await.unwrap().release().await.unwrap();
    let ops: Vec<_> = store.recorded().iter().map(|logged| logged.op).collect();
    assert_eq!(ops, [Op::Create, Op::Children, Op::Get, Op::Delete]);
}

/// The walk-through of the documents: seven clients, R R R W W R W.
#[tokio::test(start_paused = true)]
async fn seven_clients_as_the_documents_walk_through() {
    let store = Embedded::new();
    let mut waiting = Vec::new();
    let entered = Arc::new(std::sync::Mutex::new(Vec::new()));
    for (number, mode) in (1..=7).zip("RRRWWRW".chars()) {
        let (session, entered) = (on(&store), entered.clone());
        let (let_go, go) = tokio::sync::oneshot::channel::<()>();
        let task = crate::spawn(async move {
            let lock = lock(&session);
            let guard = if mode == 'R' {
                lock.read().await.map(Box::new).map(|g| g as Box<dyn Send>)
            } else {
                lock.write().await.map(Box::new).map(|g| g as Box<dyn Send>)
            };
            entered.lock().unwrap().push(number);
            go.await.unwrap();
            drop(guard.unwrap());
        });
        waiting.push((let_go, task));
        settle().await;
    }
    let inside = || entered.lock().unwrap().clone();
    assert_eq!(queue(&store).await, "RRRWWRW");
    assert_eq!(inside(), [1, 2, 3]);
    let mut leaving = waiting.into_iter();
    for (tree, now_inside) in [
        ("RRWWRW", vec![1, 2, 3]),
        ("RWWRW", vec![1, 2, 3]),
        ("WWRW", vec![1, 2, 3, 4]),
        ("WRW", vec![1, 2, 3, 4, 5]),
        ("RW", vec![1, 2, 3, 4, 5, 6]),
        ("W", vec![1, 2, 3, 4, 5, 6, 7]),
        ("", vec![1, 2, 3, 4, 5, 6, 7]),
    ] {
        let (let_go, task) = leaving.next().unwrap();
        let_go.send(()).unwrap();
        task.await.unwrap();
        settle().await;
        assert_eq!((queue(&store).await.as_str(), inside()), (tree, now_inside));
    }
}

#[tokio::test(start_paused = true)]
async fn a_local_writer_that_waits_keeps_newcomers_out() {
    let (_store, session) = store();
    let reader = lock(&session).read().await.unwrap().detach();
    let (order, writer_lock) = (Arc::new(std::sync::Mutex::new(Vec::new())), lock(&session));
    let writer = crate::spawn({
        let order = order.clone();
        async move {
            let guard = writer_lock.write().await.unwrap();
            order.lock().unwrap().push("writer");
            guard.release().await.unwrap();
        }
    });
    settle().await;
    let late_lock = lock(&session);
    let late = crate::spawn({
        let order = order.clone();
        async move {
            let _guard = late_lock.read().await.unwrap();
            order.lock().unwrap().push("reader");
        }
    });
    settle().await;
    assert!(order.lock().unwrap().is_empty());
    assert!(lock(&session).try_read().await.unwrap_err().is_busy());
    drop(reader);
    writer.await.unwrap();
    late.await.unwrap();
    assert_eq!(*order.lock().unwrap(), ["writer", "reader"]);
}

/// Readers come without end; a writer of another process gets in at the bound.
#[tokio::test(start_paused = true)]
async fn endless_local_readers_do_not_starve_a_writer_elsewhere() {
    let (store, session) = store();
    let bound = Handoffs::new().most(1_000_000).within(Duration::from_millis(50));
    let options = LockOptions::default().handoffs(bound);
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let lock = lock(&session).with_options(options);
            crate::spawn(async move {
                loop {
                    let guard = lock.read().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    drop(guard);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let writer = lock(&on(&store));
    let guard = writer.write_timeout(Duration::from_secs(1)).await.unwrap();
    drop(guard);
    readers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn without_a_writer_elsewhere_readers_keep_their_node_past_the_bound() {
    let (store, session) = store();
    let bound = Handoffs::new().most(3).within(Duration::from_secs(1));
    let lock = lock(&session).with_options(LockOptions::default().handoffs(bound));
    let first = lock.read().await.unwrap();
    let node = first.node_path().to_owned();
    let mut guards = vec![first];
    for _ in 0..20 {
        let lock = lock.clone();
        let reader = async move { lock.read_timeout(Duration::from_secs(1)).await.unwrap() };
        guards.push(crate::spawn(reader).await.unwrap());
    }
    assert!(guards.iter().all(|guard| guard.node_path() == node));
    assert_eq!(queue(&store).await, "R");
}

#[tokio::test(start_paused = true)]
async fn a_writer_steps_down_and_a_queued_writer_stays_out() {
    let (store, session) = store();
    let writing = lock(&session).write().await.unwrap();
    let token = writing.fencing_token();
    let other = lock(&on(&store));
    let queued = crate::spawn(async move { other.write().await.unwrap().fencing_token() });
    settle().await;
    assert_eq!(queue(&store).await, "WW");
    let reading = writing.downgrade().await.unwrap();
    assert_eq!(queue(&store).await, "RW");
    assert!(reading.is_valid() && reading.fencing_token() > token);
    let mut names = contenders(&store, "/zklock/a").await;
    names.sort_by_key(|name| name[name.len() - 10..].to_owned());
    assert!(names[0].contains("__READ__0000000000"), "{names:?}");
    settle().await;
    assert!(!queued.is_finished(), "the queued writer came in beside a reader");
    // A local reader comes in beside it only while nobody waits.
    let reads = reading.fencing_token();
    reading.release().await.unwrap();
    assert!(queued.await.unwrap() > reads, "the writer's token must exceed the reader's");
    assert_eq!(queue(&store).await, "");
}

/// There a name does not tell a writer from a mutex.
#[tokio::test(start_paused = true)]
async fn a_writer_of_kazoos_steps_down_and_a_queued_mutex_stays_out() {
    let (store, session) = store();
    let layout = zklock::layout::Kazoo::default;
    let writing = session.rw_lock("a").unwrap().with_driver(layout()).write().await.unwrap();
    let mutex = on(&store).mutex("a").unwrap().with_driver(layout());
    let queued = crate::spawn(async move { mutex.acquire().await.unwrap() });
    settle().await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2);
    let reading = writing.downgrade().await.unwrap();
    settle().await;
    assert!(!queued.is_finished(), "the mutex came in beside a reader");
    reading.release().await.unwrap();
    assert!(queued.await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_for_a_writer_enter_when_it_steps_down() {
    let (store, session) = store();
    let writing = lock(&session).write().await.unwrap();
    let readers: Vec<_> = [session.clone(), session.clone(), on(&store)]
        .into_iter()
        .map(|session| crate::spawn(async move { lock(&session).read().await.unwrap().detach() }))
        .collect();
    settle().await;
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    let reading = writing.downgrade().await.unwrap();
    for reader in readers {
        assert!(reader.await.unwrap().is_valid());
    }
    assert!(reading.is_valid());
}

/// The reader's node is there, and nobody may say so.
#[tokio::test(start_paused = true)]
async fn a_step_down_whose_node_may_not_be_read_is_an_error() {
    let (store, session) = store();
    let writing = lock(&session).write().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::lose_reply().on(Op::Create).path("__READ__"));
    let refused = Fault::refuse(RequestError::NoAuth);
    faults.inject(refused.on(Op::Get).path("__READ__").times(u64::MAX));
    let refused = writing.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Unauthorized, "{refused}");
    settle().await;
    assert_eq!(queue(&store).await, "W", "the writer stays, and the reader's node does not");
    drop(refused.into_guard());
    settle().await;
    assert_eq!(queue(&store).await, "");
}

/// A look that is not answered is repeated, with a pause.
#[tokio::test(start_paused = true)]
async fn a_step_down_whose_node_is_not_found_at_once_looks_again() {
    let (store, session) = store();
    let writing = lock(&session).write().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::lose_reply().on(Op::Create).path("__READ__"));
    let failed = Fault::refuse(RequestError::Other("busy".to_owned()));
    faults.inject(failed.on(Op::Get).path("__READ__").times(5));
    let start = tokio::time::Instant::now();
    let reading = writing.downgrade().await.unwrap();
    assert!(start.elapsed() >= 5 * Duration::from_millis(10), "{:?}", start.elapsed());
    assert!(reading.is_valid());
    assert_eq!(queue(&store).await, "R");
}

/// Somebody deletes the writer's node with its directory, whose numbers then begin anew, so that another reader has
/// the name that the reader's node would have. That says nothing of the session, also where nothing else tells that
/// the writer's node is gone.
#[tokio::test(start_paused = true)]
async fn a_step_down_to_a_name_that_is_anothers_by_now_costs_only_its_own_lock() {
    for is_watched in [true, false] {
        let (store, session) = store();
        let lock = |session: &Session| session.rw_lock("a").unwrap().with_driver(ReadWriteNodes);
        let beside = session.mutex("b").unwrap().acquire().await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        if !is_watched {
            faults.inject(Fault::forget_reply().on(Op::Get).path("/a/"));
        }
        let writing = lock(&session).write().await.unwrap();
        settle().await;
        let (path, stranger, other) =
            (writing.node_path().to_owned(), client(&store).await, on(&store));
        faults.hold_requests();
        let stepping = crate::spawn(writing.downgrade());
        settle().await;
        stranger.delete(&path).await.unwrap();
        stranger.delete("/zklock/a").await.unwrap();
        let reading = lock(&other).read().await.unwrap();
        let number = |path: &str| path[path.len() - 10..].to_owned();
        assert_eq!(number(reading.node_path()), number(&path));
        faults.release();
        let refused = stepping.await.unwrap().unwrap_err();
        assert!(refused.error().is_lost(), "{refused}");
        drop(refused);
        settle().await;
        assert!(beside.is_valid() && reading.is_valid());
        beside.release().await.unwrap();
        reading.release().await.unwrap();
    }
}

/// No creation of the reader's node is answered, and somebody deletes it and the writer's with their directory. The
/// numbers begin anew, and another reader has the name. The writer is told, and deletes what it may have created:
/// not the node of another.
async fn deletes_no_node_of_another(driver: impl LockDriver + Clone + 'static) {
    let (store, session) = store();
    let lock = |session: &Session| session.rw_lock("a").unwrap().with_driver(driver.clone());
    let beside = session.mutex("b").unwrap().acquire().await.unwrap();
    let writing = lock(&session).write().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let (path, stranger, other) =
        (writing.node_path().to_owned(), client(&store).await, on(&store));
    faults.inject(Fault::forget_reply().on(Op::Create).path("/a/").times(100));
    let stepping = crate::spawn(writing.downgrade());
    settle().await;
    let [read, write] = &contenders(&store, "/zklock/a").await[..] else {
        panic!("both are there")
    };
    let reader = format!("/zklock/a/{}", if path.ends_with(write.as_str()) { read } else { write });
    for gone in [&*reader, &path, "/zklock/a"] {
        stranger.delete(gone).await.unwrap();
    }
    let reading = lock(&other).read().await.unwrap();
    assert_eq!(reading.node_path(), reader);
    let refused = stepping.await.unwrap().unwrap_err();
    assert!(refused.error().is_lost(), "{refused}");
    drop(refused);
    settle().await;
    stranger.get(&reader).await.unwrap();
    assert!(beside.is_valid() && reading.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_step_down_that_nobody_answers_deletes_no_node_of_another_session() {
    deletes_no_node_of_another(ReadWriteNodes).await;
    deletes_no_node_of_another(HostNodes::of("db7")).await;
}

/// The same reader of the same process comes again while the deletion is not answered, and the directory is
/// gone: its node has the name of the one that is deleted.
#[tokio::test(start_paused = true)]
async fn a_step_down_that_nobody_answers_deletes_no_later_node_of_its_own_session() {
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap().with_driver(ReadWriteNodes);
    let writing = lock.write().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let (path, stranger) = (writing.node_path().to_owned(), client(&store).await);
    let reader = path.replace("write", "read");
    faults.inject(Fault::forget_reply().on(Op::Create).path(reader.as_str()));
    faults.inject(Fault::lose_request().on(Op::Delete).path(reader.as_str()));
    let stepping = crate::spawn(writing.downgrade());
    settle().await;
    stranger.delete(&path).await.unwrap();
    drop(stepping.await.unwrap().unwrap_err());
    stranger.get(&reader).await.unwrap();
    for gone in [&*reader, "/zklock/a"] {
        stranger.delete(gone).await.unwrap();
    }
    let reading = lock.read().await.unwrap();
    assert_eq!(reading.node_path(), reader);
    tokio::time::sleep(Duration::from_secs(30)).await;
    stranger.get(&reader).await.unwrap();
    assert!(reading.is_valid());
    reading.release().await.unwrap();
    assert_eq!(contenders(&store, "/zklock/a").await, [""; 0]);
}

/// The session of the step down is used no more, because a node in it cannot be deleted: that of another lock, or
/// the writer's own.
#[tokio::test(start_paused = true)]
async fn waiting_readers_enter_beside_a_step_down_in_a_retired_session_too() {
    for stuck in ["/b/", "/a/"] {
        let (store, session) = store();
        let writing = lock(&session).write().await.unwrap();
        let other = session.mutex("b").unwrap().acquire().await.unwrap();
        let old = session.zookeeper_session().unwrap().id;
        let refused =
            Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(stuck).times(u64::MAX);
        store.faults(old).inject(refused);
        let waits = lock(&session);
        let reader = crate::spawn(async move { waits.read().await.unwrap() });
        settle().await;
        let rivals = on(&store);
        let rival = crate::spawn(async move { lock(&rivals).write().await.unwrap() });
        settle().await;
        let is_retired = other.release().await.is_err();
        assert_eq!(is_retired, stuck == "/b/");
        let reading = writing.downgrade().await.unwrap();
        // Whoever steps down may wait for them, and so for nothing that waits for it.
        let entered = timeout(Duration::from_secs(1), reader).await.expect("it enters").unwrap();
        assert!(reading.is_valid() && entered.is_valid() && !rival.is_finished(), "{stuck}");
        // Nobody else keeps the session open.
        let later = lock(&session);
        let later = crate::spawn(async move { later.read().await.unwrap() });
        settle().await;
        drop((reading, entered));
        drop(timeout(Duration::from_secs(1), rival).await.expect("it gets its turn").unwrap());
        settle().await;
        assert!(!store.sessions().contains(&old), "{stuck}");
        drop(timeout(Duration::from_secs(1), later).await.expect("as well").unwrap());
    }
}

/// It waits for no answer for longer than it holds the lock: to the creation, to the look at what a creation in doubt
/// has made, and to the question whether its own node is there.
#[tokio::test(start_paused = true)]
async fn a_step_down_that_nobody_answers_is_told_of_the_loss_at_once() {
    let forgets = |op, path| Fault::forget_reply().on(op).path(path);
    let in_doubt = Fault::lose_reply().on(Op::Create).path("__READ__");
    for unanswered in [
        vec![forgets(Op::Create, "__READ__")],
        vec![in_doubt, forgets(Op::Get, "__READ__")],
        vec![forgets(Op::Multi, "__WRIT__")],
    ] {
        let (store, session) = store();
        let writing = lock(&session).write().await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let (path, stranger) = (writing.node_path().to_owned(), client(&store).await);
        println!("{unanswered:?}");
        unanswered.into_iter().for_each(|fault| faults.inject(fault));
        let stepping = crate::spawn(writing.downgrade());
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!stepping.is_finished());
        stranger.delete(&path).await.unwrap();
        let start = Instant::now();
        let refused =
            timeout(Duration::from_secs(30), stepping).await.unwrap().unwrap().unwrap_err();
        assert!(refused.error().is_lost(), "{refused}");
        assert!(start.elapsed() < Duration::from_millis(100), "after {:?}", start.elapsed());
        drop(refused);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(queue(&store).await, "");
    }
}

/// The creation of another caller is in doubt in the same directory, so the reader's node waits for its turn.
#[tokio::test(start_paused = true)]
async fn a_step_down_that_waits_for_its_turn_is_told_of_the_loss() {
    let (store, session) = store();
    let lock = session.rw_lock("a").unwrap().with_driver(ReadWriteNodes);
    let writing = lock.write().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let (path, stranger) = (writing.node_path().to_owned(), client(&store).await);
    for op in [Op::Create, Op::Children] {
        faults.inject(Fault::lose_request().on(op).path("/a").times(1_000));
    }
    let other = lock.clone().with_options(LockOptions::new().stop_at(StopAt::Suspect));
    let other = crate::spawn(async move { other.read().await });
    settle().await;
    let stepping = crate::spawn(writing.downgrade());
    settle().await;
    stranger.delete(&path).await.unwrap();
    let refused = timeout(Duration::from_secs(1), stepping).await.unwrap().unwrap().unwrap_err();
    assert!(refused.error().is_lost(), "{refused}");
    drop(refused);
    assert!(!other.is_finished());
    faults.clear();
    drop(other.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_step_down_that_is_dropped_releases() {
    let (store, session) = store();
    let writing = lock(&session).write().await.unwrap();
    let stepping = crate::spawn(writing.downgrade());
    stepping.abort();
    drop(stepping.await);
    settle().await;
    assert_eq!(queue(&store).await, "");
    drop(lock(&session).try_write().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_is_held_twice_does_not_step_down() {
    let (store, session) = store();
    let writing = lock(&session).write().await.unwrap();
    let nested = writing.scope(async { lock(&session).write().await.unwrap() }).await;
    let token = writing.fencing_token();
    let refused = writing.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Deadlock);
    assert!(refused.to_string().contains("that a nested call holds as well"), "{refused}");
    // A nested one does neither, and stays, too.
    let refused_too = nested.downgrade().await.unwrap_err();
    assert_eq!(refused_too.error().kind(), ErrorKind::Deadlock);
    let says = "while a call around this one, or one nested in it, holds it too";
    assert!(refused_too.to_string().contains(says), "{refused_too}");
    assert!(refused_too.into_guard().is_valid());
    let writing = refused.into_guard();
    assert!(writing.is_valid() && writing.fencing_token() == token);
    let reading = writing.downgrade().await.unwrap();
    assert_eq!(queue(&store).await, "R");
    // Who does not care lets go.
    drop(reading);
    let writing = lock(&session).write().await.unwrap();
    let nested = writing.scope(async { lock(&session).write().await.unwrap() }).await;
    let error = LockError::from(writing.downgrade().await.unwrap_err());
    assert!(error.is_deadlock());
    drop(nested);
    assert_eq!(queue(&store).await, "");
}

/// The answer about the reader's node is under way for a while.
#[tokio::test(start_paused = true)]
async fn a_step_down_that_is_refused_gives_the_writer_back() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let writing = lock(&session).write().await.unwrap();
    let (token, view) = (writing.fencing_token(), writing.view());
    let told = crate::spawn({
        let view = view.view();
        async move { view.lost().await }
    });
    faults.delay_replies(Duration::from_millis(50));
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Create).path("__READ__"));
    let mut stepping = pin!(writing.downgrade());
    assert!(timeout(Duration::from_millis(20), &mut stepping).await.is_err());
    assert!(view.is_valid(), "it still writes while it is asked");
    let refused = stepping.await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Unauthorized, "{refused}");
    let writing = refused.into_guard();
    assert!(writing.is_valid() && view.is_valid() && writing.fencing_token() == token);
    settle().await;
    assert!(!told.is_finished(), "nothing was lost");
    assert_eq!(queue(&store).await, "W");
    // It can be held again, and steps down when it may.
    let nested = writing.scope(async { lock(&session).write().await.unwrap() }).await;
    assert_eq!(nested.fencing_token(), token);
    drop(nested);
    let reading = writing.downgrade().await.unwrap();
    assert!(reading.fencing_token() > token && !view.is_valid());
    timeout(Duration::from_secs(1), told).await.expect("the writer has ended").unwrap();
    drop(lock(&on(&store)).try_read().await.unwrap());
    drop(reading);
    settle().await;
    assert_eq!(queue(&store).await, "");
}

/// The writer's lease runs out while it is asked.
#[tokio::test(start_paused = true)]
async fn a_writer_that_is_lost_while_it_steps_down_comes_back_lost() {
    // The ZooKeeper session lives on, or it has ended, too.
    for lives_on in [true, false] {
        let (store, session) = store();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let writing = lock(&session).write().await.unwrap();
        faults.disconnect();
        let refused = writing.downgrade().await.unwrap_err();
        assert!(refused.error().is_lost(), "{refused}");
        let writing = refused.into_guard();
        assert!(!writing.is_valid());
        if !lives_on {
            faults.expire();
        }
        faults.reconnect();
        settle().await;
        assert!(!writing.is_valid(), "it came back");
        drop(writing);
        settle().await;
        assert!(session.local_contenders().is_empty(), "{:?}", session.local_contenders());
        assert_eq!(queue(&store).await, "");
        for session in [session, on(&store)] {
            lock(&session).try_write().await.unwrap().release().await.unwrap();
        }
    }
}

/// The answer about the reader's node is under way for a while, and then carried calls come.
#[tokio::test(start_paused = true)]
async fn a_carried_call_does_not_write_beside_the_readers_of_a_step_down() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let writing = lock(&session).write().await.unwrap();
    let (token, view) = (writing.fencing_token(), writing.view());
    // A carried call begins before, during and after the step.
    let calls = writing.scope(async {
        [0, 15, 100].map(|ms| {
            let lock = lock(&session);
            crate::spawn(carry(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                lock.write().await.unwrap()
            }))
        })
    });
    let [first, during, after] = calls.await;
    let nested = first.await.unwrap();
    assert_eq!(nested.fencing_token(), token);
    let refused = writing.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Deadlock, "{refused}");
    assert!(view.is_valid(), "the nested call still writes");
    drop((nested, refused, view));
    for call in [during, after] {
        drop(call.await.unwrap());
    }

    let writing = lock(&session).write().await.unwrap();
    let carried = |ms, lock: RwLock| {
        crate::spawn(carry(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            lock.write().await.unwrap().fencing_token()
        }))
    };
    let calls = async { [10, 15, 100].map(|ms| carried(ms, lock(&session))) };
    let calls = writing.scope(calls).await;
    faults.delay_replies(Duration::from_millis(50));
    let stepping = crate::spawn(writing.downgrade());
    let reading = stepping.await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(calls.iter().all(|call| !call.is_finished()), "a writer is in beside readers");
    let token = reading.fencing_token();
    drop(reading);
    for call in calls {
        assert!(call.await.unwrap() > token);
    }
    settle().await;
    assert_eq!(queue(&store).await, "");
}

/// They are woken, and run, inside of the step.
#[tokio::test(start_paused = true)]
async fn a_view_of_a_writer_that_steps_down_is_invalid_before_the_readers_enter() {
    let (_store, session) = prompt();
    let writing = lock(&session).write().await.unwrap();
    let (lock, view) = (lock(&session), Arc::new(writing.view()));
    let writes = view.clone();
    let reader = Inline::start(async move {
        let reading = lock.read().await.unwrap();
        assert!(reading.is_valid() && !writes.is_valid(), "a writer is in beside a reader");
    });
    assert!(!reader.is_done() && view.is_valid());
    let reading = writing.downgrade().await.unwrap();
    assert!(reader.is_done() && reading.is_valid());
}

#[tokio::test(start_paused = true)]
async fn after_a_step_down_that_is_refused_carried_calls_go_on() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let writing = lock(&session).write().await.unwrap();
    let lock = lock(&session);
    let spawn = || {
        crate::spawn(carry(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            lock.write().await.unwrap().release().await
        }))
    };
    let call = writing.scope(async { Some(spawn()) }).await.unwrap();
    faults.delay_replies(Duration::from_millis(50));
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Create).path("__READ__"));
    let refused = writing.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Unauthorized, "{refused}");
    drop(refused);
    call.await.unwrap().unwrap();
    settle().await;
    assert_eq!(queue(&store).await, "");
}

/// Where the writer goes on, such a call is not nested in it, and waits for it.
#[tokio::test(start_paused = true)]
async fn a_call_that_comes_while_a_step_down_is_refused_waits_for_the_writer() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let writing = lock(&session).write().await.unwrap();
    let token = writing.fencing_token();
    let calls = writing.scope(async {
        [(10, 1), (10, 100), (200, 1)].map(|(ms, seconds)| {
            let lock = lock(&session);
            crate::spawn(carry(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                let nested = lock.write_timeout(Duration::from_secs(seconds)).await?;
                Ok::<_, LockError>(nested.fencing_token())
            }))
        })
    });
    let [gives_up, during, after] = calls.await;
    faults.delay_replies(Duration::from_millis(50));
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Create).path("__READ__"));
    let refused = writing.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Unauthorized, "{refused}");
    let writing = refused.into_guard();
    assert_eq!(after.await.unwrap().unwrap(), token, "it is nested again");
    let error = gives_up.await.unwrap().unwrap_err();
    let here = Some(std::process::id());
    assert!(error.is_busy() && error.holder().is_some_and(|h| h.owner.pid == here), "{error:#}");
    assert!(!during.is_finished() && writing.is_valid());
    writing.release().await.unwrap();
    assert!(during.await.unwrap().unwrap() > token);
    settle().await;
    assert_eq!(queue(&store).await, "");
}

/// Many threads take the writer's hold in carried calls, while it steps down.
#[test]
fn carried_threads_race_a_step_down() {
    race_a_step_down(&Session::embedded(), 300, Duration::ZERO);
    // The step takes longer, and so do they.
    race_a_step_down(&store().1, 40, Duration::from_micros(200));
}

fn race_a_step_down(session: &Session, rounds: usize, pause: Duration) {
    // In how many rounds both happened, which takes more of them on some machines.
    let (mut met, mut round) = (0, 0);
    while round < rounds || met == 0 {
        assert!(round < 100 * rounds, "nobody was inside a writer that stepped down");
        let writing = lock(session).blocking_write().unwrap();
        let token = writing.fencing_token();
        let (readers, writers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let nested = Arc::new(AtomicUsize::new(0));
        let threads = writing.scope_sync(|| {
            [(); 2].map(|()| {
                let (readers, writers) = (readers.clone(), writers.clone());
                let (lock, nested) = (lock(session), nested.clone());
                std::thread::spawn(carry_sync(move || {
                    for _ in 0..20 {
                        // Tried until it is had, so that all meet at the step.
                        if let Ok(inside) = lock.blocking_try_write() {
                            writers.fetch_add(1, Ordering::SeqCst);
                            assert_eq!(readers.load(Ordering::SeqCst), 0, "round {round}");
                            std::thread::yield_now();
                            writers.fetch_sub(1, Ordering::SeqCst);
                            // After the step, it is another hold.
                            let is_nested = inside.fencing_token() == token;
                            nested.fetch_add(usize::from(is_nested), Ordering::SeqCst);
                        }
                        if !pause.is_zero() {
                            std::thread::sleep(pause);
                        }
                    }
                }))
            })
        });
        let mut stepped_down = false;
        if let Ok(reading) = writing.blocking_downgrade() {
            readers.fetch_add(1, Ordering::SeqCst);
            assert_eq!(writers.load(Ordering::SeqCst), 0, "round {round}");
            std::thread::yield_now();
            readers.fetch_sub(1, Ordering::SeqCst);
            drop(reading);
            stepped_down = true;
        }
        for thread in threads {
            thread.join().unwrap();
        }
        met += usize::from(stepped_down && nested.load(Ordering::SeqCst) > 0);
        round += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn write_includes_read_and_read_never_becomes_write() {
    let (store, session) = store();
    let writing = lock(&session).write().await.unwrap();
    let inner = lock(&session);
    let token = writing.fencing_token();
    writing
        .scope(async {
            assert!(inner.is_write_held_in_scope() && inner.is_held_in_scope());
            let reading = inner.read().await.unwrap();
            assert_eq!(reading.fencing_token(), token);
            // Another reader is nested beside it, so that neither may write.
            let beside = inner.read().await.unwrap();
            for reading in [reading, beside] {
                let held = async { (inner.is_held_in_scope(), inner.is_write_held_in_scope()) };
                assert_eq!(reading.scope(held).await, (true, false));
            }
            assert!(inner.write().await.is_ok());
        })
        .await;
    drop(writing);
    let reading = lock(&session).read().await.unwrap();
    let refused = reading
        .scope(async {
            assert!(inner.is_held_in_scope() && !inner.is_write_held_in_scope());
            assert!(inner.read().await.is_ok());
            inner.write().await.unwrap_err()
        })
        .await;
    assert_eq!(refused.kind(), ErrorKind::Deadlock);
    assert!(format!("{refused:#}").contains("never becomes a writer"), "{refused}");
    drop(reading);
    assert_eq!(queue(&store).await, "");
}

#[tokio::test(start_paused = true)]
async fn nested_readers_of_one_scope_run_together_and_nested_writers_in_turn() {
    let (_store, session) = store();
    let lock = lock(&session);
    let writing = lock.write().await.unwrap();
    let (readers, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let nested = |reads: bool| {
        let (lock, readers, most) = (&lock, &readers, &most);
        async move {
            let _read = if reads { Some(lock.read().await.unwrap()) } else { None };
            let _write = if reads { None } else { Some(lock.write().await.unwrap()) };
            let weight = if reads { 1 } else { 100 };
            most.fetch_max(readers.fetch_add(weight, Ordering::SeqCst) + weight, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            readers.fetch_sub(weight, Ordering::SeqCst);
        }
    };
    writing.scope(async { tokio::join!(nested(true), nested(true), nested(true)) }).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    writing.scope(async { tokio::join!(nested(false), nested(true), nested(false)) }).await;
    assert_eq!(most.load(Ordering::SeqCst), 100);
}

#[tokio::test(start_paused = true)]
async fn waiting_behind_ones_own_reader_is_told() {
    let (_store, session) = store();
    let reading = lock(&session).read().await.unwrap();
    let error = lock(&session).write_timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_busy() && format!("{error:#}").contains("scope"), "{error}");
    // A second reader does not wait, so it may.
    drop(lock(&session).read().await.unwrap());
    drop(reading);
}

#[tokio::test(start_paused = true)]
async fn a_reader_lost_in_its_session_says_so_and_the_next_enters() {
    let (store, session) = store();
    let readers = [lock(&session).read().await.unwrap(), lock(&session).read().await.unwrap()];
    store.faults(session.zookeeper_session().unwrap().id).expire();
    settle().await;
    assert!(readers.iter().all(|guard| !guard.is_valid()));
    for guard in readers {
        assert!(guard.release().await.unwrap_err().is_lost());
    }
    drop(lock(&session).write_timeout(Duration::from_secs(5)).await.unwrap());
}

/// Eight sessions, a random mix: writers alone, readers beside each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_clients_random_mix_a_hundred_rounds() {
    let store = late();
    let (inside, together) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..8u64)
        .map(|client| {
            let (session, inside, together) = (on(&store), inside.clone(), together.clone());
            crate::spawn(async move {
                let lock = lock(&session);
                let mut random = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                for _ in 0..100 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    if random % 3 == 0 {
                        let guard = lock.write().await.unwrap();
                        assert_eq!(inside.fetch_add(1_000, Ordering::SeqCst), 0);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1_000, Ordering::SeqCst);
                        drop(guard);
                    } else {
                        let guard = lock.read().await.unwrap();
                        let others = inside.fetch_add(1, Ordering::SeqCst);
                        assert!(others < 1_000);
                        together.fetch_max(others + 1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(guard);
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert!(together.load(Ordering::SeqCst) > 1, "readers never overlapped");
}

#[test]
fn threads_read_together_and_step_down() {
    let store = late();
    let session = on(&store);
    let lock = lock(&session);
    let writing = lock.blocking_write().unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| lock.blocking_read().unwrap().blocking_release().unwrap());
        let reading = writing.blocking_downgrade().unwrap();
        reader.join().unwrap();
        reading.blocking_release().unwrap();
    });
    lock.blocking_try_write().unwrap().blocking_release().unwrap();
    lock.blocking_read_timeout(Duration::from_secs(1)).unwrap().blocking_release().unwrap();
    lock.blocking_write_tries().unwrap().blocking_release().unwrap();
}

/// Only a lock that another call holds as well cannot be downgraded.
#[tokio::test(start_paused = true)]
async fn a_nested_writer_that_is_left_steps_down() {
    let (store, session) = store();
    let lock = lock(&session);
    let writing = lock.write().await.unwrap();
    let nested = writing.scope(lock.write()).await.unwrap();
    drop(writing);
    let reading = nested.downgrade().await.unwrap();
    assert_eq!(queue(&store).await, "R");
    drop(lock.try_read().await.unwrap());
    assert!(reading.is_valid() && lock.try_write().await.unwrap_err().is_busy());
    reading.release().await.unwrap();
    drop(lock.try_write().await.unwrap());
}

/// The reader is that of whoever has the nested guard, and neither of the one around nor of nobody.
#[tokio::test]
async fn a_reader_that_was_a_nested_writer_is_in_its_task() {
    let (store, session) = store();
    let lock = lock(&session).with_options(LockOptions::default().stop_at(StopAt::Suspect));
    for detached in [false, true] {
        let writing = lock.write().await.unwrap();
        let nested = writing.scope(lock.write()).await.unwrap();
        drop(writing);
        let nested = if detached { nested.detach() } else { nested };
        let reading = nested.downgrade().await.unwrap();
        let error = lock.blocking_write_timeout(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind() == ErrorKind::Deadlock, !detached, "{error:#}");
        drop(reading);
    }
    let writing = lock.write().await.unwrap();
    let nested = writing.scope(lock.write()).await.unwrap();
    drop(writing);
    let lost = nested.downgrade().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    lost.lost().await;
    faults.reconnect();
    drop(timeout(Duration::from_secs(10), lock.write()).await.unwrap().unwrap());
    drop(lost);
}

/// Whoever waits for the mutex takes the end of its node for the grant, and would be inside beside the reader.
#[tokio::test(start_paused = true)]
async fn a_writer_that_is_nested_in_a_mutex_does_not_step_down() {
    let (store, session) = store();
    let outer = session.mutex("a").unwrap().acquire().await.unwrap();
    let nested = outer.scope(lock(&session).write()).await.unwrap();
    drop(outer);
    let elsewhere = on(&store).mutex("a").unwrap();
    let other = crate::spawn(async move { elsewhere.acquire().await.unwrap() });
    settle().await;
    let refused = nested.downgrade().await.unwrap_err();
    assert_eq!(refused.error().kind(), ErrorKind::Unsupported);
    settle().await;
    let nested = refused.into_guard();
    assert!(nested.is_valid() && !other.is_finished());
    drop(nested);
    assert!(other.await.unwrap().is_valid());
}

/// A writer of another process keeps newcomers out, and gives up. The node has not lingered.
#[tokio::test(start_paused = true)]
async fn readers_enter_beside_those_who_read_when_a_writer_elsewhere_has_given_up() {
    for options in [LockOptions::default(), LockOptions::default().linger(Duration::from_secs(5))] {
        let (store, session) = store();
        let mine = lock(&session).with_options(options);
        let reading = mine.read().await.unwrap();
        let writer = lock(&on(&store));
        let writing =
            crate::spawn(
                async move { writer.write_timeout(Duration::from_secs(1)).await.map(drop) },
            );
        // Past the limit of handoffs, and its node is there.
        settle().await;
        let start = Instant::now();
        let next = crate::spawn(async move { mine.read_timeout(Duration::from_secs(5)).await });
        settle().await;
        assert!(!next.is_finished(), "a reader passes a writer that waits");
        let next = next.await.unwrap().unwrap();
        assert!(start.elapsed() < Duration::from_millis(1_200), "{:?}", start.elapsed());
        assert!(writing.await.unwrap().unwrap_err().is_busy());
        assert!(reading.is_valid() && next.node_path() == reading.node_path());
        drop((reading, next));
    }
}

/// Nobody waited when it gave up.
#[tokio::test(start_paused = true)]
async fn a_try_to_read_is_not_busy_because_of_a_writer_that_has_given_up() {
    let (store, session) = store();
    let reading = lock(&session).read().await.unwrap();
    let writer = lock(&on(&store));
    let writing =
        crate::spawn(async move { writer.write_timeout(Duration::from_secs(1)).await.map(drop) });
    settle().await;
    let tries = || {
        let lock = lock(&session);
        crate::spawn(async move { lock.try_read().await.map(drop) })
    };
    assert!(tries().await.unwrap().unwrap_err().is_busy());
    assert!(writing.await.unwrap().unwrap_err().is_busy());
    tokio::time::sleep(Duration::from_millis(200)).await;
    tries().await.unwrap().unwrap();
    drop(reading);
}

/// A session that sets no watch any more looks from time to time.
#[tokio::test(start_paused = true)]
async fn readers_enter_where_there_is_no_room_for_another_watch_too() {
    let (store, other) = store();
    let session = Session::embedded_builder(&store).max_connections(1).open().unwrap();
    let (mine, again) = (lock(&session), lock(&session));
    let reading = mine.read().await.unwrap();
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..160 {
        let name = if number < 120 { format!("{number:0>900}") } else { number.to_string() };
        held.push(other.mutex(&*name).unwrap().acquire().await.unwrap());
        let mutex = session.mutex(&*name).unwrap();
        waiting.push(crate::spawn(async move { drop(mutex.acquire().await) }));
    }
    settle().await;
    for _ in 0..10 {
        let mut events = session.site("b").unwrap().events();
        waiting.push(crate::spawn(async move { drop(events.next().await) }));
    }
    settle().await;
    let writer = lock(&on(&store));
    let writing =
        crate::spawn(async move { writer.write_timeout(Duration::from_secs(1)).await.map(drop) });
    settle().await;
    let start = Instant::now();
    let next = crate::spawn(async move { mine.read_timeout(Duration::from_secs(20)).await });
    let next = next.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(writing.await.unwrap().unwrap_err().is_busy());
    // Nobody is behind them any more.
    let tried = again.try_read().await.unwrap();
    waiting.iter().for_each(|waiting| waiting.abort());
    drop((reading, next, tried, held));
}

/// Others come and go, and what they do is news to nobody here.
#[tokio::test(start_paused = true)]
async fn who_reads_does_not_look_at_the_queue_once_a_writer_elsewhere_has_given_up() {
    let (store, session) = store();
    let (mine, writer, other) = (lock(&session), lock(&on(&store)), lock(&on(&store)));
    let reading = mine.read().await.unwrap();
    let writing =
        crate::spawn(async move { writer.write_timeout(Duration::from_secs(1)).await.map(drop) });
    settle().await;
    let next = crate::spawn(async move { mine.read_timeout(Duration::from_secs(20)).await });
    let next = next.await.unwrap().unwrap();
    assert!(writing.await.unwrap().unwrap_err().is_busy());
    settle().await;
    store.record();
    for _ in 0..100 {
        other.read().await.unwrap().release().await.unwrap();
    }
    let own = session.zookeeper_session().unwrap().id;
    let asked = store.recorded().into_iter().filter(|one| one.session == own);
    let looks = asked.filter(|one| one.op == Op::Children);
    assert_eq!(looks.count(), 0);
    drop((reading, next));
}

/// The session of those who read is used no more by then, because a node of another lock cannot be deleted.
#[tokio::test(start_paused = true)]
async fn readers_enter_in_the_next_session_when_a_writer_elsewhere_has_given_up() {
    let (store, session) = store();
    let reading = lock(&session).read().await.unwrap();
    let other = session.mutex("b").unwrap().acquire().await.unwrap();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path("/b/").times(u64::MAX);
    store.faults(session.zookeeper_session().unwrap().id).inject(refused);
    let writer = lock(&on(&store));
    let writing =
        crate::spawn(async move { writer.write_timeout(Duration::from_secs(1)).await.map(drop) });
    settle().await;
    let (start, next) = (Instant::now(), lock(&session));
    let next = crate::spawn(async move { next.read_timeout(Duration::from_secs(5)).await });
    settle().await;
    other.release().await.unwrap_err();
    let next = next.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_millis(1_200), "{:?}", start.elapsed());
    assert!(writing.await.unwrap().unwrap_err().is_busy());
    assert!(reading.is_valid() && next.node_path() != reading.node_path());
    drop((reading, next));
}
