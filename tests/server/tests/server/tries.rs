//! Trying once while others of this process try or wait.

use std::time::Duration;

use tokio::task::JoinSet;
use zklock::layout::Kazoo;
use zklock::{LockError, LockOptions, Semaphore, Session};

use crate::bed::{Bed, until};

const ROUNDS: usize = 20;

/// Time is not what these tests are about, and a busy machine may need more than the default.
fn patient() -> LockOptions {
    LockOptions::new().timeout(Duration::from_secs(20))
}

fn printers(session: &Session, limit: u32, kazoo: bool) -> Semaphore {
    let printers = session.semaphore("printers", limit).unwrap().with_options(patient());
    if kazoo { printers.with_driver(Kazoo::default()) } else { printers }
}

async fn all<T: 'static>(tries: JoinSet<Result<T, LockError>>) -> Vec<T> {
    tries.join_all().await.into_iter().collect::<Result<_, _>>().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_tries_at_once_enter_as_there_are_permits() {
    for kazoo in [false, true] {
        let bed = Bed::shared(if kazoo { "tries-kazoo" } else { "tries" });
        let session = bed.session().await;
        let busy = bed.busy(&[&session]).await;
        for _ in 0..ROUNDS {
            let mut tries = JoinSet::new();
            // In tasks and on threads.
            for permits in [1, 2, 1] {
                let printers = printers(&session, 8, kazoo);
                let blocks = printers.clone();
                tries.spawn(async move { printers.try_acquire_many(permits).await });
                tries.spawn_blocking(move || blocks.blocking_try_acquire_many(permits));
            }
            for permit in all(tries).await {
                permit.release().await.unwrap();
            }
        }
        drop(busy);
        bed.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_who_try_at_once_all_enter_where_nobody_writes() {
    let bed = Bed::shared("tries-read");
    let sessions = bed.sessions(2).await;
    let busy = bed.busy(&[&sessions[0], &sessions[1]]).await;
    for _ in 0..ROUNDS {
        let mut tries = JoinSet::new();
        for session in sessions.iter().cycle().take(4) {
            let lock = session.rw_lock("a").unwrap().with_options(patient());
            let blocks = lock.clone();
            tries.spawn(async move { lock.try_read().await });
            tries.spawn_blocking(move || blocks.blocking_try_read());
        }
        for guard in all(tries).await {
            guard.release().await.unwrap();
        }
    }
    drop(busy);
    bed.end().await;
}

/// Of a busy semaphore, whoever has a permit, and not whoever waits for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_semaphore_names_a_holder_while_others_wait_for_it() {
    for kazoo in [false, true] {
        let bed = Bed::shared(if kazoo { "named-kazoo" } else { "named" });
        let (holder, waiter, session) =
            (bed.session().await, bed.session().await, bed.session().await);
        let third = printers(&holder, 2, kazoo);
        let held = [third.acquire().await.unwrap(), third.acquire().await.unwrap()];
        let waits = tokio::spawn({
            let waiter = printers(&waiter, 2, kazoo);
            async move { waiter.acquire().await }
        });
        // The inner lock is where whoever waits has its node.
        let locks = bed.path(if kazoo { "printers-__lock__" } else { "printers/locks" });
        let mut raw = bed.raw();
        until("the waiter waits", || {
            let waiting = raw.children(&locks).is_ok_and(|nodes| !nodes.is_empty());
            waiting.then_some(())
        })
        .await;
        raw.close().unwrap();
        let mine = printers(&session, 2, kazoo);
        for round in 0..6 {
            // Long enough for the answers that it takes to learn of a holder.
            let busy = match round % 3 {
                2 => mine.acquire_timeout(Duration::from_secs(3)).await,
                _ => mine.try_acquire().await,
            };
            let busy = busy.unwrap_err();
            let named = busy.holder().unwrap_or_else(|| panic!("nobody is named: {busy:?}"));
            let is_named = |path: &str| path.rsplit('/').next() == Some(&named.node);
            assert!(
                busy.is_busy() && held.iter().any(|held| is_named(held.node_path())),
                "{named:?}"
            );
        }
        for permit in held {
            permit.release().await.unwrap();
        }
        waits.await.unwrap().unwrap().release().await.unwrap();
        bed.end().await;
    }
}
