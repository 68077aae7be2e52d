//! Locks whose acquires have nodes of their own, many of them at once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::task::JoinSet;
use zklock::layout::Kazoo;
use zklock::{ErrorKind, LockOptions, Semaphore, Session, StopAt};

use crate::support::{client, contenders, on, prompt, store};

fn fair(session: &Session, name: &str) -> zklock::Mutex {
    session.mutex(name).unwrap().with_options(LockOptions::default().fair(true))
}

/// Connections race; on one of them requests stay in order.
#[tokio::test(start_paused = true)]
async fn acquires_of_one_lock_that_are_on_their_way_take_one_connection() {
    let (store, session) = store();
    let held = fair(&session, "a").acquire().await.unwrap();
    let faults = store.faults(store.sessions()[0]);
    faults.delay_replies(Duration::from_millis(20));
    let strict = LockOptions::default().fair(true).stop_at(StopAt::Suspect);
    let strict = session.mutex("a").unwrap().with_options(strict);
    let waiting: Vec<_> = (0..30)
        .flat_map(|number| {
            let mutex = if number % 3 == 0 { strict.clone() } else { fair(&session, "a") };
            let elsewhere = fair(&session, &format!("b{number}"));
            [
                crate::spawn(async move { mutex.acquire().await.map(drop) }),
                crate::spawn(async move { elsewhere.acquire().await.map(drop) }),
            ]
        })
        .collect();
    // Until the first is answered; then all others are sent.
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(store.sessions().len() > 1, "others open connections");
    let client = client(&store).await;
    let mut owners = HashSet::new();
    let nodes = contenders(&store, "/zklock/a").await;
    assert_eq!(nodes.len(), 31);
    for node in nodes {
        owners.insert(client.get(&format!("/zklock/a/{node}")).await.unwrap().1.ephemeral_owner);
    }
    assert_eq!(owners.len(), 1);
    faults.delay_replies(Duration::ZERO);
    held.release().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
}

