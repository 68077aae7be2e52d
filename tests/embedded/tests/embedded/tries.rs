//! Trying once while others of this process try or wait, on a server that takes its time to answer.

use std::time::Duration;

use tokio::task::JoinSet;
use zklock::layout::Kazoo;
use zklock::{Embedded, Handoffs, LockError, LockOptions, Session};
use zklock_core::coordinator::memory::{Fault, Op};
use zklock_core::coordinator::request_error::RequestError;

use crate::support::{contenders, on, store};

const ANSWER: Duration = Duration::from_millis(20);

/// A session whose answers are late.
fn slow() -> (Embedded, Session) {
    let (store, session) = store();
    store.faults(store.sessions()[0]).delay_replies(ANSWER);
    (store, session)
}

/// Lets so many answers come.
async fn answers(count: u32) {
    tokio::time::sleep(ANSWER * count + Duration::from_millis(1)).await;
}

async fn all<T: 'static>(tries: JoinSet<Result<T, LockError>>) -> Vec<Result<T, LockError>> {
    tries.join_all().await
}

#[tokio::test(start_paused = true)]
async fn as_many_tries_at_once_enter_as_there_are_permits() {
    for kazoo in [false, true] {
        let (store, session) = slow();
        let mut printers = session.semaphore("printers", 3).unwrap();
        if kazoo {
            printers = printers.with_driver(Kazoo::default());
        }
        let mut tries = JoinSet::new();
        for _ in 0..4 {
            let printers = printers.clone();
            tries.spawn(async move { printers.try_acquire().await });
        }
        let (granted, busy): (Vec<_>, Vec<_>) =
            all(tries).await.into_iter().partition(Result::is_ok);
        assert_eq!((granted.len(), busy.len()), (3, 1), "{busy:?}");
        let busy = busy.into_iter().find_map(Result::err).unwrap();
        assert!(busy.is_busy() && busy.holder().is_some(), "{busy:?}");
        drop(granted);
        session.close().await;
        assert_eq!(store.sessions().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn readers_who_try_at_once_all_enter_where_nobody_writes() {
    let (_store, session) = slow();
    let lock = session.rw_lock("a").unwrap();
    let mut tries = JoinSet::new();
    for _ in 0..5 {
        let lock = lock.clone();
        tries.spawn(async move { lock.try_read().await });
    }
    assert!(all(tries).await.iter().all(Result::is_ok));
}

/// Whether a writer waits behind the readers is not known while nobody replies.
#[tokio::test(start_paused = true)]
async fn a_reader_who_tries_beside_readers_is_not_busy_because_a_connection_breaks() {
    let (store, session) = store();
    let faults = store.faults(store.sessions()[0]);
    let lock = session.rw_lock("a").unwrap();
    let reading = lock.read().await.unwrap();
    // Beyond the limit of handoffs the server is asked first.
    tokio::time::sleep(5 * ANSWER).await;
    faults.delay_replies(ANSWER);
    for comes_back in [false, true] {
        let tries = crate::spawn({
            let lock = lock.clone();
            async move { lock.try_read().await }
        });
        tokio::time::sleep(ANSWER / 2).await;
        faults.disconnect();
        if comes_back {
            tokio::time::sleep(ANSWER).await;
            faults.reconnect();
            assert!(tries.await.unwrap().is_ok());
        } else {
            let error = tries.await.unwrap().unwrap_err();
            assert!(error.is_unavailable(), "{error}");
            faults.reconnect();
            tokio::time::sleep(5 * ANSWER).await;
        }
        assert!(reading.is_valid());
    }
}

#[tokio::test(start_paused = true)]
async fn of_tries_at_once_one_has_the_lock_and_keeps_the_others_out() {
    let (_store, session) = slow();
    let lock = session.mutex("a").unwrap();
    let mut tries = JoinSet::new();
    for _ in 0..5 {
        let lock = lock.clone();
        tries.spawn(async move { lock.try_acquire().await });
    }
    let (granted, busy): (Vec<_>, Vec<_>) = all(tries).await.into_iter().partition(Result::is_ok);
    assert_eq!(granted.len(), 1);
    let here = Some(std::process::id());
    for busy in busy.into_iter().filter_map(Result::err) {
        assert!(busy.is_busy() && busy.holder().is_some_and(|h| h.owner.pid == here), "{busy:?}");
    }
}

/// The one who had asked first gives up, or may not enter; that says nothing of the others.
#[tokio::test(start_paused = true)]
async fn a_try_has_the_lock_where_whoever_asked_before_it_gives_up() {
    let (_store, session) = slow();
    let lock = session.mutex("a").unwrap();
    let first = crate::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    tokio::task::yield_now().await;
    let second = crate::spawn(async move { lock.try_acquire().await });
    tokio::task::yield_now().await;
    first.abort();
    assert!(second.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_tries_beside_a_writer_who_tries_has_an_answer_of_its_own() {
    let (store, session) = slow();
    let other = on(&store).rw_lock("a").unwrap().read().await.unwrap();
    let lock = session.rw_lock("a").unwrap();
    let writes = crate::spawn({
        let lock = lock.clone();
        async move { lock.try_write().await.map(drop) }
    });
    tokio::task::yield_now().await;
    let reads = crate::spawn(async move { lock.try_read().await.map(drop) });
    assert!(writes.await.unwrap().unwrap_err().is_busy());
    reads.await.unwrap().unwrap();
    drop(other);
}

/// Behind one who waits for another process: as soon as that is known, and by answers only.
#[tokio::test(start_paused = true)]
async fn a_try_behind_a_waiter_is_busy_as_soon_as_it_is_known_who_is_in_the_way() {
    let (store, session) = slow();
    let held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let lock = session.mutex("a").unwrap();
    let waits = crate::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    tokio::task::yield_now().await;
    for _ in 0..2 {
        let began = tokio::time::Instant::now();
        let busy = lock.try_acquire().await.unwrap_err();
        assert!(busy.is_busy() && busy.holder().is_some_and(|h| h.node == name(held.node_path())));
        assert!(began.elapsed() < ANSWER * 6, "{:?}", began.elapsed());
    }
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2, "the waiter has kept its place");
    held.release().await.unwrap();
    drop(waits.await.unwrap().unwrap());
}

/// However long the answers take, as long as they come within the time of one try.
#[tokio::test(start_paused = true)]
async fn a_try_behind_a_waiter_is_busy_also_where_answers_take_long() {
    let (store, session) = store();
    store.faults(store.sessions()[0]).delay_replies(Duration::from_millis(300));
    let held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let lock = session.mutex("a").unwrap();
    let waits = crate::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    for asked_after in [0, 500, 1_000, 3_000] {
        tokio::time::sleep(Duration::from_millis(asked_after)).await;
        let busy = lock.try_acquire().await.unwrap_err();
        assert!(busy.is_busy(), "{asked_after} ms: {busy}");
    }
    held.release().await.unwrap();
    drop(waits.await.unwrap().unwrap());
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

/// Nobody knows who is in the way where ZooKeeper does not say.
#[tokio::test(start_paused = true)]
async fn a_try_behind_a_waiter_is_not_busy_where_nobody_answers() {
    let (store, session) = store();
    let faults = store.faults(store.sessions()[0]);
    faults.hold_replies();
    let lock = session.mutex("a").unwrap();
    let waits = crate::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    tokio::task::yield_now().await;
    let error = lock.try_acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    faults.release();
    drop(waits.await.unwrap());
}

/// Of a busy semaphore, whoever has a permit, and not whoever waits for one.
#[tokio::test(start_paused = true)]
async fn a_busy_semaphore_names_a_holder_while_others_wait_for_it() {
    for kazoo in [false, true] {
        let (store, session) = slow();
        let printers = |session: &Session| {
            let printers = session.semaphore("printers", 2).unwrap();
            if kazoo { printers.with_driver(Kazoo::default()) } else { printers }
        };
        let third = printers(&on(&store));
        let held = [third.acquire().await.unwrap(), third.acquire().await.unwrap()];
        let other = printers(&on(&store));
        let waits = crate::spawn(async move { other.acquire().await });
        answers(5).await;
        for timeout in [Duration::ZERO, Duration::from_millis(400)] {
            let mine = printers(&session);
            let result = if timeout.is_zero() {
                mine.try_acquire().await
            } else {
                mine.acquire_timeout(timeout).await
            };
            let busy = result.unwrap_err();
            assert!(busy.is_busy(), "{busy}");
            let holder = busy.holder().unwrap_or_else(|| panic!("nobody is named: {busy}"));
            assert!(held.iter().any(|held| name(held.node_path()) == holder.node), "{holder:?}");
        }
        drop(held);
        drop(waits.await.unwrap());
    }
}

/// On the way of every request and every answer, and at every moment of another's.
#[tokio::test(start_paused = true)]
async fn a_try_for_a_permit_behind_a_waiter_is_busy_whatever_is_late() {
    for seed in 0..500 {
        let store = Embedded::new();
        store.answer_late(seed, Duration::from_millis(4));
        let session = on(&store);
        let held = on(&store).semaphore("a", 1).unwrap().acquire().await.unwrap();
        let lock = session.semaphore("a", 1).unwrap();
        let waits = crate::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.map(drop) }
        });
        tokio::time::sleep(Duration::from_micros(50 * seed)).await;
        let error = lock.try_acquire().await.unwrap_err();
        assert!(error.is_busy(), "seed {seed}: {error}");
        drop(held);
        waits.await.unwrap().unwrap();
    }
}

/// A waiter is behind them. Until it hears that they have gone, the semaphore is busy, and not with them.
#[tokio::test(start_paused = true)]
async fn a_try_for_a_permit_whose_holders_have_gone_is_not_busy_with_them() {
    for (kazoo, after) in
        [false, true].into_iter().flat_map(|kazoo| (0..100).map(move |ms| (kazoo, ms)))
    {
        let (store, session) = slow();
        let printers = |session: &Session| {
            let printers = session.semaphore("printers", 2).unwrap();
            if kazoo { printers.with_driver(Kazoo::default()) } else { printers }
        };
        let held = printers(&on(&store)).acquire_many(2).await.unwrap();
        let lock = printers(&session);
        let waits = crate::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await }
        });
        answers(10).await;
        let busy = lock.try_acquire().await.unwrap_err();
        assert!(busy.is_busy() && busy.holder().is_some(), "{busy}");
        held.release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(after)).await;
        let tried = lock.try_acquire().await;
        if let Err(error) = &tried {
            let heard = ANSWER + Duration::from_millis(10);
            let is_early = Duration::from_millis(after) < heard;
            assert!(
                is_early && error.is_busy() && error.holder().is_none(),
                "kazoo {kazoo}, after {after} ms: {error}"
            );
        }
        drop((tried, waits.await.unwrap().unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_for_a_permit_is_not_busy_where_it_is_not_said_who_has_them() {
    let (store, session) = store();
    let printers = |session: &Session| session.semaphore("printers", 1).unwrap();
    let held = printers(&on(&store)).acquire().await.unwrap();
    let other = printers(&on(&store));
    let waits = crate::spawn(async move { other.acquire().await.map(drop) });
    answers(5).await;
    // Somebody else has the inner lock, and it is not known whether anything is left.
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let failed = Fault::refuse(RequestError::Other("busy".to_owned()));
    faults.inject(failed.on(Op::Children).path("leases").times(u64::MAX));
    let error = printers(&session).try_acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    drop(held);
    waits.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn readers_around_a_writer_who_tries_read_together() {
    let (_store, session) = slow();
    let lock = session.rw_lock("a").unwrap();
    let reads = || {
        let lock = lock.clone();
        crate::spawn(async move { lock.read_timeout(Duration::from_secs(5)).await })
    };
    let first = reads();
    tokio::task::yield_now().await;
    let writes = crate::spawn({
        let lock = lock.clone();
        async move { lock.try_write().await.map(drop) }
    });
    tokio::task::yield_now().await;
    let second = reads();
    let first = first.await.unwrap().unwrap();
    assert!(writes.await.unwrap().unwrap_err().is_busy());
    assert!(second.await.unwrap().unwrap().is_valid());
    drop(first);
}

/// It is being asked whether another process waits, and who was to have the lock is gone.
#[tokio::test(start_paused = true)]
async fn a_try_has_the_lock_that_is_passed_on_to_somebody_who_gave_up() {
    let (_store, session) = slow();
    let once = Handoffs::new().most(0).within(Duration::from_secs(1));
    let lock = session.mutex("a").unwrap();
    let lock = lock.with_options(LockOptions::default().handoffs(once));
    let guard = lock.acquire().await.unwrap();
    let next = crate::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.map(drop) }
    });
    tokio::task::yield_now().await;
    drop(guard);
    next.abort();
    assert!(next.await.is_err());
    drop(lock.try_acquire().await.unwrap());
}

