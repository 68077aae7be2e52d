//! A waiter whose node somebody else deletes queues up again: as soon as it notices.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zklock::layout::{Curator, Kazoo, MaxLeases, Numbered};
use zklock::{AnyLock, Embedded, LockOptions, Session};

use crate::support::client;

const MOMENT: Duration = Duration::from_millis(1);

type Lock = fn(&Session) -> AnyLock;

/// How many hold a lock, how others wait for it, in which directory, and which of its nodes are deleted: whether
/// their owners notice at once.
struct Queue {
    what: &'static str,
    holders: (usize, Lock),
    waits: Lock,
    below: &'static str,
    deleted: &'static [(usize, bool)],
}

fn mutex(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().into()
}

fn fair(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().with_options(LockOptions::new().fair(true)).into()
}

fn numbered(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().with_driver(Numbered::dlock()).into()
}

fn kazoos(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().with_driver(Kazoo::default()).into()
}

fn of_two_leases(session: &Session) -> AnyLock {
    session.mutex("a").unwrap().with_driver(MaxLeases::new(2, Curator).unwrap()).into()
}

fn write(session: &Session) -> AnyLock {
    AnyLock::Write(session.rw_lock("a").unwrap())
}

fn read(session: &Session) -> AnyLock {
    AnyLock::Read(session.rw_lock("a").unwrap())
}

fn permit(session: &Session) -> AnyLock {
    session.semaphore("a", 1).unwrap().into()
}

fn kazoos_permit(session: &Session) -> AnyLock {
    session.semaphore("a", 1).unwrap().with_driver(Kazoo::default()).into()
}

fn queue(
    what: &'static str,
    holders: (usize, Lock),
    waits: Lock,
    below: &'static str,
    deleted: &'static [(usize, bool)],
) -> Queue {
    Queue { what, holders, waits, below, deleted }
}

/// The second in the queue of a mutex watches its own node, too. Who waits for a permit watches all of them, and
/// who waits to be the one that does so waits for a mutex.
fn queues() -> Vec<Queue> {
    vec![
        queue("mutex", (1, mutex), mutex, "/zklock/a", &[(1, true), (2, false), (3, false)]),
        queue("fair", (1, fair), fair, "/zklock/a", &[(1, true), (2, false)]),
        queue("numbered", (1, numbered), numbered, "/zklock/a", &[(1, true), (2, false)]),
        queue("kazoo's", (1, kazoos), kazoos, "/zklock/a", &[(1, false), (2, false)]),
        queue("leases", (2, of_two_leases), of_two_leases, "/zklock/a", &[(2, false), (3, false)]),
        queue("writers", (1, write), write, "/zklock/a", &[(1, false), (2, false)]),
        queue("readers", (1, write), read, "/zklock/a", &[(1, false), (2, false)]),
        queue("behind a reader", (1, read), write, "/zklock/a", &[(1, false), (2, false)]),
        queue("permits", (1, permit), permit, "/zklock/a/leases", &[(1, true)]),
        queue("a turn", (1, permit), permit, "/zklock/a/locks", &[(1, true), (2, false)]),
        queue(
            "a turn in kazoo's",
            (1, kazoos_permit),
            kazoos_permit,
            "/zklock/a-__lock__",
            &[(1, false), (2, false)],
        ),
    ]
}

impl Queue {
    /// Deletes a node of a queue with somebody behind. Returns after how long there is another one; in the end,
    /// everybody has had the lock.
    async fn again_after(&self, session_timeout: Duration, place: usize) -> Duration {
        let store = Embedded::new();
        let session = || {
            let builder = Session::embedded_builder(&store).session_timeout(session_timeout);
            builder.open().unwrap()
        };
        let ((holders, holds), mut held, mut waiting) = (self.holders, Vec::new(), Vec::new());
        for _ in 0..holders {
            held.push(holds(&session()).acquire().await.unwrap());
        }
        for _ in 0..4 {
            let lock = (self.waits)(&session());
            waiting.push(crate::spawn(async move { lock.acquire().await.map(drop) }));
            sleep(MOMENT).await;
        }
        let outside = client(&store).await;
        let mut queue = outside.children(self.below).await.unwrap();
        queue.sort_by_key(|name| name[name.len() - 10..].to_owned());
        outside.delete(&format!("{}/{}", self.below, queue[place])).await.unwrap();
        let start = Instant::now();
        let is_new = |name: &String| !queue.contains(name);
        while !outside.children(self.below).await.unwrap().iter().any(is_new) {
            assert!(start.elapsed() < 10 * session_timeout, "{}, {place}: never", self.what);
            sleep(10 * MOMENT).await;
        }
        let took = start.elapsed();
        drop(held);
        for waiting in waiting {
            waiting.await.unwrap().unwrap();
        }
        took
    }
}

/// A waiter that does not notice looks at the queue after a session timeout, or 5 s. Those with nodes of their own look
/// at the same time as others of their process, up to an eighth later.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_node_is_deleted_has_another_one_at_once_or_after_a_long_wait() {
    for (session_timeout, long) in [(2, 5), (10, 10)] {
        let [session_timeout, long] = [session_timeout, long].map(Duration::from_secs);
        for queue in queues() {
            for (place, at_once) in queue.deleted {
                let took = queue.again_after(session_timeout, *place).await;
                let together = if queue.what == "fair" { long / 8 } else { Duration::ZERO };
                let most = if *at_once { Duration::ZERO } else { long + together };
                let what = format!("{}, {place} of {session_timeout:?}", queue.what);
                assert!(took <= most + 10 * MOMENT, "{what}: {took:?}");
            }
        }
    }
}