/// What was under way when the connection was lost is sent again, and what is asked for meanwhile comes after it.
#[tokio::test(start_paused = true)]
async fn calls_during_an_outage_come_after_those_before_it() {
    let ms = Duration::from_millis;
    let (store, session) = store();
    let holder = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let faults = store.faults(store.sessions()[0]);
    faults.delay_replies(ms(20));
    let ask = |number: u32| {
        let (mutex, order) = (fair(&session, "a"), order.clone());
        crate::spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            guard.release().await.unwrap();
        })
    };
    let mut asking: Vec<_> = (0..3).map(ask).collect();
    // The first one is answered, and then the others are sent.
    tokio::time::sleep(ms(10)).await;
    faults.hold_requests();
    tokio::time::sleep(ms(20)).await;
    faults.disconnect();
    tokio::time::sleep(ms(70)).await;
    asking.extend((3..5).map(ask));
    tokio::time::sleep(ms(10)).await;
    faults.release();
    faults.reconnect();
    tokio::time::sleep(ms(1_000)).await;
    holder.release().await.unwrap();
    for asking in asking {
        asking.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

/// Whoever comes later finds a holder in another layout although the handles are gone.
#[tokio::test]
async fn a_guard_whose_handle_is_gone_keeps_other_layouts_out() {
    let (_store, session) = store();
    let guard = fair(&session, "a").acquire().await.unwrap();
    let other = || session.mutex("a").unwrap().with_driver(Kazoo::default());
    assert!(other().acquire().await.unwrap_err().to_string().contains("layout"));
    guard.release().await.unwrap();
    other().acquire().await.unwrap().release().await.unwrap();
}

/// The directory is missing at first, and another process makes it just then.
#[tokio::test(start_paused = true)]
async fn acquires_of_a_new_lock_are_granted_in_the_order_of_the_calls() {
    const AT_ONCE: u64 = 8;
    let (store, session) = store();
    let other = on(&store);
    for round in 0..200 {
        let name = format!("new/{round}/lock");
        let mutex = fair(&session, &name);
        let theirs = other.mutex(&name).unwrap();
        let theirs = crate::spawn(async move {
            tokio::time::sleep(Duration::from_micros(round % 20 * 500)).await;
            theirs.acquire().await.unwrap().release().await.unwrap();
        });
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for number in 0..AT_ONCE {
            let (mutex, order) = (mutex.clone(), order.clone());
            tasks.spawn(async move {
                let guard = mutex.acquire().await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            });
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        tasks.join_all().await;
        theirs.await.unwrap();
        let order = order.lock().unwrap().clone();
        assert!(order.is_sorted() && order.len() as u64 == AT_ONCE, "{round}: {order:?}");
    }
}

/// Whoever is the first to be sent may give up, before the answer and after it.
#[tokio::test(start_paused = true)]
async fn who_gives_up_the_first_creation_of_a_new_lock_is_in_nobodys_way() {
    let (_store, session) = store();
    for round in 0..200 {
        let mutex = fair(&session, &format!("new/{round}"));
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for number in 0..6 {
            let (mutex, order) = (mutex.clone(), order.clone());
            let waits = match number {
                0 | 2 => Duration::from_micros(round * 100),
                _ => Duration::from_secs(60),
            };
            tasks.spawn(async move {
                let Ok(guard) = tokio::time::timeout(waits, mutex.acquire()).await else { return };
                order.lock().unwrap().push(number);
                guard.unwrap().release().await.unwrap();
            });
        }
        tasks.join_all().await;
        let order = order.lock().unwrap().clone();
        assert!(order.is_sorted() && order.ends_with(&[3, 4, 5]), "{round}: {order:?}");
    }
}

/// However many there are, one does not run inside of the other.
#[tokio::test]
async fn hundreds_that_wait_for_the_first_answer_are_sent_in_order() {
    let (store, session) = prompt();
    let mutex = fair(&session, "a");
    let held = fair(&session, "other").acquire().await.unwrap();
    let faults = store.faults(store.sessions()[0]);
    faults.hold_replies();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..500 {
        let (mutex, order) = (mutex.clone(), order.clone());
        tasks.spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            guard.release().await.unwrap();
        });
    }
    tokio::task::yield_now().await;
    faults.release();
    tasks.join_all().await;
    held.release().await.unwrap();
    let order = order.lock().unwrap().clone();
    assert!(order.is_sorted() && order.len() == 500);
}

fn fair_semaphore(session: &Session, limit: u32, kazoo: bool) -> Semaphore {
    let semaphore = session.semaphore("permits", limit).unwrap();
    let semaphore = semaphore.with_options(LockOptions::default().fair(true));
    if kazoo { semaphore.with_driver(Kazoo::default()) } else { semaphore }
}

