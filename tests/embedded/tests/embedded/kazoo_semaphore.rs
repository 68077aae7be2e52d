//! The semaphore in kazoo's layout: its nodes, its limit, and what kazoo must never see.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use zklock::layout::{Curator, Kazoo, Removed};
use zklock::{Embedded, ErrorKind, Event, Handoffs, LockOptions, Observer, Semaphore, Session};
use zklock_core::coordinator::memory::{Fault, Logged, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_test_support::Warnings;

use crate::support::{Inline, client, contenders, on, prompt, store};

const PRINTERS: &str = "/zklock/printers";
const INNER: &str = "/zklock/printers-__lock__";

fn printers(session: &Session, limit: u32) -> Semaphore {
    session.semaphore("printers", limit).unwrap().with_driver(Kazoo::default())
}

/// Another process.
fn other(store: &Embedded) -> Session {
    Session::embedded_builder(store).driver(Kazoo::default()).open().unwrap()
}

async fn permits(store: &Embedded) -> usize {
    contenders(store, PRINTERS).await.len()
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

async fn kazoo_creates(store: &Embedded, path: &str, data: &[u8], kind: NodeKind) {
    let kazoo = client(store).await;
    let above = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
    for path in above {
        drop(kazoo.create(path, b"", NodeKind::Persistent).await);
    }
    kazoo.create(path, data, kind).await.unwrap();
    if kind == NodeKind::Ephemeral {
        // Its session must not end.
        std::mem::forget(kazoo);
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_and_data_are_those_of_kazoo() {
    let (store, session) = store();
    let semaphore = printers(&session, 3);
    let two = semaphore.acquire_many(2).await.unwrap();
    let peer = client(&store).await;
    assert_eq!(peer.get(PRINTERS).await.unwrap().0, b"3");
    let names = contenders(&store, PRINTERS).await;
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.len() == 32
        && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))));
    assert!(two.node_path().starts_with("/zklock/printers/"));
    assert_eq!(semaphore.path(), PRINTERS);
    // The inner lock is let go, and its directory stays: kazoo stands no other.
    assert!(contenders(&store, INNER).await.is_empty());
    for path in [PRINTERS, INNER] {
        let error = peer.create(path, b"", NodeKind::Persistent).await.unwrap_err();
        assert_eq!(error, RequestError::NodeExists);
    }
    let holders = semaphore.site().contenders().await.unwrap();
    assert!(holders.len() == 2 && holders.iter().all(|one| one.holds && one.here));
    two.release().await.unwrap();
    assert_eq!(permits(&store).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_identifier_is_the_payload_of_permits_and_of_the_inner_lock() {
    let (store, _) = store();
    let layout = Removed::after(Kazoo::default().identifier("printer 7"));
    let session = Session::embedded_builder(&store).driver(layout).open().unwrap();
    store.record();
    let permit = session.semaphore("printers", 1).unwrap().acquire().await.unwrap();
    let peer = client(&store).await;
    assert_eq!(peer.get(permit.node_path()).await.unwrap().0, b"printer 7");
    permit.release().await.unwrap();
    // Directories stay, whatever the locks of the session do.
    assert!(peer.get(PRINTERS).await.is_ok() && peer.get(INNER).await.is_ok());
}

/// The session has another one.
#[tokio::test(start_paused = true)]
async fn the_identifier_is_that_of_the_layout_that_was_set_last() {
    let (store, _) = store();
    let session = other(&store);
    let named = |name: &str| Kazoo::default().identifier(name);
    let printers = session.semaphore("printers", 2).unwrap().with_driver(named("worker-7"));
    let permit = printers.acquire().await.unwrap();
    assert_eq!(client(&store).await.get(permit.node_path()).await.unwrap().0, b"worker-7");
    // One queue makes nodes for all who use it in this session. Another session has its own.
    let here = session.semaphore("printers", 2).unwrap_err();
    let again = printers.clone().with_driver(named("worker-8")).acquire().await.unwrap_err();
    for error in [here, again] {
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        let text = format!("{error:#}");
        assert!(text.contains("with other settings") && text.contains("worker-7"), "{text}");
    }
    let elsewhere = other(&store).semaphore("printers", 2).unwrap();
    drop(elsewhere.acquire().await.unwrap());
    // So with locks.
    let mutex = |layout| session.mutex("scanners").unwrap().with_driver(layout);
    let guard = mutex(named("worker-7")).acquire().await.unwrap();
    let error = mutex(named("worker-8")).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    assert!(format!("{error:#}").contains("kazoo, with other settings"), "{error:#}");
    drop((guard, permit, printers));
    settle().await;
    drop(session.semaphore("printers", 2).unwrap().acquire().await.unwrap());
}

/// To kazoo every child is a holder.
#[tokio::test(start_paused = true)]
async fn there_is_never_a_node_too_many_not_even_of_one_who_waits() {
    let (store, session) = store();
    let held = [printers(&session, 2).acquire().await.unwrap(), {
        let semaphore = other(&store).semaphore("printers", 2).unwrap();
        semaphore.acquire().await.unwrap()
    }];
    store.record();
    let semaphore = other(&store).semaphore("printers", 2).unwrap();
    let waiting = crate::spawn(async move { semaphore.acquire().await.unwrap() });
    settle().await;
    assert_eq!((permits(&store).await, contenders(&store, INNER).await.len()), (2, 1));
    let tried = other(&store).semaphore("printers", 2).unwrap().try_acquire().await.unwrap_err();
    assert!(tried.is_busy() && tried.holder().is_some(), "{tried}");
    settle().await;
    let made = store.recorded().into_iter().filter(|logged| logged.op == Op::Create);
    assert!(!made.map(|logged| logged.path).any(|path| path.starts_with("/zklock/printers/")));
    let [first, second] = held;
    first.release().await.unwrap();
    let third = waiting.await.unwrap();
    assert_eq!((permits(&store).await, contenders(&store, INNER).await.len()), (2, 0));
    drop((second, third));
    settle().await;
    assert_eq!(permits(&store).await, 0);
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_taken_all_or_none() {
    let (store, session) = store();
    let one = printers(&session, 3).acquire().await.unwrap();
    let semaphore = other(&store).semaphore("printers", 3).unwrap();
    assert!(semaphore.try_acquire_many(3).await.unwrap_err().is_busy());
    let late = semaphore.acquire_many_timeout(3, Duration::from_millis(100)).await.unwrap_err();
    assert!(late.is_busy(), "{late}");
    settle().await;
    assert_eq!((permits(&store).await, contenders(&store, INNER).await.len()), (1, 0));
    let two = semaphore.acquire_many(2).await.unwrap();
    let waiting = crate::spawn({
        let semaphore = printers(&session, 3);
        async move { semaphore.acquire_many(3).await.unwrap() }
    });
    settle().await;
    drop(one);
    settle().await;
    assert!(!waiting.is_finished());
    drop(two);
    assert_eq!(waiting.await.unwrap().permits(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_leaves_nothing() {
    let (store, session) = store();
    let held = printers(&session, 1).acquire().await.unwrap();
    let semaphore = other(&store).semaphore("printers", 1).unwrap();
    let waiting = crate::spawn(async move { semaphore.acquire().await });
    settle().await;
    assert_eq!(contenders(&store, INNER).await.len(), 1);
    waiting.abort();
    assert!(waiting.await.is_err());
    settle().await;
    assert_eq!((permits(&store).await, contenders(&store, INNER).await.len()), (1, 0));
    assert!(held.is_valid());
}

/// Where nobody knows whether the inner lock was there until the end, the permit is taken once more.
#[tokio::test(start_paused = true)]
async fn a_permit_is_taken_again_if_an_answer_about_the_inner_lock_is_lost() {
    for fault in [Fault::forget_reply(), Fault::lose_reply(), Fault::lose_request()] {
        let (store, session) = prompt();
        store.faults(session.zookeeper_session().unwrap().id).inject(fault.on(Op::Multi));
        let permit = printers(&session, 1).try_acquire().await.unwrap();
        assert_eq!((permits(&store).await, contenders(&store, INNER).await.len()), (1, 0));
        tokio::time::sleep(session.timing().unwrap().session_timeout).await;
        assert!(permit.is_valid());
        permit.release().await.unwrap();
    }
}

/// Later than an answer is waited for at first.
#[tokio::test(start_paused = true)]
async fn permits_are_granted_where_answers_take_long() {
    let (store, session) = prompt();
    store
        .faults(session.zookeeper_session().unwrap().id)
        .delay_replies(Duration::from_millis(1_200));
    let minute = Duration::from_secs(60);
    drop(session.mutex("a").unwrap().acquire_timeout(minute).await.unwrap());
    drop(printers(&session, 1).acquire_timeout(minute).await.unwrap());
}

/// Whoever asks again asks less and less often, however quickly it is answered.
#[tokio::test(start_paused = true)]
async fn there_is_a_pause_after_each_answer_about_the_inner_lock_that_says_nothing() {
    let refused = RequestError::Multi { index: 0, error: Box::new(RequestError::BadVersion) };
    for answer in [RequestError::ConnectionLoss, refused] {
        let (store, session) = store();
        let semaphore = printers(&session, 1);
        drop(semaphore.acquire().await.unwrap());
        settle().await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.inject(Fault::refuse(answer.clone()).on(Op::Multi).path(INNER).times(u64::MAX));
        store.record();
        let late = semaphore.acquire_timeout(Duration::from_secs(10)).await;
        assert!(late.is_err(), "{answer:?}");
        let permit =
            |one: &Logged| one.op == Op::Create && one.path.starts_with("/zklock/printers/");
        let taken = store.recorded().iter().filter(|one| permit(one)).count();
        assert!((10..40).contains(&taken), "{taken} times in 10 s: {answer:?}");
        faults.clear();
        drop(semaphore.acquire().await.unwrap());
        settle().await;
        assert_eq!((permits(&store).await, contenders(&store, INNER).await.len()), (0, 0));
    }
}

/// kazoo counts before its node exists, and not again. If somebody deletes the node of our inner lock,
/// it may create one permit too many, and so do we.
#[tokio::test(start_paused = true)]
async fn no_permit_is_granted_that_was_taken_without_the_inner_lock() {
    let (store, session) = store();
    let semaphore = printers(&session, 1);
    drop(semaphore.acquire().await.unwrap());
    settle().await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // The limit is compared, the inner lock is taken, those inside are counted, the permit is created:
    // 100 ms each.
    faults.delay_replies(Duration::from_millis(100));
    let waiting = crate::spawn(async move { semaphore.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(350)).await;
    let [inner] = &contenders(&store, INNER).await[..] else { panic!("the inner lock is taken") };
    let (peer, warnings) = (client(&store).await, Warnings::collect());
    peer.delete(&format!("{INNER}/{inner}")).await.unwrap();
    assert_eq!(permits(&store).await, 1, "it is created");
    // Of a client of kazoo that had counted before.
    kazoo_creates(&store, "/zklock/printers/rogue", b"", NodeKind::Ephemeral).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(permits(&store).await, 1, "it takes back its own");
    assert!(!waiting.is_finished());
    let lines = warnings.take();
    let tells = "the node of a semaphore's inner lock was deleted by somebody else";
    assert_eq!(lines.iter().filter(|line| line.contains(tells)).count(), 1, "{lines:?}");
    peer.delete("/zklock/printers/rogue").await.unwrap();
    assert!(waiting.await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn local_waiters_are_handed_permits_in_memory() {
    let (store, session) = store();
    let bound = Handoffs::new().most(1_000).within(Duration::from_secs(60));
    let options = LockOptions::default().handoffs(bound);
    let semaphore = printers(&session, 2).with_options(options);
    store.record();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let semaphore = semaphore.clone();
            crate::spawn(async move {
                let permit = semaphore.acquire().await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(permit);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let made = store.recorded().into_iter().filter(|logged| logged.op == Op::Create);
    let made = made.filter(|logged| logged.path.starts_with("/zklock/printers/")).count();
    assert!((1..=4).contains(&made), "{made} nodes for 20 acquires");
}

#[tokio::test(start_paused = true)]
async fn another_limit_in_the_data_is_an_error_that_names_both_and_nothing_is_held() {
    let (store, session) = store();
    kazoo_creates(&store, PRINTERS, b"5", NodeKind::Persistent).await;
    let error = printers(&session, 3).acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.lock_name()), (ErrorKind::InvalidOption, Some("printers")));
    let text = format!("{error:#}");
    assert!(text.contains("5 permits") && text.contains("limit 3"), "{text}");
    let error = printers(&session, 3).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    settle().await;
    assert_eq!((permits(&store).await, contenders(&store, INNER).await.len()), (0, 0));
    assert!(session.local_contenders().is_empty());
    drop(printers(&session, 5).acquire().await.unwrap());
    // It is compared each time, not only the first.
    let semaphore = printers(&session, 5);
    drop(semaphore.acquire().await.unwrap());
    client(&store).await.set(PRINTERS, b"4").await.unwrap();
    assert_eq!(semaphore.acquire().await.unwrap_err().kind(), ErrorKind::InvalidOption);
}

/// It has no limit yet, as the first acquire of another kind leaves it, or kazoo between creating and writing.
#[tokio::test(start_paused = true)]
async fn the_limit_is_agreed_on_where_the_node_is_deleted_between_reading_and_writing_it() {
    const LATE: Duration = Duration::from_millis(100);
    for by_another in [None, Some(b"5")] {
        let (store, session) = prompt();
        let id = session.zookeeper_session().unwrap().id;
        let kazoo = client(&store).await;
        kazoo.create("/zklock", b"", NodeKind::Persistent).await.unwrap();
        kazoo.create(PRINTERS, b"", NodeKind::Persistent).await.unwrap();
        store.faults(id).delay_replies(LATE);
        let semaphore = printers(&session, 3);
        let acquired = crate::spawn(async move { semaphore.acquire().await });
        // It was read; the answer is under way.
        tokio::time::sleep(LATE / 2).await;
        kazoo.delete(PRINTERS).await.unwrap();
        tokio::time::sleep(LATE).await;
        if let Some(other) = by_another {
            // It was not there to be written to; the answer is under way.
            kazoo.create(PRINTERS, other, NodeKind::Persistent).await.unwrap();
        }
        let acquired = acquired.await.unwrap();
        match by_another {
            None => assert!(acquired.unwrap().is_valid()),
            Some(_) => assert_eq!(acquired.unwrap_err().kind(), ErrorKind::InvalidOption),
        }
        assert_eq!(kazoo.get(PRINTERS).await.unwrap().0, by_another.unwrap_or(b"3"));
    }
}

/// As long as nobody uses the directory above, who made it for another lock removes it again.
#[tokio::test(start_paused = true)]
async fn the_limit_is_written_where_the_directory_above_is_removed_meanwhile() {
    let (store, session) = prompt();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(RequestError::NoNode).on(Op::Create).path("printers").times(2));
    let permit = printers(&session, 3).acquire().await.unwrap();
    assert_eq!(client(&store).await.get(PRINTERS).await.unwrap().0, b"3");
    permit.release().await.unwrap();
}

/// Also if everything is allowed again a moment later.
#[tokio::test(start_paused = true)]
async fn nothing_is_granted_while_the_limit_may_not_be_read_or_made() {
    for (op, there) in [(Op::Get, true), (Op::Create, false)] {
        let (store, session) = prompt();
        let kazoo = client(&store).await;
        kazoo.create("/zklock", b"", NodeKind::Persistent).await.unwrap();
        if there {
            kazoo.create(PRINTERS, b"4", NodeKind::Persistent).await.unwrap();
        }
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.inject(Fault::refuse(RequestError::NoAuth).on(op).path("printers"));
        let refused = printers(&session, 3).acquire().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unauthorized, "{op:?}: {refused}");
        let next = printers(&session, 3).acquire().await;
        if there {
            assert_eq!(next.unwrap_err().kind(), ErrorKind::InvalidOption);
        } else {
            next.unwrap().release().await.unwrap();
        }
    }
}

/// As kazoo does, which writes into no node that exists. But another may have written meanwhile.
#[tokio::test(start_paused = true)]
async fn who_may_not_write_the_limit_compares_it_all_the_same() {
    for (said, granted) in [(&b""[..], true), (b"4", false)] {
        let (store, session) = prompt();
        let kazoo = client(&store).await;
        kazoo.create("/zklock", b"", NodeKind::Persistent).await.unwrap();
        kazoo.create(PRINTERS, b"", NodeKind::Persistent).await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let refused = RequestError::Multi { index: 0, error: Box::new(RequestError::NoAuth) };
        faults.inject(Fault::refuse(refused).on(Op::Multi).path("printers"));
        faults.hold_replies();
        let acquiring = crate::spawn({
            let printers = printers(&session, 3);
            async move { printers.acquire().await }
        });
        settle().await;
        // The first look is answered as the node was.
        kazoo.set(PRINTERS, said).await.unwrap();
        faults.release();
        match acquiring.await.unwrap() {
            Ok(permit) if granted => permit.release().await.unwrap(),
            Err(error) if !granted => assert_eq!(error.kind(), ErrorKind::InvalidOption),
            other => panic!("{other:?} where it says {said:?}"),
        }
    }
}

/// Whoever is refused may try another way before the driver that found out has come to its end.
#[tokio::test(start_paused = true)]
async fn after_a_refusal_another_limit_or_layout_may_be_tried_at_once() {
    for layout in ["kazoo's", "Curator's"] {
        let (store, session) = prompt();
        kazoo_creates(&store, PRINTERS, b"5", NodeKind::Persistent).await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.hold_replies();
        let (tell, told) = mpsc::channel();
        let here = session.clone();
        let work = Inline::start(async move {
            let three = printers(&here, 3);
            let refused = three.acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidOption);
            drop(three);
            // The driver goes on when this returns.
            let next = here.semaphore("printers", 5).unwrap();
            let is_kazoos = layout == "kazoo's";
            let next = if is_kazoos { next.with_driver(Kazoo::default()) } else { next };
            tell.send(next.acquire().await.map(drop)).unwrap();
        });
        assert!(!work.is_done());
        faults.release();
        assert!(work.is_done(), "it ran inside the driver");
        told.recv().unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn data_that_is_no_number_is_left_alone_and_no_data_is_filled_in() {
    let (store, session) = store();
    kazoo_creates(&store, PRINTERS, b"the printers", NodeKind::Persistent).await;
    drop(printers(&session, 3).acquire().await.unwrap());
    let peer = client(&store).await;
    assert_eq!(peer.get(PRINTERS).await.unwrap().0, b"the printers");
    peer.set(PRINTERS, b"").await.unwrap();
    drop(printers(&session, 3).acquire().await.unwrap());
    assert_eq!(peer.get(PRINTERS).await.unwrap().0, b"3");
}

/// As kazoo says: the node is deleted to change the limit.
#[tokio::test(start_paused = true)]
async fn a_semaphore_that_was_deleted_is_made_again() {
    let (store, session) = store();
    let semaphore = printers(&session, 3);
    drop(semaphore.acquire().await.unwrap());
    settle().await;
    let peer = client(&store).await;
    peer.delete(PRINTERS).await.unwrap();
    drop(semaphore.acquire().await.unwrap());
    assert_eq!(peer.get(PRINTERS).await.unwrap().0, b"3");
}

/// The same, where it is deleted just after the limit was compared.
#[tokio::test(start_paused = true)]
async fn a_semaphore_that_is_deleted_before_the_permit_is_made_says_its_limit_again() {
    let (store, session) = store();
    let semaphore = printers(&session, 3);
    drop(semaphore.acquire().await.unwrap());
    settle().await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // The limit is compared, the inner lock is taken, those inside are counted: 100 ms each.
    faults.delay_replies(Duration::from_millis(100));
    let acquired = crate::spawn(async move { semaphore.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(250)).await;
    let peer = client(&store).await;
    peer.delete(PRINTERS).await.unwrap();
    let permit = acquired.await.unwrap();
    assert_eq!(peer.get(PRINTERS).await.unwrap().0, b"3");
    assert!(permit.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_child_of_whomever_is_a_permit() {
    let (store, session) = store();
    drop(printers(&session, 2).acquire().await.unwrap());
    kazoo_creates(&store, "/zklock/printers/anything", b"", NodeKind::Ephemeral).await;
    let held = printers(&session, 2).acquire().await.unwrap();
    let semaphore = other(&store).semaphore("printers", 2).unwrap();
    assert!(semaphore.try_acquire().await.unwrap_err().is_busy());
    drop(held);
    drop(semaphore.acquire().await.unwrap());
}

/// Somebody who made a node without the inner lock: kazoo after a pause.
#[tokio::test(start_paused = true)]
async fn whoever_came_without_the_inner_lock_is_counted_before_the_grant() {
    let (store, session) = store();
    let semaphore = printers(&session, 1);
    drop(semaphore.acquire().await.unwrap());
    settle().await;
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // The limit is compared, the inner lock is taken, those inside are counted: 100 ms each.
    faults.delay_replies(Duration::from_millis(100));
    let waiting = crate::spawn(async move { semaphore.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(250)).await;
    kazoo_creates(&store, "/zklock/printers/rogue", b"", NodeKind::Ephemeral).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(permits(&store).await, 2, "ours was made after the count");
    assert!(!waiting.is_finished());
    client(&store).await.delete("/zklock/printers/rogue").await.unwrap();
    drop(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_limit_in_a_node_is_not_of_this_layout() {
    let (store, _) = store();
    let session = other(&store);
    let error = session.semaphore_with_limit_at("printers", "limits/printers", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(format!("{error:#}").contains("its own node"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn in_one_process_a_name_is_one_thing() {
    let (store, session) = store();
    let invalid = |error: zklock::LockError, names: [&str; 2]| {
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        assert!(names.iter().all(|name| format!("{error:#}").contains(name)), "{error}");
    };
    let kazoo = printers(&session, 3);
    drop(kazoo.acquire().await.unwrap());
    // Another limit, here and in another session.
    for session in [session.clone(), on(&store)] {
        let four = session.semaphore("printers", 4).unwrap().with_driver(Kazoo::default());
        invalid(four.acquire().await.unwrap_err(), ["another limit", "printers"]);
    }
    // Curator's semaphore and a mutex would put nodes among the permits.
    let permit = kazoo.acquire().await.unwrap();
    for session in [session.clone(), on(&store)] {
        let curator = session.semaphore("printers", 3).unwrap().acquire().await.unwrap_err();
        invalid(curator, ["Curator's", "kazoo's"]);
        let mutex = session.mutex("printers").unwrap().acquire().await.unwrap_err();
        invalid(mutex, ["a semaphore", "a mutex"]);
    }
    drop(permit);
    drop(kazoo.acquire().await.unwrap());
    drop(kazoo);
    let mutex = session.mutex("printers").unwrap();
    let held = mutex.acquire().await.unwrap();
    let here = session.semaphore("printers", 3).unwrap().with_driver(Kazoo::default());
    for refused in [here, other(&store).semaphore("printers", 3).unwrap()] {
        invalid(refused.acquire().await.unwrap_err(), ["a semaphore", "a mutex"]);
    }
    // Who was refused does not use it, nor who does not hold it any more.
    drop(held);
    let curators = session.semaphore("printers", 3).unwrap().with_driver(Curator);
    drop(curators.acquire().await.unwrap());
    drop(mutex.acquire().await.unwrap());
}

#[derive(Debug)]
struct Losses(Mutex<mpsc::Sender<Event>>);

impl Observer for Losses {
    fn event(&self, event: &Event) {
        if matches!(event, Event::Lost { .. } | Event::Released { .. }) {
            let _ = self.0.lock().unwrap().send(event.clone());
        }
    }
}

/// The inner lock is given back, and not lost.
#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_a_loss_when_a_permit_is_taken() {
    let (store, (sender, told)) = (Embedded::new(), mpsc::channel());
    let losses = Arc::new(Losses(Mutex::new(sender)));
    let session = Session::embedded_builder(&store).observer(losses).open().unwrap();
    let semaphore = printers(&session, 1);
    for late in [0, 30] {
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.delay_replies(Duration::from_millis(late));
        semaphore.acquire().await.unwrap().release().await.unwrap();
        // What was told before comes before it.
        let first = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(matches!(first, Event::Released { .. }), "{first:?}");
    }
}