/// Somebody else of its process goes on waiting for as many as a try wanted before.
#[tokio::test(start_paused = true)]
async fn a_try_for_one_permit_is_told_at_once_who_is_in_its_way_behind_one_who_wants_all() {
    let (store, session) = store();
    let printers = |session: &Session| session.semaphore("printers", 3).unwrap();
    let held = printers(&on(&store)).acquire().await.unwrap();
    // It has the inner lock until it has all.
    let (theirs, mine) = (printers(&on(&store)), printers(&session));
    let theirs = crate::spawn(async move { theirs.acquire_many(3).await.map(drop) });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let [all, waits] = [mine.clone(), mine.clone()];
    let all = crate::spawn(async move { all.try_acquire_many(3).await.map(drop) });
    tokio::task::yield_now().await;
    let waits = crate::spawn(async move { waits.acquire_many(3).await.map(drop) });
    tokio::task::yield_now().await;
    for _ in 0..2 {
        let start = tokio::time::Instant::now();
        assert!(mine.try_acquire().await.unwrap_err().is_busy());
        assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    }
    assert!(all.await.unwrap().unwrap_err().is_busy());
    drop(held);
    theirs.await.unwrap().unwrap();
    waits.await.unwrap().unwrap();
}

/// The two do not know yet who holds the permits, because somebody slow has the inner lock.
#[tokio::test(start_paused = true)]
async fn a_try_for_one_permit_is_not_busy_because_another_wants_all() {
    let (store, session) = store();
    let printers = |session: &Session| session.semaphore("printers", 3).unwrap();
    let slow = on(&store);
    let held = printers(&on(&store)).acquire().await.unwrap();
    drop(printers(&slow).acquire().await.unwrap());
    let mine = printers(&session);
    drop(mine.acquire().await.unwrap());
    store.faults(slow.zookeeper_session().unwrap().id).delay_replies(Duration::from_millis(50));
    let other = printers(&slow);
    let other = crate::spawn(async move { other.acquire().await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let all = mine.clone();
    let all = crate::spawn(async move { all.try_acquire_many(3).await.map(drop) });
    tokio::task::yield_now().await;
    let one = mine.try_acquire().await.unwrap();
    assert!(all.await.unwrap().unwrap_err().is_busy());
    drop((other.await.unwrap().unwrap(), one, held));
}