/// Who needs several waits for all of them, and nobody overtakes it meanwhile who needs fewer.
#[tokio::test(start_paused = true)]
async fn permits_are_granted_in_the_order_of_the_calls_of_all_processes() {
    for kazoo in [false, true] {
        let (store, session) = store();
        let other = on(&store);
        let (here, there) = (fair_semaphore(&session, 2, kazoo), fair_semaphore(&other, 2, kazoo));
        let held = here.acquire_many(2).await.unwrap();
        assert!(here.try_acquire().await.unwrap_err().is_busy());
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let calls =
            [(&here, 1), (&here, 2), (&here, 1), (&there, 1), (&here, 2), (&there, 2), (&here, 1)];
        for (number, (semaphore, permits)) in calls.into_iter().enumerate() {
            let (semaphore, order) = (semaphore.clone(), order.clone());
            tasks.spawn(async move {
                let permits = semaphore.acquire_many(permits).await.unwrap();
                order.lock().unwrap().push(number);
                tokio::time::sleep(Duration::from_secs(1)).await;
                permits.release().await.unwrap();
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        held.release().await.unwrap();
        tasks.join_all().await;
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6], "kazoo: {kazoo}");
        here.try_acquire().await.unwrap().release().await.unwrap();
    }
}

/// All at once, and the directories are missing at first.
#[tokio::test(start_paused = true)]
async fn permits_of_a_new_semaphore_are_granted_in_the_order_of_the_calls() {
    for kazoo in [false, true] {
        for round in 0..20 {
            let (_store, session) = store();
            let semaphore = fair_semaphore(&session, 2, kazoo);
            let order = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = JoinSet::new();
            for number in 0..10 {
                let (semaphore, order) = (semaphore.clone(), order.clone());
                // Some give up, before the answers and after them.
                let waits = match number {
                    0 | 3 => Duration::from_millis(round),
                    _ => Duration::from_secs(60),
                };
                tasks.spawn(async move {
                    let acquiring = semaphore.acquire();
                    let Ok(permit) = tokio::time::timeout(waits, acquiring).await else { return };
                    order.lock().unwrap().push(number);
                    permit.unwrap().release().await.unwrap();
                });
            }
            tasks.join_all().await;
            let order = order.lock().unwrap().clone();
            let ends = [1, 2, 4, 5, 6, 7, 8, 9];
            assert!(order.is_sorted(), "{kazoo} {round}: {order:?}");
            assert!(ends.iter().all(|number| order.contains(number)), "{kazoo} {round}: {order:?}");
        }
    }
}

#[tokio::test]
async fn a_blocking_acquire_of_permits_behind_its_own_thread_is_refused() {
    let (_store, session) = prompt();
    let semaphore = fair_semaphore(&session, 2, false);
    let held = semaphore.acquire().await.unwrap();
    let waiting = crate::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many(2).await.map(drop) }
    });
    tokio::task::yield_now().await;
    // It needs one, which is free; two are wanted ahead by a task of this thread, which holds one.
    let error = semaphore.blocking_acquire().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock);
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap();
}

/// Who asks for the holders may be the last who refers to one of them that leaves, and to its queue.
#[test]
fn threads_wait_for_permits_while_holders_with_queues_of_their_own_leave() {
    const ROUNDS: usize = 300;
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let (_store, session) = prompt();
        let fair = || fair_semaphore(&session, 2, false);
        let plain = || session.semaphore("permits", 2).unwrap();
        let kept = plain();
        std::thread::scope(|scope| {
            for number in 0..6 {
                let (fair, plain, session) = (&fair, &plain, &session);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let semaphore = if number < 3 { fair() } else { plain() };
                        drop(semaphore.blocking_acquire().unwrap());
                        // It looks at all holders.
                        drop(session.local_contenders());
                    }
                });
            }
        });
        drop(kept);
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("they wait for each other");
}

/// What is in the queue of ZooKeeper stays there while its session lives on. But whoever is the first to wait for
/// permits has the inner lock, and loses it with its lease.
#[tokio::test(start_paused = true)]
async fn after_a_silence_longer_than_a_lease_only_the_first_who_waits_for_permits_has_lost_its_place()
 {
    for (kazoo, is_long) in [(false, false), (false, true), (true, false), (true, true)] {
        let (store, session) = store();
        let [here, there, holder] =
            [session.clone(), on(&store), on(&store)].map(|of| fair_semaphore(&of, 1, kazoo));
        let held = holder.acquire().await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for (number, semaphore) in [&here, &here, &there].into_iter().enumerate() {
            let (semaphore, order) = (semaphore.clone(), order.clone());
            tasks.spawn(async move {
                let permit = semaphore.acquire().await.unwrap();
                order.lock().unwrap().push(number);
                permit.release().await.unwrap();
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let (id, lease) = (session.zookeeper_session(), session.timing().unwrap().lease);
        let faults = store.faults(id.unwrap().id);
        faults.disconnect();
        tokio::time::sleep(if is_long { lease * 5 / 4 } else { lease / 2 }).await;
        faults.reconnect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(session.zookeeper_session(), id);
        held.release().await.unwrap();
        tasks.join_all().await;
        let expected = if is_long { [1, 2, 0] } else { [0, 1, 2] };
        assert_eq!(*order.lock().unwrap(), expected, "kazoo {kazoo}, long {is_long}");
    }
}
