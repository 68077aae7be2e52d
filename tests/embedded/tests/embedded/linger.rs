//! Lingering, fairness and the bound of handoffs.

use std::sync::Arc;
use std::time::Duration;

use zklock::layout::{Curator, MaxLeases, OneNode};
use zklock::{ErrorKind, Handoffs, LockOptions, Mutex, RwLock, Session, ZooKeeperSession};
use zklock_core::coordinator::memory::{Fault, Op};

use crate::support::{contenders, on, prompt, store};

fn lingering(session: &Session) -> Mutex {
    let options = LockOptions::default().linger(Duration::from_secs(5));
    session.mutex("a").unwrap().with_options(options)
}

#[tokio::test(start_paused = true)]
async fn the_next_acquire_takes_no_request() {
    let (store, session) = store();
    let mutex = lingering(&session);
    let first = mutex.acquire().await.unwrap();
    let token = first.fencing_token();
    first.release().await.unwrap();
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    store.record();
    let mut tokens = vec![token];
    for _ in 0..100 {
        let guard = mutex.acquire().await.unwrap();
        tokens.push(guard.fencing_token());
        guard.release().await.unwrap();
    }
    assert!(store.recorded().is_empty(), "{:?}", store.recorded());
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]));
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

/// Also if it was held when the time of an earlier release was over, or would have been kept for longer then.
#[tokio::test(start_paused = true)]
async fn a_node_goes_when_the_time_of_the_last_release_is_over() {
    let milliseconds = Duration::from_millis;
    for earlier in [milliseconds(50), milliseconds(5_000)] {
        let (store, session) = prompt();
        let [earlier, last] = [earlier, milliseconds(50)].map(|linger| {
            session.mutex("a").unwrap().with_options(LockOptions::default().linger(linger))
        });
        earlier.acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(milliseconds(20)).await;
        let guard = last.acquire().await.unwrap();
        tokio::time::sleep(milliseconds(40)).await;
        guard.release().await.unwrap();
        tokio::time::sleep(milliseconds(30)).await;
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
        tokio::time::sleep(milliseconds(15)).await;
        assert!(contenders(&store, "/zklock/a").await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_behind_ends_it_at_once() {
    let (store, session) = prompt();
    drop(lingering(&session).acquire().await.unwrap());
    let other = on(&store);
    let start = tokio::time::Instant::now();
    let guard = other.mutex("a").unwrap().acquire().await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(10));
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    drop(guard);
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

/// Who waits for it has no node that could be seen behind it.
#[tokio::test(start_paused = true)]
async fn a_single_node_does_not_linger() {
    let (store, session) = prompt();
    let mutex = lingering(&session).with_driver(OneNode);
    for is_tried in [false, true] {
        mutex.acquire().await.unwrap().release().await.unwrap();
        let other = on(&store).mutex("a").unwrap().with_driver(OneNode);
        let start = tokio::time::Instant::now();
        let taken = if is_tried { other.try_acquire().await } else { other.acquire().await };
        assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
        taken.unwrap().release().await.unwrap();
        mutex.acquire().await.unwrap().release().await.unwrap();
        assert!(contenders(&store, "/zklock/a").await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_also_after_a_lost_guard_of_before_was_dropped() {
    let (store, session) = prompt();
    let mutex = lingering(&session);
    let lost = mutex.acquire().await.unwrap();
    store.faults(session.zookeeper_session().unwrap().id).expire();
    lost.lost().await;
    mutex.acquire().await.unwrap().release().await.unwrap();
    drop(lost);
    let other = on(&store).mutex("a").unwrap();
    let next = tokio::time::timeout(Duration::from_millis(10), other.acquire());
    drop(next.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn somebody_who_came_while_it_was_held_ends_it_too() {
    let (store, session) = store();
    let mutex = lingering(&session);
    drop(mutex.acquire().await.unwrap());
    let guard = mutex.acquire().await.unwrap();
    let other = on(&store).mutex("a").unwrap();
    let waiting = crate::spawn(async move { other.acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(10)).await;
    guard.release().await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(10), waiting);
    assert!(waiting.await.unwrap().unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_try_elsewhere_lets_it_give_way_and_one_here_is_refused() {
    let (store, session) = prompt();
    let mutex = lingering(&session);
    let error = mutex.try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    drop(mutex.acquire().await.unwrap());
    drop(on(&store).mutex("a").unwrap().try_acquire().await.unwrap());
    // A holder that really holds is busy, after one give-way.
    let guard = mutex.acquire().await.unwrap();
    let start = tokio::time::Instant::now();
    let error = on(&store).mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert!(error.is_busy() && start.elapsed() <= Duration::from_millis(101), "{error}");
    drop(guard);
}

fn lingering_reads(session: &Session) -> RwLock {
    let options = LockOptions::default().linger(Duration::from_secs(5));
    session.rw_lock("a").unwrap().with_options(options)
}

#[tokio::test(start_paused = true)]
async fn a_try_elsewhere_lets_all_readers_give_way_that_linger() {
    let (store, writing) = prompt();
    let reading = [(); 3].map(|()| on(&store));
    for (session, late) in reading.iter().zip([15, 30, 45]) {
        lingering_reads(session).read().await.unwrap().release().await.unwrap();
        // They give way one after the other, and none at once.
        let late = Duration::from_millis(late);
        store.faults(session.zookeeper_session().unwrap().id).delay_replies(late);
    }
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 3);
    let writer = writing.rw_lock("a").unwrap();
    writer.try_write().await.unwrap().release().await.unwrap();
    // Behind one that really reads, it is busy, and that one is named.
    lingering_reads(&reading[0]).read().await.unwrap().release().await.unwrap();
    let reads = reading[1].rw_lock("a").unwrap().read().await.unwrap();
    let start = tokio::time::Instant::now();
    let busy = writer.try_write().await.unwrap_err();
    assert!(busy.is_busy() && start.elapsed() < Duration::from_millis(101), "{busy}");
    assert!(reads.node_path().ends_with(&busy.holder().unwrap().node), "{busy:#}");
    drop(reads);
    // One time for all: behind two that read and could have lingered, it is not waited for both.
    let reads = [&reading[0], &reading[1]].map(lingering_reads);
    let reads = [reads[0].read().await.unwrap(), reads[1].read().await.unwrap()];
    let start = tokio::time::Instant::now();
    assert!(writer.try_write().await.unwrap_err().is_busy());
    assert!(start.elapsed() < Duration::from_millis(150), "{:?}", start.elapsed());
    drop(reads);
}

/// A writer of another process keeps them out, and gives up.
#[tokio::test(start_paused = true)]
async fn readers_enter_beside_one_who_reads_when_nobody_is_behind_any_more() {
    let (store, session) = prompt();
    let lock = lingering_reads(&session);
    lock.read().await.unwrap().release().await.unwrap();
    let reads = lock.read().await.unwrap();
    let writer = on(&store).rw_lock("a").unwrap();
    let writing = crate::spawn(async move { writer.write_timeout(Duration::from_secs(1)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let start = tokio::time::Instant::now();
    let next = crate::spawn(async move { lock.read_timeout(Duration::from_secs(5)).await });
    let next = next.await.unwrap().unwrap();
    let waited = start.elapsed();
    assert!(writing.await.unwrap().unwrap_err().is_busy());
    // For as long as the writer waited.
    assert!((Duration::from_millis(500)..Duration::from_secs(1)).contains(&waited), "{waited:?}");
    assert!(reads.is_valid() && next.is_valid());
    drop((reads, next));
}

#[tokio::test(start_paused = true)]
async fn a_try_elsewhere_lets_one_of_several_holders_give_way() {
    let two = |mutex: Mutex| mutex.with_driver(MaxLeases::new(2, Curator).unwrap());
    for first_works in [false, true] {
        let (store, session) = store();
        let others = [(); 2].map(|()| on(&store));
        let works = match first_works {
            false => {
                two(lingering(&others[0])).acquire().await.unwrap().release().await.unwrap();
                None
            }
            true => Some(two(others[0].mutex("a").unwrap()).acquire().await.unwrap()),
        };
        two(lingering(&others[1])).acquire().await.unwrap().release().await.unwrap();
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 2);
        drop(two(session.mutex("a").unwrap()).try_acquire().await.unwrap());
        drop(works);
    }
}

/// Who created it did not know that somebody would keep it: others do not see that it is kept.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_created_by_one_who_does_not_linger_does_not() {
    let (store, session) = prompt();
    let (plain, mutex) = (session.mutex("a").unwrap(), lingering(&session));
    let first = plain.acquire().await.unwrap();
    let next = crate::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await }
    });
    tokio::task::yield_now().await;
    let path = first.node_path().to_owned();
    first.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(next.node_path(), path);
    store.faults(store.sessions()[0]).delay_replies(Duration::from_millis(20));
    next.release().await.unwrap();
    drop(on(&store).mutex("a").unwrap().try_acquire().await.unwrap());
    // Its own node is kept.
    mutex.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_try_elsewhere_lets_a_reader_give_way_that_was_a_writer() {
    let (store, session) = prompt();
    let writer = lingering_reads(&session).write().await.unwrap();
    let reader = writer.downgrade().await.unwrap();
    store.faults(store.sessions()[0]).delay_replies(Duration::from_millis(20));
    reader.release().await.unwrap();
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    drop(on(&store).rw_lock("a").unwrap().try_write().await.unwrap());
}

/// The one ahead takes the lock when it is let go of.
#[tokio::test(start_paused = true)]
async fn a_try_elsewhere_behind_a_waiter_is_busy_at_once() {
    let (store, session) = prompt();
    let guard = lingering(&session).acquire().await.unwrap();
    let waits = on(&store).mutex("a").unwrap();
    let waits = crate::spawn(async move { waits.acquire().await.map(drop) });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let start = tokio::time::Instant::now();
    assert!(on(&store).mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
    drop(guard);
    waits.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lingering_lease_that_was_lost_is_never_handed_out() {
    let (store, session) = store();
    let mutex = lingering(&session);
    let guard = mutex.acquire().await.unwrap();
    let token = guard.fencing_token();
    drop(guard);
    let ZooKeeperSession { id, number, .. } = session.zookeeper_session().unwrap();
    store.faults(id).expire();
    let guard = mutex.acquire().await.unwrap();
    assert!(guard.is_valid() && guard.fencing_token() > token);
    assert_eq!(session.zookeeper_session().unwrap().number, number + 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_in_doubt_ends_it() {
    let (store, session) = store();
    drop(lingering(&session).acquire().await.unwrap());
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.disconnect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    faults.reconnect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

/// No answer does not say that somebody queued.
#[tokio::test(start_paused = true)]
async fn a_look_behind_that_nobody_answers_does_not_end_it() {
    let (store, session) = prompt();
    let mutex = lingering(&session);
    let guard = mutex.acquire().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    // Asked for at once, and again a second later.
    faults.inject(Fault::lose_reply().on(Op::Children));
    drop(guard);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
    let guard = mutex.acquire().await.unwrap();
    faults.inject(Fault::lose_reply().on(Op::Children));
    // Somebody who comes and goes lets it look.
    let other = on(&store).mutex("a").unwrap();
    assert!(other.acquire_timeout(Duration::from_millis(100)).await.unwrap_err().is_busy());
    drop(guard);
    store.record();
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(mutex.acquire().await.unwrap());
    let ops: Vec<_> = store.recorded().iter().map(|logged| logged.op).collect();
    assert!(!ops.contains(&Op::Delete), "{ops:?}");
    // It looks again by and by, so others do not wait for its end.
    let start = tokio::time::Instant::now();
    drop(other.acquire().await.unwrap());
    assert!(start.elapsed() <= Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn draining_and_closing_end_it() {
    let (store, session) = store();
    drop(lingering(&session).acquire().await.unwrap());
    assert!(session.drain(Duration::from_secs(1)).await.is_empty());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn at_the_bound_other_processes_come_first() {
    let (store, session) = prompt();
    let bound = Handoffs::new().most(3).within(Duration::from_secs(60));
    let options = LockOptions::default().handoffs(bound);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let holder = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let mut tasks = Vec::new();
    let mut queue_up = |session: &Session, name: &'static str| {
        let mutex = session.mutex("a").unwrap().with_options(options);
        let order = order.clone();
        tasks.push(crate::spawn(async move {
            let _guard = mutex.acquire().await.unwrap();
            order.lock().unwrap().push(name);
            tokio::task::yield_now().await;
        }));
    };
    let other = on(&store);
    queue_up(&session, "here");
    tokio::time::sleep(Duration::from_millis(1)).await;
    queue_up(&other, "there");
    for _ in 0..9 {
        queue_up(&session, "here");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(holder);
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock().unwrap();
    assert_eq!(order.iter().position(|name| *name == "there"), Some(4), "{order:?}");
    assert_eq!(order.len(), 11);
}

#[tokio::test(start_paused = true)]
async fn when_the_time_of_the_bound_is_over_other_processes_come_first() {
    let (store, session) = prompt();
    let (within, inside) = (Duration::from_millis(50), Duration::from_millis(10));
    let options = LockOptions::default().handoffs(Handoffs::new().most(1_000_000).within(within));
    let mutex = session.mutex("a").unwrap().with_options(options);
    let (others, start) = (on(&store).mutex("a").unwrap(), tokio::time::Instant::now());
    let mut tasks: Vec<_> = (0..20)
        .map(|_| {
            let mutex = mutex.clone();
            crate::spawn(async move {
                let _guard = mutex.acquire().await.unwrap();
                tokio::time::sleep(inside).await;
                None
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    tasks.push(crate::spawn(async move {
        let _guard = others.acquire().await.unwrap();
        Some(start.elapsed())
    }));
    let mut waited = None;
    for task in tasks {
        waited = waited.or(task.await.unwrap());
    }
    // Who was let in before the time was over goes out first.
    let waited = waited.unwrap();
    assert!(waited >= within && waited <= within + inside, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn with_nobody_behind_the_node_is_kept_over_the_bound() {
    let (store, session) = prompt();
    let bound = Handoffs::new().most(3).within(Duration::from_secs(60));
    let options = LockOptions::default().handoffs(bound);
    let mutex = session.mutex("a").unwrap().with_options(options);
    let guard = mutex.acquire().await.unwrap();
    store.record();
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let mutex = mutex.clone();
            crate::spawn(async move { drop(mutex.acquire().await.unwrap()) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(guard);
    for task in tasks {
        task.await.unwrap();
    }
    let ops: Vec<_> = store.recorded().iter().map(|logged| logged.op).collect();
    assert_eq!(ops, [Op::Children, Op::Children, Op::Children, Op::Delete]);
}

#[tokio::test(start_paused = true)]
async fn a_fair_lock_gives_every_waiter_its_own_node() {
    let (store, session) = prompt();
    let fair = LockOptions::default().fair(true);
    let other = on(&store);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..10 {
        let session = if n % 3 == 0 { &other } else { &session };
        let mutex = session.mutex("a").unwrap().with_options(fair);
        let order = order.clone();
        tasks.push(crate::spawn(async move {
            let _guard = mutex.acquire().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            order.lock().unwrap().push(n);
        }));
        tokio::task::yield_now().await;
    }
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 10);
    assert_eq!(session.local_contenders().len() + other.local_contenders().len(), 10);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    let both = fair.linger(Duration::from_secs(1));
    let error = session.mutex("a").unwrap().with_options(both).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}
