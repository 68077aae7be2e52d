//! Permits of a server that falls silent, on a busy day: those who want one are told in time that nobody answers, and
//! not that the semaphore is busy, whoever holds the others as far as this process knows.

use std::time::{Duration, Instant};

use tokio::task::{JoinSet, spawn_blocking};
use zklock::layout::Kazoo;
use zklock::{ErrorKind, LockError, LockOptions, Semaphore, SemaphorePermit, Session};
use zklock_test_support::{Control, Late, measured};

use crate::bed::{Bed, PATIENCE, soon};

const TIMEOUT: Duration = Duration::from_millis(300);

/// How many permits each semaphore has, and how many each call wants of them.
const LIMIT: u32 = 3;
const WANTED: u32 = 2;

/// Where a semaphore has its nodes, or its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    Curator,
    LimitInANode,
    Kazoo,
}

/// Who holds so many that the rest is too few.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Held {
    ByNobody,
    ByAnother,
    /// One here, and one by another, who may give it back.
    ByBoth,
    /// All of them here. What nobody can raise may be busy then, whatever ZooKeeper says.
    Here,
}

#[derive(Clone, Copy, Debug)]
enum By {
    Task,
    Thread,
}

/// How a call waits, and for how long at most.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Once,
    For,
    Tries,
}

const LAYOUTS: [Layout; 3] = [Layout::Curator, Layout::LimitInANode, Layout::Kazoo];
const HELD: [Held; 4] = [Held::ByNobody, Held::ByAnother, Held::ByBoth, Held::Here];

fn semaphore(session: &Session, layout: Layout, held: Held, by: By) -> Semaphore {
    let name = format!("{layout:?}/{held:?}/{by:?}");
    match layout {
        Layout::Curator => session.semaphore(name, LIMIT).unwrap(),
        Layout::LimitInANode => {
            let limit = format!("limits/{name}");
            session.semaphore_with_limit_at(name, limit, LIMIT).unwrap()
        }
        Layout::Kazoo => session.semaphore(name, LIMIT).unwrap().with_driver(Kazoo::default()),
    }
}

/// Each that is held in any way, once for a task and once for a thread.
fn all() -> impl Iterator<Item = (Layout, Held, By)> {
    let all = LAYOUTS.into_iter().flat_map(|layout| HELD.map(|held| (layout, held)));
    all.flat_map(|(layout, held)| [By::Task, By::Thread].map(|by| (layout, held, by)))
}

async fn take(permits: Semaphore, wait: Wait, by: By) -> Result<SemaphorePermit, LockError> {
    match (by, wait) {
        (By::Task, Wait::Once) => permits.try_acquire_many(WANTED).await,
        (By::Task, Wait::For) => permits.acquire_many_timeout(WANTED, TIMEOUT).await,
        (By::Task, Wait::Tries) => permits.acquire_many_tries(WANTED).await,
        (By::Thread, _) => {
            let take = move || match wait {
                Wait::Once => permits.blocking_try_acquire_many(WANTED),
                Wait::For => permits.blocking_acquire_many_timeout(WANTED, TIMEOUT),
                Wait::Tries => permits.blocking_acquire_many_tries(WANTED),
            };
            spawn_blocking(take).await.unwrap()
        }
    }
}

type Taken = (Layout, Held, By, Result<(), LockError>, Duration);

/// Takes permits of each at once; answers what came of it, and after how long.
async fn take_all(session: &Session, wait: Wait, options: LockOptions) -> Vec<Taken> {
    let mut tasks = JoinSet::new();
    for (layout, held, by) in all() {
        let permits = semaphore(session, layout, held, by).with_options(options);
        tasks.spawn(async move {
            let start = Instant::now();
            let taken = take(permits, wait, by).await.map(drop);
            (layout, held, by, taken, start.elapsed())
        });
    }
    tasks.join_all().await
}

/// All of them say that nobody answers. Returns those that are not back in time.
async fn in_vain(what: &str, session: &Session) -> Vec<Late> {
    let mut late = Vec::new();
    let options = LockOptions::new().timeout(TIMEOUT);
    let ways = [(Wait::Once, 1), (Wait::For, 1), (Wait::Tries, 2)];
    for (wait, times) in ways {
        let control = Control::timers();
        for (layout, held, by, taken, took) in take_all(session, wait, options.retries(times)).await
        {
            let call = format!("{what}: {layout:?}, held {held:?}, {by:?}, {wait:?}");
            let error = taken.unwrap_err();
            if error.is_busy() && held == Held::Here && layout != Layout::LimitInANode {
                let pid = error.holder().and_then(|holder| holder.owner.pid);
                assert_eq!(pid, Some(std::process::id()), "{call}: {error:#}");
            } else {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{call}: {error:#}");
                assert!(error.holder().is_none(), "{call}: {error:#}");
            }
            late.extend(control.late(&call, took, TIMEOUT * times, 1));
        }
    }
    late
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_of_a_frozen_server_are_unavailable_in_time_and_not_busy_whoever_holds_them() {
    measured(async |_| frozen().await).await;
}

async fn frozen() -> Vec<Late> {
    let bed = Bed::own();
    let (session, other) = (bed.session().await, bed.session().await);
    let busy = bed.busy_while_broken(&[&session, &other]).await;
    let mut guards = Vec::new();
    for (layout, held, by) in all() {
        let [here, there] = [&session, &other].map(|one| semaphore(one, layout, held, by));
        let (here, there) = match held {
            Held::ByNobody => (None, None),
            Held::ByAnother => (None, Some(there.acquire_many(WANTED))),
            Held::ByBoth => (Some(here.acquire_many(1)), Some(there.acquire_many(1))),
            Held::Here => (Some(here.acquire_many(LIMIT)), None),
        };
        for permits in [here, there].into_iter().flatten() {
            guards.push(soon("the permits", permits).await.unwrap());
        }
    }
    bed.server().pause();
    let mut late = in_vain("frozen", &session).await;
    bed.server().resume();
    // Now this process has seen who holds them.
    let patient = LockOptions::new().timeout(PATIENCE);
    for (layout, held, by, taken, _) in take_all(&session, Wait::Once, patient).await {
        let call = format!("answered: {layout:?}, held {held:?}, {by:?}");
        match taken {
            Ok(()) => assert_eq!(held, Held::ByNobody, "{call}"),
            Err(error) => assert!(error.is_busy() && held != Held::ByNobody, "{call}: {error:#}"),
        }
    }
    bed.server().pause();
    late.extend(in_vain("frozen again", &session).await);
    bed.server().resume();
    for guard in guards {
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    for (layout, held, by, taken, _) in take_all(&session, Wait::Tries, patient).await {
        taken.unwrap_or_else(|error| panic!("{layout:?}, {held:?}, {by:?}: {error:#}"));
    }
    drop(busy);
    bed.end().await;
    late
}
