//! The semaphore among tasks and sessions.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::time::timeout;
use zklock::layout::Kazoo;
use zklock::{
    Embedded, ErrorKind, Handoffs, LockOptions, Requeue, Semaphore, Session, ZooKeeperSession,
};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::request_error::RequestError;
use zklock_test_support::Warnings;

use crate::support::{Inline, client, contenders, late, on, prompt, store};

fn printers(session: &Session, limit: u32) -> Semaphore {
    session.semaphore("printers", limit).unwrap()
}

async fn leases(store: &Embedded) -> usize {
    contenders(store, "/zklock/printers/leases").await.len()
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Runs in a task of its own, so that it is somebody else.
async fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    crate::spawn(work).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn as_many_enter_as_there_are_permits_and_the_next_is_busy() {
    let (store, session) = store();
    let semaphore = printers(&session, 3);
    let held = [
        semaphore.acquire().await.unwrap(),
        printers(&on(&store), 3).acquire().await.unwrap(),
        semaphore.try_acquire().await.unwrap(),
    ];
    assert_eq!(leases(&store).await, 3);
    assert!(held.iter().all(|permit| permit.is_valid() && permit.permits() == 1));
    let other = printers(&on(&store), 3);
    assert!(other.try_acquire().await.unwrap_err().is_busy());
    let busy = other.acquire_timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(busy.is_busy() && format!("{busy:#}").contains("test"), "{busy}");
    let [first, second, third] = held;
    first.release().await.unwrap();
    drop(other.acquire_timeout(Duration::from_millis(300)).await.unwrap());
    drop((second, third));
    settle().await;
    assert_eq!(leases(&store).await, 0);
    assert!(contenders(&store, "/zklock/printers/locks").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn three_of_three_are_held_one_goes_and_the_fourth_enters() {
    let (store, session) = store();
    let held = printers(&session, 3).acquire_many(3).await.unwrap();
    assert_eq!((held.permits(), leases(&store).await), (3, 3));
    let other = printers(&on(&store), 3);
    let fourth = crate::spawn(async move { other.acquire().await.unwrap() });
    settle().await;
    assert!(!fourth.is_finished());
    held.release().await.unwrap();
    assert!(fourth.await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_taken_all_or_none() {
    let (store, session) = store();
    let one = printers(&session, 3).acquire().await.unwrap();
    let other = printers(&on(&store), 3);
    assert!(other.try_acquire_many(3).await.unwrap_err().is_busy());
    let error = other.acquire_many_timeout(3, Duration::from_millis(100)).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    settle().await;
    assert_eq!(leases(&store).await, 1, "what was taken for it is given back");
    drop(other.try_acquire_many(2).await.unwrap());
    drop(one);
    drop(other.acquire_many(3).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_release_of_several_permits_waits_for_each_of_them() {
    for lost in 0..3 {
        let (store, session) = store();
        let permits = printers(&session, 3).acquire_many(3).await.unwrap();
        let fault = Fault::lose_request().on(Op::Delete).path("/leases/").skip(lost);
        store.faults(session.zookeeper_session().unwrap().id).inject(fault);
        permits.release().await.unwrap();
        assert_eq!(leases(&store).await, 0, "{lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_deleted_however_long_the_deletion_of_another_takes() {
    for slow in 0..3 {
        let (store, session) = store();
        let permits = printers(&session, 3).acquire_many(3).await.unwrap();
        let nodes = contenders(&store, "/zklock/printers/leases").await;
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        for (place, node) in nodes.iter().enumerate() {
            let throttled = RequestError::Other("throttled".to_owned());
            faults.inject(if place == slow {
                Fault::refuse(throttled).on(Op::Delete).path(node).times(u64::MAX)
            } else {
                Fault::lose_request().on(Op::Delete).path(node)
            });
        }
        let mut release = pin!(permits.release());
        assert!(timeout(Duration::from_secs(60), &mut release).await.is_err());
        assert_eq!(leases(&store).await, 1, "{slow}");
        faults.clear();
        release.await.unwrap();
        assert_eq!(leases(&store).await, 0, "{slow}");
    }
}

/// With each list as long as there are permits.
#[tokio::test(start_paused = true)]
async fn who_takes_several_permits_lists_no_more_often_the_more_there_are() {
    for (kazoo, most) in [(false, 3), (true, 5)] {
        let (store, session) = prompt();
        let permits = printers(&session, 200);
        let permits = if kazoo { permits.with_driver(Kazoo::default()) } else { permits };
        permits.acquire().await.unwrap().release().await.unwrap();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.delay_replies(Duration::from_millis(10));
        store.record();
        let held = permits.acquire_many(200).await.unwrap();
        let lists = store.recorded().iter().filter(|sent| sent.op == Op::Children).count();
        assert!(lists <= most, "{lists} lists, kazoo: {kazoo}");
        held.release().await.unwrap();
    }
}

/// Lists that are shared wait for each other.
#[tokio::test(start_paused = true)]
async fn a_few_permits_at_once_take_no_longer_than_one() {
    let (store, session) = prompt();
    let permits = printers(&session, 10);
    permits.acquire().await.unwrap().release().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.delay_replies(Duration::from_millis(10));
    let start = tokio::time::Instant::now();
    // The inner lock with its list, the permits with theirs, and the release.
    permits.acquire_many(10).await.unwrap().release().await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(40), "{:?}", start.elapsed());
}

/// Two processes that want two of three each never wait for each other.
#[tokio::test(start_paused = true)]
async fn who_wants_several_does_not_wait_for_another_who_does() {
    let (store, session) = store();
    let tasks: Vec<_> = [session, on(&store), on(&store)]
        .into_iter()
        .flat_map(|session| [session.clone(), session])
        .map(|session| {
            crate::spawn(async move {
                for _ in 0..20 {
                    let permits = printers(&session, 3).acquire_many(2).await.unwrap();
                    tokio::task::yield_now().await;
                    drop(permits);
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn local_waiters_are_handed_permits_in_memory() {
    let (store, session) = store();
    let bound = Handoffs::new().most(1_000).within(Duration::from_secs(60));
    let options = LockOptions::default().handoffs(bound);
    let semaphore = printers(&session, 2).with_options(options);
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    store.record();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let (semaphore, inside, most) = (semaphore.clone(), inside.clone(), most.clone());
            crate::spawn(async move {
                let permit = semaphore.acquire().await.unwrap();
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
    let created = |path: &str| {
        let recorded = store.recorded();
        let creates = recorded.iter().filter(|logged| {
            logged.op == zklock_core::coordinator::memory::Op::Create && logged.path.contains(path)
        });
        creates.count()
    };
    assert!(created("/leases/_c_") <= 4, "{} leases for 20 acquires", created("/leases/_c_"));
    settle().await;
    assert_eq!(leases(&store).await, 0);
}

/// Whoever does not begin again fails alone.
#[tokio::test(start_paused = true)]
async fn each_waiter_whose_node_is_deleted_begins_again_as_often_as_it_was_told() {
    let (store, session) = store();
    let held = printers(&on(&store), 1).acquire().await.unwrap();
    let acquire = |policy| {
        let semaphore = printers(&session, 1).with_options(LockOptions::new().requeue(policy));
        crate::spawn(async move { semaphore.acquire().await })
    };
    let first = acquire(Requeue::NEVER);
    settle().await;
    let (second, third) = (acquire(Requeue::default()), acquire(Requeue::NEVER));
    settle().await;
    let raw = client(&store).await;
    for name in contenders(&store, "/zklock/printers/leases").await {
        let path = format!("/zklock/printers/leases/{name}");
        if path != held.node_path() {
            raw.delete(&path).await.unwrap();
        }
    }
    for waiting in [first, third] {
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }
    settle().await;
    assert!(!second.is_finished());
    drop(held);
    second.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_leaves_nothing() {
    let (store, session) = store();
    let held = printers(&session, 1).acquire().await.unwrap();
    let other = printers(&on(&store), 1);
    let waiting = crate::spawn(async move { other.acquire().await });
    settle().await;
    assert_eq!(leases(&store).await, 2, "the waiter's node counts already");
    waiting.abort();
    assert!(waiting.await.is_err());
    settle().await;
    assert_eq!(leases(&store).await, 1);
    assert!(contenders(&store, "/zklock/printers/locks").await.is_empty());
    assert!(held.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_waiters_node_deleted_from_outside_is_made_again_and_wins() {
    let (store, session) = store();
    let held = printers(&session, 1).acquire().await.unwrap();
    let mine = held.node_path().to_owned();
    let other = printers(&on(&store), 1);
    let waiting = crate::spawn(async move { other.acquire().await.unwrap() });
    settle().await;
    let client = client(&store).await;
    for name in contenders(&store, "/zklock/printers/leases").await {
        let path = format!("/zklock/printers/leases/{name}");
        if path != mine {
            client.delete(&path).await.unwrap();
        }
    }
    settle().await;
    held.release().await.unwrap();
    drop(waiting.await.unwrap());
    settle().await;
    assert_eq!(leases(&store).await, 0);
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_closed_session_come_back() {
    let (store, session) = store();
    let gone = on(&store);
    let held = printers(&gone, 2).acquire_many(2).await.unwrap();
    gone.close().await;
    assert!(!held.is_valid());
    drop(printers(&session, 2).acquire_many_timeout(2, Duration::from_secs(5)).await.unwrap());
}

/// Who waits for permits holds the inner lock. Without it two could wait for each other, each with a
/// part of what it wants.
#[tokio::test(start_paused = true)]
async fn whose_session_ends_while_it_waits_begins_anew() {
    let (store, session) = store();
    let [other, third] = [on(&store), on(&store)];
    let held = printers(&third, 3).acquire_many(3).await.unwrap();
    let take = |session: &Session| {
        let printers = printers(session, 3);
        crate::spawn(async move {
            let guard = printers.acquire_many(2).await.unwrap();
            guard.release().await.unwrap();
        })
    };
    let first = take(&session);
    settle().await;
    let second = take(&other);
    settle().await;
    store.faults(session.zookeeper_session().unwrap().id).expire();
    tokio::time::sleep(Duration::from_secs(1)).await;
    held.release().await.unwrap();
    for taking in [first, second] {
        tokio::time::timeout(Duration::from_secs(60), taking)
            .await
            .expect("they wait for each other")
            .unwrap();
    }
    assert_eq!(leases(&store).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_limit_in_a_node_is_made_read_and_obeyed_while_people_wait() {
    let (store, session) = store();
    let semaphore = |session: &Session| {
        session.semaphore_with_limit_at("printers", "limits/printers", 1).unwrap()
    };
    let first = semaphore(&session).acquire().await.unwrap();
    let client = client(&store).await;
    let node = "/zklock/limits/printers";
    assert_eq!(client.get(node).await.unwrap().0, [0, 0, 0, 1]);
    let other = semaphore(&on(&store));
    let waiting = crate::spawn(async move { (other.acquire().await.unwrap(), other) });
    settle().await;
    assert!(!waiting.is_finished());
    client.set(node, &[0, 0, 0, 2]).await.unwrap();
    let raised = tokio::time::Instant::now();
    let (second, other) = waiting.await.unwrap();
    // At once, and not at the next slow look, seconds later.
    assert!(raised.elapsed() < Duration::from_secs(1), "{:?}", raised.elapsed());
    assert!(first.is_valid() && second.is_valid() && other.limit() == Some(2));
    client.set(node, &[0, 0, 0, 1]).await.unwrap();
    settle().await;
    drop(first);
    assert!(apart(async move { other.try_acquire().await }).await.unwrap_err().is_busy());
    // What is no number changes nothing for those who know one, and is an error for the others.
    let knows = semaphore(&session);
    settle().await;
    let warnings = Warnings::collect();
    client.set(node, b"plenty").await.unwrap();
    settle().await;
    assert_eq!(knows.limit(), Some(1));
    let lines = warnings.take();
    let is_told = |line: &String| {
        line.contains("the limit of a semaphore cannot be read: its node must have four bytes")
            && line.contains(node)
    };
    assert!(lines.iter().any(is_told), "{lines:?}");
    drop(second);
    drop(knows.acquire().await.unwrap());
    let error = semaphore(&on(&store)).acquire().await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::InvalidOption && format!("{error:#}").contains("four bytes")
    );
}

/// Who waits where the limit is in a node asks no more than where it is a number.
#[tokio::test(start_paused = true)]
async fn a_waiter_lists_the_queue_only_if_the_limit_is_another_one() {
    let mut asked = Vec::new();
    for in_a_node in [false, true] {
        let (store, session) = store();
        let semaphore = if in_a_node {
            session.semaphore_with_limit_at("a", "limits/a", 1).unwrap()
        } else {
            session.semaphore("a", 1).unwrap()
        };
        let _held = semaphore.acquire().await.unwrap();
        // So that it does not look at the same time as whoever reads the limit.
        tokio::time::sleep(Duration::from_secs(3)).await;
        store.record();
        let waiting = crate::spawn(async move { semaphore.acquire().await.map(drop) });
        // The limit is read again meanwhile, after 10 s.
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(!waiting.is_finished());
        let lists = store.recorded().iter().filter(|one| one.op == Op::Children).count();
        asked.push(lists);
        waiting.abort();
    }
    assert_eq!(asked[0], asked[1]);
}

/// What one session has read, the server of the next one may not know yet, also where the first answer is lost.
#[tokio::test(start_paused = true)]
async fn another_session_reads_a_limit_once_its_server_has_caught_up() {
    let (store, session) = prompt();
    let semaphore = session.semaphore_with_limit_at("a", "limits/a", 1).unwrap();
    drop(semaphore.acquire().await.unwrap());
    settle().await;
    store.record();
    // So late that the first request is still on its way when the connection breaks.
    store.answer_late(7, Duration::from_millis(400));
    store.faults(session.zookeeper_session().unwrap().id).expire();
    let of_limit = || store.recorded().into_iter().filter(|one| one.path == "/zklock/limits/a");
    while of_limit().next().is_none() {
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    store.answer_late(7, Duration::ZERO);
    faults.reconnect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked: Vec<_> = of_limit().map(|one| one.op).collect();
    assert_eq!(asked, [Op::Sync, Op::Get, Op::Sync, Op::Get]);
}

/// Whoever lowers a limit asks them to let go.
#[tokio::test(start_paused = true)]
async fn who_holds_beyond_a_lowered_limit_is_shown_and_asked() {
    let (store, session) = store();
    let semaphore = |session: &Session| {
        session.semaphore_with_limit_at("printers", "limits/printers", 3).unwrap()
    };
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(semaphore(&session).acquire().await.unwrap());
    }
    client(&store).await.set("/zklock/limits/printers", &[0, 0, 0, 1]).await.unwrap();
    settle().await;
    let other = semaphore(&on(&store));
    let site = other.site();
    let waiting = crate::spawn(async move { other.acquire().await });
    settle().await;
    let queue = site.contenders().await.unwrap();
    let holders: Vec<_> = queue.iter().map(|one| one.holds).collect();
    assert_eq!(holders, [true, true, true, false]);
    assert!(held.iter().all(|permit| permit.is_valid()) && !waiting.is_finished());
    assert_eq!(site.revoke().await.unwrap(), 3);
    waiting.abort();
}

/// A permit of kazoo's that has a node is held, whatever the limit.
#[tokio::test]
async fn kazoos_permits_are_held_by_whoever_has_a_node() {
    let (store, session) = store();
    let semaphore = session.semaphore("printers", 1).unwrap().with_driver(Kazoo::default());
    let _permit = semaphore.acquire().await.unwrap();
    let raw = client(&store).await;
    let another = "/zklock/printers/0123456789abcdef0123456789abcdef";
    raw.create(another, b"host", NodeKind::Ephemeral).await.unwrap();
    let queue = semaphore.site().contenders().await.unwrap();
    assert!(queue.len() == 2 && queue.iter().all(|one| one.holds), "{queue:?}");
}

/// Somebody closes the semaphore for a while: that is an answer.
#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_lets_nobody_in_and_is_told() {
    let (store, session) = store();
    let semaphore = |session: &Session| {
        session.semaphore_with_limit_at("printers", "limits/printers", 1).unwrap()
    };
    let [before, after] = [semaphore(&session), semaphore(&on(&store))];
    assert_eq!([before.limit(), after.limit()], [None; 2]);
    drop(before.acquire().await.unwrap());
    assert_eq!(before.limit(), Some(1));
    let (client, node) = (client(&store).await, "/zklock/limits/printers");
    client.set(node, &[0; 4]).await.unwrap();
    settle().await;
    assert_eq!([before.limit(), after.limit()], [Some(0); 2]);
    for closed in [&before, &after] {
        let second = Duration::from_secs(1);
        for error in [closed.try_acquire().await, closed.acquire_timeout(second).await] {
            let error = error.unwrap_err();
            assert!(error.is_busy() && format!("{error:#}").contains("limit is 0"), "{error:#}");
        }
    }
    let waiting = crate::spawn(async move { after.acquire().await.map(drop) });
    settle().await;
    assert!(!waiting.is_finished());
    client.set(node, &[0, 0, 0, 1]).await.unwrap();
    settle().await;
    assert!(waiting.is_finished());
    waiting.await.unwrap().unwrap();
    settle().await;
    assert_eq!(leases(&store).await, 0);
}

/// It hears that the limit is another one, and the answer to its look is missing.
#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_that_was_raised_makes_no_semaphore_busy() {
    let (store, session) = prompt();
    let semaphore = session.semaphore_with_limit_at("printers", "limits/printers", 1).unwrap();
    drop(semaphore.acquire().await.unwrap());
    let (client, node) = (client(&store).await, "/zklock/limits/printers");
    client.set(node, &[0; 4]).await.unwrap();
    settle().await;
    let waits = semaphore.clone();
    let waiting =
        crate::spawn(async move { waits.acquire_timeout(Duration::from_secs(2)).await.map(drop) });
    settle().await;
    let fault = Fault::forget_reply().on(Op::Children).path("leases").times(u64::MAX);
    store.faults(session.zookeeper_session().unwrap().id).inject(fault);
    client.set(node, &[0, 0, 0, 1]).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
}

/// Whoever has the others: its own nodes are in nobody's way.
#[tokio::test(start_paused = true)]
async fn who_wants_more_permits_than_a_lowered_limit_is_told_the_limit() {
    let (store, session) = store();
    let semaphore = |session: &Session| {
        session.semaphore_with_limit_at("printers", "limits/printers", 3).unwrap()
    };
    let [mine, theirs] = [semaphore(&session), semaphore(&on(&store))];
    drop(mine.acquire_many(3).await.unwrap());
    client(&store).await.set("/zklock/limits/printers", &[0, 0, 0, 1]).await.unwrap();
    settle().await;
    for is_held in [false, true] {
        let _held = if is_held { Some(theirs.acquire().await.unwrap()) } else { None };
        let waited = mine.acquire_many_timeout(2, Duration::from_secs(1)).await;
        for error in [waited, mine.try_acquire_many(2).await] {
            let error = error.unwrap_err();
            assert!(error.is_busy() && error.holder().is_none(), "{is_held}: {error:#}");
            assert!(format!("{error:#}").contains("its limit is 1"), "{is_held}: {error:#}");
        }
    }
}

/// Whoever waits for it runs inside the call.
#[test]
fn whoever_is_woken_by_the_making_of_a_limit_may_look_at_the_session() {
    let (tell, told) = mpsc::channel();
    // If it waited for itself, this thread would not come back.
    std::thread::spawn(move || {
        let (store, session) = prompt();
        let here = session.clone();
        let looks = Inline::start(async move {
            let raw = client(&store).await;
            for path in ["/zklock", "/zklock/limits"] {
                raw.create(path, b"", NodeKind::Persistent).await.unwrap();
            }
            let (_, changed) = raw.children_watched("/zklock/limits").await.unwrap();
            changed.await;
            assert!(here.local_contenders().is_empty());
        });
        let node = "limits/printers";
        let semaphore = session.semaphore_with_limit_at("printers", node, 3).unwrap();
        tell.send((looks.is_done(), semaphore.limit())).unwrap();
    });
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok((true, Some(3))));
}

/// Above the root, nobody need be allowed to create anything: ZooKeeper asks that first.
#[tokio::test(start_paused = true)]
async fn a_limit_is_written_without_a_request_to_create_what_is_above_it_and_there() {
    let (store, session) = store();
    client(&store).await.create("/zklock", b"", NodeKind::Persistent).await.unwrap();
    store.record();
    drop(printers(&session, 3).with_driver(Kazoo::default()).acquire().await.unwrap());
    let at_node = session.semaphore_with_limit_at("scanners", "limits/scanners", 3).unwrap();
    drop(at_node.acquire().await.unwrap());
    let recorded = store.recorded();
    let created: Vec<_> = recorded.iter().filter(|logged| logged.op == Op::Create).collect();
    assert!(created.iter().any(|logged| logged.path == "/zklock/limits/scanners"), "{created:?}");
    assert!(created.iter().all(|logged| logged.path != "/zklock"), "{created:?}");
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_read_once_a_person_has_mended_what_the_session_was_refused_for() {
    let store = late();
    store.begin_outage(RequestError::NoNode);
    let session = on(&store);
    let semaphore = session.semaphore_with_limit_at("printers", "limits/printers", 1).unwrap();
    settle().await;
    assert_eq!(semaphore.acquire().await.unwrap_err().kind(), ErrorKind::NoChroot);
    store.end_outage();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let acquired = tokio::time::timeout(Duration::from_secs(60), semaphore.acquire());
    drop(acquired.await.unwrap().unwrap());
}

/// Nobody waits for what only a person can mend.
#[tokio::test(start_paused = true)]
async fn whoever_needs_a_limit_that_zookeeper_refuses_is_told_at_once() {
    for (op, error, kind) in [
        (Op::Get, RequestError::NoAuth, ErrorKind::Unauthorized),
        (Op::Create, RequestError::NoAuth, ErrorKind::Unauthorized),
        (Op::Create, RequestError::QuotaExceeded, ErrorKind::Unavailable),
        (Op::Create, RequestError::NoChildrenForEphemerals, ErrorKind::InvalidName),
        // The chroot was deleted.
        (Op::Create, RequestError::NoNode, ErrorKind::NoChroot),
    ] {
        let (store, session) = store();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        let what = format!("{op:?} {error:?}");
        let path = if error == RequestError::NoNode { "/zklock" } else { "limits" };
        faults.inject(Fault::refuse(error).on(op).path(path).times(u64::MAX));
        let semaphore = session.semaphore_with_limit_at("printers", "limits/printers", 3).unwrap();
        settle().await;
        store.record();
        for _ in 0..2 {
            let waits = timeout(Duration::from_secs(1), semaphore.acquire());
            let refused = waits.await.expect(&what).unwrap_err();
            assert_eq!(
                (refused.kind(), refused.lock_name()),
                (kind, Some("printers")),
                "{refused:#}"
            );
            assert!(format!("{refused:#}").contains("/zklock/limits/printers"), "{refused:#}");
            assert_eq!(semaphore.try_acquire().await.unwrap_err().kind(), kind, "{what}");
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let looks = store.recorded().iter().filter(|logged| logged.op == Op::Get).count();
        assert!(looks < 100, "{looks} in a minute: {what}");
        faults.clear();
        // An answer may be under way.
        settle().await;
        drop(semaphore.acquire().await.unwrap());
        assert_eq!(semaphore.limit(), Some(3));
    }
}

/// A limit that was read stays in force.
#[tokio::test(start_paused = true)]
async fn whoever_knows_a_limit_that_may_not_be_read_any_more_keeps_it() {
    let (store, session) = store();
    let semaphore = session.semaphore_with_limit_at("printers", "limits/printers", 3).unwrap();
    drop(semaphore.acquire().await.unwrap());
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Get).path("limits").times(u64::MAX));
    client(&store).await.set("/zklock/limits/printers", &[0, 0, 0, 2]).await.unwrap();
    settle().await;
    assert_eq!(semaphore.acquire_many(3).await.unwrap().permits(), 3);
    faults.clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(semaphore.limit(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_child_takes_a_permit() {
    let (store, session) = store();
    drop(printers(&session, 2).acquire().await.unwrap());
    let client = client(&store).await;
    client.create("/zklock/printers/leases/foreign", b"", NodeKind::Ephemeral).await.unwrap();
    let held = printers(&session, 2).acquire().await.unwrap();
    assert!(printers(&on(&store), 2).try_acquire().await.unwrap_err().is_busy());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn bad_limits_and_bad_numbers_are_errors_and_nothing_is_held() {
    let (store, session) = store();
    let kind = |result: Result<Semaphore, zklock::LockError>| result.unwrap_err().kind();
    assert_eq!(kind(session.semaphore("a", 0)), ErrorKind::InvalidOption);
    assert_eq!(kind(session.semaphore("a", u32::MAX)), ErrorKind::InvalidOption);
    let semaphore = printers(&session, 3);
    let two = session.semaphore("printers", 2).unwrap_err();
    assert!(two.to_string().contains("another limit"), "{two}");
    for permits in [0, 4] {
        let error = semaphore.acquire_many(permits).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    }
    let lingers = LockOptions::default().linger(Duration::from_secs(1));
    let error = semaphore.clone().with_options(lingers).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    drop(semaphore);
    // Nobody uses it any more, so it may have another limit.
    drop(session.semaphore("printers", 2).unwrap());
    assert_eq!(leases(&store).await, 0);
}

/// Whoever is granted a permit may be done with it, and with the semaphore, before the driver that
/// fetched it has come to its end.
#[tokio::test(start_paused = true)]
async fn a_limit_goes_with_the_last_who_wants_the_semaphore_and_not_with_its_driver() {
    let (store, session) = prompt();
    let other = on(&store);
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_replies();
    let (tell, told) = mpsc::channel();
    let here = session.clone();
    let work = Inline::start(async move {
        let three = printers(&here, 3);
        drop(three.acquire().await.unwrap());
        drop(three);
        // The driver goes on when this returns.
        for session in [&other, &here] {
            tell.send(session.semaphore("printers", 2)).unwrap();
        }
    });
    assert!(!work.is_done());
    faults.release();
    assert!(work.is_done(), "it ran inside the driver");
    let two: Vec<_> = told.iter().map(Result::unwrap).collect();
    assert!(two.iter().all(|semaphore| semaphore.limit() == Some(2)));
    // What the driver leaves behind when it ends is none of theirs.
    assert!(session.semaphore("printers", 3).is_err());
    let held = two[0].acquire_many(2).await.unwrap();
    assert!(two[1].try_acquire().await.unwrap_err().is_busy());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_ones_own_permits_is_told() {
    let (_store, session) = store();
    let semaphore = printers(&session, 2);
    let two = semaphore.acquire_many(2).await.unwrap();
    let error = semaphore.acquire_timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_busy() && format!("{error:#}").contains("2 of 2"), "{error}");
    drop(two);
}

/// Ten clients, random batches, thirty rounds each: never above the limit, and 0 at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_clients_random_batches_never_above_the_limit() {
    let store = late();
    let inside = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..10u64)
        .map(|client| {
            let (session, inside) = (on(&store), inside.clone());
            crate::spawn(async move {
                let semaphore = printers(&session, 5);
                let mut random = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                for _ in 0..30 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let batch = 1 + (random % 5) as u32;
                    let permits = semaphore.acquire_many(batch).await.unwrap();
                    let others = inside.fetch_add(batch as usize, Ordering::SeqCst);
                    assert!(others + batch as usize <= 5);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(batch as usize, Ordering::SeqCst);
                    if random % 2 == 0 { permits.release().await.unwrap() } else { drop(permits) }
                }
                session.close().await;
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(leases(&store).await, 0);
}

#[test]
fn threads_take_and_give() {
    let store = late();
    let session = on(&store);
    let semaphore = printers(&session, 2);
    let one = semaphore.blocking_acquire().unwrap();
    let other = std::thread::scope(|scope| {
        scope
            .spawn(|| semaphore.blocking_acquire_timeout(Duration::from_secs(1)).unwrap())
            .join()
            .unwrap()
    });
    assert_eq!((one.permits(), semaphore.limit()), (1, Some(2)));
    one.blocking_release().unwrap();
    other.blocking_release().unwrap();
    semaphore.blocking_acquire_many_tries(2).unwrap().blocking_release().unwrap();
}

/// A permit whose deletion is refused goes with its session, and that with the last guard in it: which is
/// not the inner lock of who waits for the place of this permit.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_permit_that_is_stuck_in_the_session_of_its_own_process_gets_it() {
    for kazoo in [false, true] {
        let (store, session) = store();
        let options = LockOptions::default().handoffs(Handoffs::NONE);
        let one = printers(&session, 1).with_options(options);
        let one = if kazoo { one.with_driver(Kazoo::default()) } else { one };
        let permit = one.acquire().await.unwrap();
        let waiting = crate::spawn(async move { one.acquire().await });
        settle().await;
        let ZooKeeperSession { id, number, .. } = session.zookeeper_session().unwrap();
        let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(permit.node_path());
        store.faults(id).inject(refused.times(u64::MAX));
        assert_eq!(permit.release().await.unwrap_err().kind(), ErrorKind::Unauthorized);
        let next = timeout(Duration::from_secs(60), waiting).await;
        let next = next.expect("it waits for itself").unwrap().unwrap();
        assert!(next.is_valid() && session.zookeeper_session().unwrap().number > number);
    }
}

/// It acquires nothing: the limit that it asked for keeps nobody out.
#[tokio::test(start_paused = true)]
async fn a_semaphore_whose_layout_is_refused_does_not_reserve_its_limit() {
    let (_, session) = prompt();
    let at_node = session.semaphore_with_limit_at("a", "limit", 3).unwrap();
    let kept = at_node.clone();
    let refused = at_node.with_driver(Kazoo::default());
    assert_eq!(refused.acquire().await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(session.semaphore("a", 2).is_err(), "its clone is still there");
    drop(kept);
    let other = session.semaphore("a", 2).unwrap();
    drop(other.acquire_many(2).await.unwrap());
    assert_eq!(refused.acquire().await.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// It is known to the process, and no server is asked.
#[tokio::test]
async fn a_limit_is_the_same_whatever_part_of_its_path_is_the_chroot() {
    let open = |chroot, root| {
        let builder = Session::builder(format!("127.0.0.1:1{chroot}")).root(root);
        [builder.clone().driver(Kazoo::default()), builder].map(|one| one.open().unwrap())
    };
    let [above, below] = [open("", "/app/zklock"), open("/app", "/zklock")];
    for (above, below) in above.iter().zip(&below) {
        let _three = printers(above, 3);
        drop(printers(below, 3));
        assert_eq!(below.semaphore("printers", 2).unwrap_err().kind(), ErrorKind::InvalidOption);
    }
    let at = |session: &Session, name| session.semaphore_with_limit_at(name, "limit", 3);
    let [_, above] = &above;
    let [_, below] = &below;
    let [_, deep] = &open("/app/zklock", "/zklock");
    let _scanners = at(above, "scanners").unwrap();
    drop(at(below, "scanners").unwrap());
    // The same semaphore, by a node that is another one.
    let _faxes = at(below, "zklock/faxes").unwrap();
    assert_eq!(at(deep, "faxes").unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[tokio::test(start_paused = true)]
async fn permits_of_which_one_is_lost_stay_lost_and_are_not_split() {
    let (store, session) = prompt();
    let mut permits = session.semaphore("a", 3).unwrap().acquire_many(3).await.unwrap();
    let nodes = contenders(&store, "/zklock/a/leases").await;
    let last = nodes.iter().max_by_key(|name| name[name.len() - 10..].to_owned()).unwrap();
    client(&store).await.delete(&format!("/zklock/a/leases/{last}")).await.unwrap();
    permits.lost().await;
    assert!(permits.split(1).is_none() && !permits.is_valid());
    assert_eq!(permits.permits(), 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_keeps_a_view_of_a_permit_does_not_reserve_its_limit() {
    for fair in [false, true] {
        let (_, session) = prompt();
        let options = LockOptions::new().fair(fair);
        let semaphore = session.semaphore("a", 2).unwrap().with_options(options);
        let mut permit = semaphore.acquire_many(2).await.unwrap();
        let part = permit.split(1).unwrap();
        let views = [permit.view(), part.view()];
        drop(semaphore);
        assert!(session.semaphore("a", 3).is_err(), "fair: {fair}");
        permit.release().await.unwrap();
        assert!(session.semaphore("a", 3).is_err(), "fair: {fair}");
        drop(part);
        let other = session.semaphore("a", 3).unwrap();
        drop(other.acquire_many(3).await.unwrap());
        assert!(views.iter().all(|view| !view.is_valid()));
    }
}
