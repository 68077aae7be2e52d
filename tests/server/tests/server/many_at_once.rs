//! What others do to many nodes at once, and when each of their holders knows: on a busy day, with answers
//! that come late and without a single notification.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zklock::{AnyGuard, AnyLock, Session};
use zklock_core::session::generation::MOST_CHECKED;
use zklock_test_support::{Action, Control, Late, Matcher, Proxy, Warnings};

use crate::bed::{Bed, PATIENCE, soon};

/// The promises are fractions of it.
const T: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Of two lanes at least one has more of them than a heartbeat checks in one batch.
const MANY: usize = 450;
const LANES: usize = 2;

/// So much later comes each answer.
const LATE: Duration = Duration::from_millis(50);

/// A heartbeat asks for all, reads what is gone or other, and reads once more what a server shows alone.
const ANSWERS: u32 = 3;

fn lock(session: &Session, number: usize) -> AnyLock {
    let name = format!("many/{number}");
    match number % 3 {
        0 => AnyLock::Mutex(session.mutex(name).unwrap()),
        1 => AnyLock::Read(session.rw_lock(name).unwrap()),
        _ => AnyLock::Permits(session.semaphore(name, 2).unwrap(), 1),
    }
}

impl Bed {
    /// In how many ZooKeeper sessions more of these nodes are held than a heartbeat checks at once.
    fn lanes_of_many(&self) -> usize {
        let below = self.path("many/");
        let held = |nodes: &[String]| nodes.iter().filter(|path| path.starts_with(&below)).count();
        let sessions = self.server().sessions().into_iter();
        sessions.filter(|lane| held(&lane.ephemerals) > MOST_CHECKED).count()
    }

    /// What is known of a guard, and of its node.
    fn as_it_is(&self, guard: &AnyGuard) -> String {
        let data = self.raw().data(guard.node_path());
        let remaining = guard.remaining();
        // The latest of all tests of this process.
        let warnings = Warnings::everywhere()("").into_iter().rev().take(50).collect::<Vec<_>>();
        format!("{}, valid for {remaining:?}, with {data:?}: {warnings:#?}", guard.node_path())
    }
}

/// What is done to a node.
#[derive(Clone, Copy, Debug)]
enum Done {
    Deleted,
    Asked,
}

/// Does it to each of many held nodes, and measures how long after that each holder is told. Returns the guards,
/// unless it took so long that some were lost instead.
async fn told(bed: &Bed, done: Done) -> (Proxy, Vec<AnyGuard>, Vec<Late>) {
    // From now on, in case that somebody is not told.
    let _ = Warnings::everywhere();
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(LANES);
    let session = bed.adopt(builder.connect().await.unwrap());
    let busy = bed.busy_while_broken(&[&session]).await;
    let locks = (0..MANY).map(|number| lock(&session, number));
    let asked =
        locks.map(|lock| tokio::spawn(async move { lock.acquire().await.unwrap().detach() }));
    let mut held = Vec::new();
    for asked in asked.collect::<Vec<_>>() {
        held.push(Arc::new(soon("all locks", asked).await.unwrap()));
    }
    assert!(bed.lanes_of_many() > 0, "in each lane one batch at most");
    let deaf = proxy.on(Matcher::notification(), Action::Drop);
    proxy.delay(LATE / 2);
    // Each of its answers is as late as one of theirs, forwarded by the same proxy at the same time.
    let control = Control::at(&proxy.addr());
    let hears = |guard: &Arc<AnyGuard>| {
        let guard = guard.clone();
        tokio::spawn(async move {
            match done {
                Done::Deleted => guard.lost().await,
                Done::Asked => tokio::select! {
                    biased;
                    () = guard.revoked() => {}
                    () = guard.lost() => return Err(Instant::now()),
                },
            }
            Ok(Instant::now())
        })
    };
    let hearing: Vec<_> = held.iter().map(hears).collect();
    let paths: Vec<_> = held.iter().map(|guard| guard.node_path().to_owned()).collect();
    let mut raw = bed.raw();
    let doing = move || {
        let mut at = Vec::new();
        for path in paths {
            match done {
                Done::Deleted => raw.delete(&path).unwrap(),
                Done::Asked => raw.set_data(&path, b"__REVOKE__").unwrap(),
            }
            at.push(Instant::now());
        }
        raw.close().unwrap();
        at
    };
    let done = tokio::task::spawn_blocking(doing).await.unwrap();
    let (mut late, mut lost) = (Duration::ZERO, None);
    for ((done, hearing), guard) in done.into_iter().zip(hearing).zip(&held) {
        let Ok(heard) = tokio::time::timeout(PATIENCE, hearing).await else {
            panic!("not told: {}", bed.as_it_is(guard));
        };
        match heard.unwrap() {
            Ok(heard) => late = late.max(heard.saturating_duration_since(done)),
            Err(at) => {
                let after = at.saturating_duration_since(done);
                lost.get_or_insert_with(|| {
                    (after, format!("lost instead: {}", bed.as_it_is(guard)))
                });
            }
        }
    }
    let is_late = |what: &str, after| control.late(what, after, HEARTBEAT, ANSWERS);
    let late = match &lost {
        None => is_late("the last of many", late),
        // Whoever gets no processor for as long as a lease is valid loses it.
        Some((after, what)) => is_late(what, *after).or_else(|| Some(control.too_late(what))),
    };
    deaf.release();
    proxy.heal();
    drop(busy);
    let mut held: Vec<_> = held.into_iter().filter_map(Arc::into_inner).collect();
    assert_eq!(held.len(), MANY);
    if lost.is_some() {
        held.clear();
    }
    (proxy, held, late.into_iter().collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_deletions_each_is_told_within_a_heartbeat() {
    Bed::measured("many-deleted", async |bed| {
        let (_proxy, held, late) = told(&bed, Done::Deleted).await;
        for guard in held {
            assert!(guard.release().await.unwrap_err().is_lost());
        }
        bed.end().await;
        late
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_requests_for_release_each_is_told_within_a_heartbeat() {
    Bed::measured("many-asked", async |bed| {
        let (_proxy, held, late) = told(&bed, Done::Asked).await;
        for guard in held {
            assert!(guard.is_valid());
            guard.release().await.unwrap();
        }
        bed.end().await;
        late
    })
    .await;
}
