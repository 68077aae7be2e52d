//! What the suites of Curator and kazoo check of their locks, of ours, on a real server. Each
//! session stands for a client. What is not here is in `tests/server`; the table is in
//! `tests/peers/behaviours.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::layout::Kazoo;
use zklock::{AnyLock, ErrorKind, LockError, Mode, MultiLock, Session};
use zklock_test_support::Control;

use crate::bed::{Bed, acquiring, soon, until};

/// Long enough for the server's word on a busy machine: without it the error is not "busy".
const SHORT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_scope_guard_holds_inside_and_is_free_after() {
    let bed = Bed::shared("scope");
    let (one, two) = (bed.session().await, bed.session().await);
    let mutex = one.mutex("a").unwrap();
    assert!(!mutex.is_held_in_scope());
    let guard = mutex.acquire().await.unwrap();
    guard
        .scope(async {
            assert!(mutex.is_held_in_scope());
            assert!(two.mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
        })
        .await;
    drop(guard);
    bed.until_contenders("a", 0).await;
    two.mutex("a").unwrap().try_acquire().await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn reentrant_three_deep_and_free_only_after_the_outermost() {
    let bed = Bed::shared("three-deep");
    let (one, two) = (bed.session().await, bed.session().await);
    let mutex = one.mutex("a").unwrap();
    let (first, other) = (mutex.acquire().await.unwrap(), two.mutex("a").unwrap());
    let token = first.fencing_token();
    first
        .scope(async {
            let second = mutex.acquire().await.unwrap();
            second
                .scope(async {
                    let third = mutex.acquire().await.unwrap();
                    assert_eq!(third.fencing_token(), token);
                    assert_eq!(bed.contenders("a").len(), 1);
                    third.release().await.unwrap();
                    assert!(other.try_acquire().await.unwrap_err().is_busy());
                })
                .await;
            second.release().await.unwrap();
            assert!(other.try_acquire().await.unwrap_err().is_busy());
        })
        .await;
    first.release().await.unwrap();
    other.try_acquire().await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn another_task_does_not_enter_during_a_nested_hold() {
    let bed = Bed::shared("nested");
    let session = bed.session().await;
    let mutex = session.mutex("a").unwrap();
    let outer = mutex.acquire().await.unwrap();
    let mut waiting = outer
        .scope(async {
            let nested = mutex.acquire().await.unwrap();
            let waiting = acquiring(&session, "a");
            until("it waits", || (session.local_contenders().len() == 2).then_some(())).await;
            nested.release().await.unwrap();
            Some(waiting)
        })
        .await;
    let waiting = waiting.take().unwrap();
    assert!(!waiting.is_finished());
    outer.release().await.unwrap();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn of_two_clients_exactly_one_and_then_the_other() {
    let bed = Bed::shared("two");
    let (one, two) = (bed.session().await, bed.session().await);
    let (mut first, mut second) = (acquiring(&one, "a"), acquiring(&two, "a"));
    bed.until_contenders("a", 2).await;
    let guard = tokio::select! {
        guard = &mut first => guard.unwrap(),
        guard = &mut second => guard.unwrap(),
    };
    let other = if first.is_finished() { second } else { first };
    assert!(!other.is_finished());
    guard.release().await.unwrap();
    soon("the other", other).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_timeout_while_it_is_held_elsewhere_is_busy_and_leaves_no_node() {
    let bed = Bed::shared("timeout");
    let (one, two) = (bed.session().await, bed.session().await);
    let guard = one.mutex("a").unwrap().acquire().await.unwrap();
    let error = two.mutex("a").unwrap().acquire_timeout(SHORT).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Busy, "1011"));
    bed.until_contenders("a", 1).await;
    guard.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn revocation_asks_the_holder_and_then_the_second_client_acquires() {
    let bed = Bed::shared("revocation");
    let (one, two) = (bed.session().await, bed.session().await);
    let mutex = one.mutex("a").unwrap();
    let guard = mutex.with_options(one.defaults().revocable(true)).acquire().await.unwrap();
    let waiting = acquiring(&two, "a");
    bed.until_contenders("a", 2).await;
    assert_eq!(two.site("a").unwrap().revoke().await.unwrap(), 1);
    soon("the wish", guard.revoked()).await;
    assert!(!waiting.is_finished());
    guard.release().await.unwrap();
    soon("the second", waiting).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn multi_where_the_second_member_fails_releases_the_first() {
    let bed = Bed::shared("multi-fails");
    let (one, two) = (bed.session().await, bed.session().await);
    let held = two.mutex("b").unwrap().acquire().await.unwrap();
    let members = ["a", "b"].map(|name| AnyLock::from(one.mutex(name).unwrap()));
    let error = MultiLock::new(members).unwrap().acquire_timeout(SHORT).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    bed.until_contenders("a", 0).await;
    held.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn multi_where_a_release_fails_says_so_and_releases_the_others() {
    let bed = Bed::shared("multi-release");
    let session = bed.session().await;
    let members = ["a", "b", "c"].map(|name| AnyLock::from(session.mutex(name).unwrap()));
    let guard = MultiLock::new(members).unwrap().acquire().await.unwrap();
    let mut raw = bed.raw();
    raw.delete(guard.members()[1].node_path()).unwrap();
    raw.close().unwrap();
    soon("the loss", guard.lost()).await;
    assert!(guard.release().await.unwrap_err().is_lost());
    for name in ["a", "b", "c"] {
        bed.until_contenders(name, 0).await;
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_readers_and_eight_writers_are_listed_apart() {
    let bed = Bed::shared("listed");
    let gate = bed.session().await;
    let held = gate.rw_lock("a").unwrap().write().await.unwrap();
    let mut tasks = JoinSet::new();
    for (at, session) in bed.sessions(28).await.into_iter().enumerate() {
        tasks.spawn(async move {
            let lock = session.rw_lock("a").unwrap();
            if at < 20 {
                soon("reading", lock.read()).await.unwrap().release().await.unwrap();
            } else {
                soon("writing", lock.write()).await.unwrap().release().await.unwrap();
            }
        });
    }
    let site = gate.rw_lock("a").unwrap().site();
    let queue = loop {
        let queue = site.contenders().await.unwrap();
        if queue.len() == 29 {
            break queue;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let count = |mode| queue[1..].iter().filter(|one| one.mode == mode && !one.holds).count();
    assert_eq!((count(Mode::Read), count(Mode::Write)), (20, 8));
    assert!(queue[0].holds && queue[0].mode == Mode::Write);
    held.release().await.unwrap();
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    bed.end().await;
}

#[tokio::test]
async fn upgrade_is_refused() {
    let bed = Bed::shared("upgrade");
    let lock = bed.session().await.rw_lock("a").unwrap();
    let reading = lock.read().await.unwrap();
    let error = reading.scope(lock.write()).await.unwrap_err();
    assert!(error.is_deadlock(), "{error}");
    reading.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn another_task_cannot_use_the_owners_downgrade() {
    let bed = Bed::shared("owners-downgrade");
    let session = bed.session().await;
    let lock = session.rw_lock("a").unwrap();
    let writing = lock.write().await.unwrap();
    writing
        .scope(async {
            // The owner reads inside, a task of its own does not.
            lock.read().await.unwrap().release().await.unwrap();
            let other = session.rw_lock("a").unwrap();
            let error = tokio::spawn(async move { other.read_timeout(SHORT).await });
            assert!(error.await.unwrap().unwrap_err().is_busy());
        })
        .await;
    writing.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn write_held_read_taken_write_released_and_the_read_stays() {
    let bed = Bed::shared("downgrade");
    let (one, two) = (bed.session().await, bed.session().await);
    let writing = one.rw_lock("a").unwrap().write().await.unwrap();
    // A queued writer stays blocked during a downgrade.
    let queued = tokio::spawn({
        let lock = two.rw_lock("a").unwrap();
        async move { soon("writing", lock.write()).await.unwrap() }
    });
    let site = one.rw_lock("a").unwrap().site();
    while site.contenders().await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let reading = writing.downgrade().await.unwrap();
    let queue = site.contenders().await.unwrap();
    let modes: Vec<_> = queue.iter().map(|one| (one.mode, one.holds)).collect();
    assert_eq!(modes, [(Mode::Read, true), (Mode::Write, false)]);
    tokio::time::sleep(SHORT).await;
    assert!(reading.is_valid() && !queued.is_finished());
    reading.release().await.unwrap();
    queued.await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_clients_mix_a_hundred_rounds_writers_alone_and_readers_together() {
    let bed = Bed::shared("mix");
    let (inside, together) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let mut tasks = JoinSet::new();
    for (client, session) in bed.sessions(8).await.into_iter().enumerate() {
        let (inside, together) = (inside.clone(), together.clone());
        tasks.spawn(async move {
            let lock = session.rw_lock("a").unwrap();
            for round in 0..100 {
                if (client * 31 + round * 17) % 5 == 0 {
                    let guard = soon("writing", lock.write()).await.unwrap();
                    assert_eq!(inside.swap(-1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    assert_eq!(inside.swap(0, Ordering::SeqCst), -1);
                    guard.release().await.unwrap();
                } else {
                    let guard = soon("reading", lock.read()).await.unwrap();
                    let readers = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(readers > 0, "a reader beside a writer");
                    together.fetch_max(readers, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert!(together.load(Ordering::SeqCst) > 1, "no readers together");
    bed.end().await;
}

#[tokio::test]
async fn reader_yes_second_reader_yes_writer_no() {
    let bed = Bed::shared("yes-yes-no");
    let sessions = bed.sessions(3).await;
    let lock = |at: usize| sessions[at].rw_lock("a").unwrap();
    let (first, second) = (lock(0).try_read().await.unwrap(), lock(1).try_read().await.unwrap());
    assert!(lock(2).try_write().await.unwrap_err().is_busy());
    first.release().await.unwrap();
    second.release().await.unwrap();
    lock(2).try_write().await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn semaphore_of_one_taken_gives_no_other_within_a_time() {
    let bed = Bed::shared("permit-one");
    let (one, two) = (bed.session().await, bed.session().await);
    let permit = one.semaphore("a", 1).unwrap().acquire().await.unwrap();
    let error = two.semaphore("a", 1).unwrap().acquire_timeout(SHORT).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    permit.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn semaphore_three_of_three_held_and_one_closes_for_the_fourth() {
    let bed = Bed::shared("permit-fourth");
    let sessions = bed.sessions(4).await;
    let semaphore = |at: usize| sessions[at].semaphore("a", 3).unwrap();
    let mut held = Vec::new();
    for at in 0..3 {
        held.push(semaphore(at).acquire().await.unwrap());
    }
    let fourth = tokio::spawn({
        let semaphore = semaphore(3);
        async move { soon("the fourth", semaphore.acquire()).await.unwrap() }
    });
    let site = semaphore(0).site();
    let queue = loop {
        let queue = site.contenders().await.unwrap();
        if queue.len() == 4 {
            break queue;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // Holders are listed by name, and who waits is not one of them.
    let holders: Vec<_> = queue.iter().filter(|one| one.holds).collect();
    assert_eq!(holders.len(), 3);
    assert!(holders.iter().all(|one| one.owner.app.as_deref() == Some("tests")));
    assert!(!queue[3].holds);
    held.remove(1).release().await.unwrap();
    fourth.await.unwrap().release().await.unwrap();
    drop(held);
    bed.end().await;
}

#[tokio::test]
async fn semaphore_permits_are_split_and_given_back_apart() {
    let bed = Bed::shared("split");
    let (one, two) = (bed.session().await, bed.session().await);
    for kazoo in [false, true] {
        let semaphore = |session: &Session| match kazoo {
            false => session.semaphore("a", 3).unwrap(),
            true => session.semaphore("b", 3).unwrap().with_driver(Kazoo::default()),
        };
        let mut three = semaphore(&one).acquire_many(3).await.unwrap();
        let two_of_them = three.split(2).unwrap();
        assert_eq!((three.permits(), two_of_them.permits()), (1, 2));
        let view = three.view();
        let waiting = tokio::spawn({
            let semaphore = semaphore(&two);
            async move { soon("two permits", semaphore.acquire_many(2)).await.unwrap() }
        });
        two_of_them.release().await.unwrap();
        let theirs = waiting.await.unwrap();
        assert!(semaphore(&two).try_acquire().await.unwrap_err().is_busy());
        // A heartbeat later what was given back is missed by nobody.
        tokio::time::sleep(one.timing().unwrap().heartbeat * 2).await;
        assert!(three.is_valid() && view.is_valid() && theirs.is_valid());
        three.release().await.unwrap();
        semaphore(&two).try_acquire().await.unwrap().release().await.unwrap();
        theirs.release().await.unwrap();
        assert!(!view.is_valid());
    }
    bed.end().await;
}

#[tokio::test]
async fn a_writer_that_is_not_downgraded_is_given_back() {
    let bed = Bed::shared("stays");
    let (one, two) = (bed.session().await, bed.session().await);
    let (lock, theirs) = (one.rw_lock("a").unwrap(), two.rw_lock("a").unwrap());
    let writing = lock.write().await.unwrap();
    let nested = writing.scope(lock.write()).await.unwrap();
    let refused = writing.downgrade().await.unwrap_err();
    assert!(refused.error().is_deadlock(), "{refused}");
    let writing = refused.into_guard();
    assert!(writing.is_valid() && theirs.try_read().await.unwrap_err().is_busy());
    drop(nested);
    let reading = writing.downgrade().await.unwrap();
    theirs.try_read().await.unwrap().release().await.unwrap();
    // With a question mark the lock is released.
    reading.release().await.unwrap();
    let writing = lock.write().await.unwrap();
    let nested = writing.scope(lock.write()).await.unwrap();
    let error = LockError::from(writing.downgrade().await.unwrap_err());
    assert!(error.is_deadlock() && nested.is_valid());
    nested.release().await.unwrap();
    theirs.try_write().await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn semaphore_permits_come_back_when_their_client_closes() {
    let bed = Bed::shared("permit-closes");
    let (one, two) = (bed.session().await, bed.session().await);
    let permit = one.semaphore("a", 2).unwrap().acquire_many(2).await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = two.semaphore("a", 2).unwrap();
        async move { soon("the permits", semaphore.acquire_many(2)).await.unwrap() }
    });
    one.close().await;
    waiting.await.unwrap().release().await.unwrap();
    drop(permit);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semaphore_of_ten_clients_with_batches_never_exceeds_the_limit_and_ends_at_zero() {
    const LIMIT: i64 = 5;
    let bed = Bed::shared("permit-batches");
    let inside = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for (client, session) in bed.sessions(10).await.into_iter().enumerate() {
        let inside = inside.clone();
        tasks.spawn(async move {
            let semaphore = session.semaphore("a", 5).unwrap();
            for round in 0..10_u32 {
                let batch = 1 + (client as u32 * 7 + round * 3) % 5;
                let permit = soon("permits", semaphore.acquire_many(batch)).await.unwrap();
                let now = inside.fetch_add(i64::from(batch), Ordering::SeqCst) + i64::from(batch);
                assert!(now <= LIMIT, "{now} permits");
                tokio::task::yield_now().await;
                inside.fetch_sub(i64::from(batch), Ordering::SeqCst);
                permit.release().await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(inside.load(Ordering::SeqCst), 0);
    bed.end().await;
}

/// A name of kazoo's does not tell a writer from a mutex, and a writer who steps down leaves a reader
/// in its place.
#[tokio::test]
async fn a_mutex_of_kazoos_layout_does_not_enter_beside_a_reader_that_was_a_writer() {
    let bed = Bed::shared("kazoo-downgrade");
    let (one, two) = (bed.session().await, bed.session().await);
    let layout = zklock::layout::Kazoo::default;
    for round in 0..10 {
        let lock = one.rw_lock("a").unwrap().with_driver(layout());
        let writing = lock.write().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = two.mutex("a").unwrap().with_driver(layout());
            async move { soon("the mutex", mutex.acquire()).await.unwrap() }
        });
        until("it waits", || bed.is_watched_beside(&one, writing.node_path()).then_some(())).await;
        let reading = writing.downgrade().await.unwrap();
        // It looks, and watches the reader then.
        until("it waits for the reader", || {
            let watched = bed.is_watched_beside(&one, reading.node_path());
            (watched || waiting.is_finished()).then_some(())
        })
        .await;
        assert!(reading.is_valid() && !waiting.is_finished(), "two are inside, round {round}");
        reading.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
    }
    bed.end().await;
}

#[tokio::test]
async fn semaphore_whose_limit_is_raised_lets_a_waiter_in_early() {
    // So long that no slow look at the queue, once a session timeout, helps out.
    const TIMEOUT: Duration = Duration::from_secs(60);
    let bed = Bed::shared("permit-raised");
    let one = bed.session().await;
    let two = bed.adopt(bed.builder().session_timeout(TIMEOUT).connect().await.unwrap());
    let semaphore =
        |session: &zklock::Session| session.semaphore_with_limit_at("a", "limit", 1).unwrap();
    let held = semaphore(&one).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = semaphore(&two);
        async move { soon("a permit", semaphore.acquire()).await.unwrap() }
    });
    let (mut raw, limit) = (bed.raw(), bed.path("limit"));
    until("it waits", || {
        (raw.children(&bed.path("a/leases")).unwrap_or_default().len() == 2).then_some(())
    })
    .await;
    until("it watches the limit", || bed.watched_by(&two).contains(&limit).then_some(())).await;
    // It hears the limit for the first time, and looks again. Then nothing else happens: if the
    // raise came earlier it would be seen with that look, and this would show nothing.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let control = Control::of(bed.server());
    raw.set_data(&limit, &[0, 0, 0, 2]).unwrap();
    let start = Instant::now();
    let early = waiting.await.unwrap();
    // The limit, the queue, and the inner lock, which is given back.
    control.within_answers("the permit", start.elapsed(), Duration::ZERO, 4);
    assert!(held.is_valid());
    early.release().await.unwrap();
    held.release().await.unwrap();
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn semaphore_waiter_whose_node_is_deleted_tries_again_and_wins() {
    let bed = Bed::shared("permit-deleted");
    let (one, two) = (bed.session().await, bed.session().await);
    let held = one.semaphore("a", 1).unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = two.semaphore("a", 1).unwrap();
        async move { soon("a permit", semaphore.acquire()).await.unwrap() }
    });
    let mut raw = bed.raw();
    let leases = bed.path("a/leases");
    let own = held.node_path().rsplit('/').next().unwrap().to_owned();
    let waits = until("it waits", || {
        let names = raw.children(&leases).unwrap_or_default();
        names.into_iter().find(|name| *name != own)
    })
    .await;
    raw.delete(&format!("{leases}/{waits}")).unwrap();
    until("it waits again", || (raw.children(&leases).unwrap().len() == 2).then_some(())).await;
    held.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    until("nothing is left over", || {
        raw.children(&leases).unwrap_or_default().is_empty().then_some(())
    })
    .await;
    raw.close().unwrap();
    bed.end().await;
}

#[tokio::test]
async fn semaphore_waiter_that_is_cancelled_takes_its_node_along() {
    let bed = Bed::shared("permit-cancelled");
    let (one, two) = (bed.session().await, bed.session().await);
    let held = one.semaphore("a", 1).unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let semaphore = two.semaphore("a", 1).unwrap();
        async move { semaphore.acquire().await }
    });
    let mut raw = bed.raw();
    let leases = bed.path("a/leases");
    until("it waits", || (raw.children(&leases).unwrap().len() == 2).then_some(())).await;
    waiting.abort();
    until("it is gone", || (raw.children(&leases).unwrap().len() == 1).then_some(())).await;
    assert!(held.is_valid());
    held.release().await.unwrap();
    raw.close().unwrap();
    bed.end().await;
}

/// A creation that is never answered, of somebody who has given up: gone later.
#[tokio::test]
async fn an_orphan_of_somebody_who_gave_up_is_removed_later() {
    use zklock_test_support::{Action, Cut, Matcher, OpCode};
    let bed = Bed::shared("orphan");
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    bed.keep_directory("a");
    let rule = proxy.on(Matcher::reply(OpCode::Create2).first(1), Action::DropAndCut(Cut::Reset));
    proxy.refuse(true);
    let error = session.mutex("a").unwrap().acquire_timeout(SHORT).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert_eq!(rule.hits(), 1);
    assert_eq!(bed.contenders("a").len(), 1, "the orphan");
    proxy.refuse(false);
    bed.until_contenders("a", 0).await;
    rule.release();
    bed.end().await;
}

/// Curator's suite lists what is beside the locks as well; for us it is in nobody's way.
#[tokio::test]
async fn a_semaphore_below_a_mutex_has_nodes_of_its_own() {
    let bed = Bed::shared("own-nodes");
    let (session, other) = (bed.session().await, bed.session().await);
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let semaphore = |session: &Session| session.semaphore("a/inner", 1).unwrap();
    // The mutex keeps nobody from the semaphore, nor the other way round.
    let permit = semaphore(&other).try_acquire().await.unwrap();
    assert!(permit.node_path().starts_with(&bed.path("a/inner/leases/")), "{}", permit.node_path());
    assert!(semaphore(&session).try_acquire().await.unwrap_err().is_busy());
    assert_eq!(session.site("a").unwrap().contenders().await.unwrap().len(), 1);
    assert!(other.mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    let guard = other.mutex("a").unwrap().try_acquire().await.unwrap();
    permit.release().await.unwrap();
    assert!(guard.is_valid());
    semaphore(&session).try_acquire().await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
    bed.end().await;
}
