//! A task that lost permits and acquires others while it still has the guards of those: its own nodes, which
//! are there until the guards are dropped, do not keep it out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use zklock::layout::Kazoo;
use zklock::{LockOptions, Semaphore, SemaphorePermit, Session, StopAt, carry};
use zklock_test_support::Control;

use crate::bed::{Bed, PATIENCE, soon, until};

/// The promises are fractions of it.
const T: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// So much later comes each answer.
const LATE: Duration = Duration::from_millis(50);

/// A heartbeat asks for all, and reads what is gone.
const TOLD: u32 = 2;

/// The inner lock is taken, permits are taken and counted, and it is looked whether all are there; kazoo also
/// compares the limit, and counts before.
fn answers((kazoo, _): (bool, bool)) -> u32 {
    if kazoo { 8 } else { 5 }
}

fn name((kazoo, fair): (bool, bool)) -> String {
    format!("kazoo-{kazoo}-fair-{fair}")
}

/// The directory of the permits.
fn permits((kazoo, fair): (bool, bool)) -> String {
    let name = name((kazoo, fair));
    if kazoo { name } else { format!("{name}/leases") }
}

fn semaphore(session: &Session, kind: (bool, bool), limit: u32) -> Semaphore {
    let (kazoo, fair) = kind;
    let options = LockOptions::new().fair(fair).timeout(PATIENCE);
    let semaphore = session.semaphore(name(kind), limit).unwrap().with_options(options);
    if kazoo { semaphore.with_driver(Kazoo::default()) } else { semaphore }
}

const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

type Lost = (Semaphore, [SemaphorePermit; 2]);

async fn held(session: &Session) -> Vec<Lost> {
    let mut held = Vec::new();
    for kind in KINDS {
        let semaphore = semaphore(session, kind, 2);
        let permits = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
        held.push((semaphore, permits));
    }
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_all_permits_in_silence_gets_others_at_once() {
    Bed::measured("anew-silence", async |bed| {
        let mut late = Vec::new();
        let proxy = bed.proxy();
        let session = bed.session_of_through(T, &proxy).await;
        let busy = bed.busy_while_broken(&[&session]).await;
        let held = held(&session).await;
        proxy.black_hole(true);
        for (_, permits) in &held {
            soon("the losses", async { tokio::join!(permits[0].lost(), permits[1].lost()) }).await;
        }
        proxy.heal();
        until("it is connected", || session.is_ready().then_some(())).await;
        let control = Control::of(bed.server());
        for ((semaphore, lost), kind) in held.into_iter().zip(KINDS) {
            let (what, start) = (format!("after silence, of {}", name(kind)), Instant::now());
            let mut anew = vec![soon("a permit", semaphore.acquire()).await.unwrap()];
            late.extend(control.late(&what, start.elapsed(), Duration::ZERO, answers(kind)));
            drop(lost);
            anew.push(soon("the other one", semaphore.acquire()).await.unwrap());
            assert!(anew.iter().all(|permit| permit.is_valid()), "{}", semaphore.path());
            let busy = semaphore.try_acquire().await;
            assert!(busy.is_err_and(|error| error.is_busy()), "{}", semaphore.path());
        }
        drop((busy, control));
        bed.end().await;
        late
    })
    .await;
}

/// Of a semaphore with three permits two are lost, because the node of one or of both is deleted. What is left
/// of them is in nobody's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_permits_by_a_deletion_gets_as_many_at_once() {
    Bed::measured("anew-deleted", async |bed| {
        let mut late = Vec::new();
        let proxy = bed.proxy();
        let session = bed.session_of_through(T, &proxy).await;
        let busy = bed.busy_while_broken(&[&session]).await;
        proxy.delay(LATE / 2);
        for kind in KINDS {
            let (semaphore, permits) = (semaphore(&session, kind, 3), permits(kind));
            for deleted in [&[0][..], &[1], &[0, 1]] {
                let control = Control::at(&proxy.addr());
                let what = format!("{deleted:?} of {}", name(kind));
                let other = soon("a permit", semaphore.acquire()).await.unwrap();
                let lost = soon("two permits", semaphore.acquire_many(2)).await.unwrap();
                let mut nodes = bed.until_permits(&permits, 3).await;
                nodes.retain(|node| !other.node_path().ends_with(node));
                for one in deleted {
                    bed.delete(&format!("{}/{}", bed.path(&permits), nodes[*one]));
                }
                let start = Instant::now();
                soon("the loss", lost.lost()).await;
                late.extend(control.late(&what, start.elapsed(), HEARTBEAT, TOLD));
                let start = Instant::now();
                let anew = soon("as many", semaphore.acquire_many(2)).await.unwrap();
                let answers = answers(kind);
                late.extend(control.late(&what, start.elapsed(), Duration::ZERO, answers));
                assert!(!lost.is_valid() && anew.is_valid() && other.is_valid(), "{what}");
                drop(lost);
                bed.until_permits(&permits, 3).await;
                assert!(anew.is_valid(), "{what}");
                anew.release().await.unwrap();
                other.release().await.unwrap();
            }
        }
        proxy.heal();
        drop(busy);
        bed.end().await;
        late
    })
    .await;
}

/// Who is inside, as readers or as a writer.
#[derive(Debug, Default)]
struct Inside([AtomicUsize; 2]);

impl Inside {
    async fn pass(&self, writes: bool) {
        let [readers, writers] = &self.0;
        [readers, writers][usize::from(writes)].fetch_add(1, Ordering::SeqCst);
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let inside = [readers, writers].map(|inside| inside.load(Ordering::SeqCst));
            assert!(matches!(inside, [_, 0] | [0, 1]), "readers and writers inside: {inside:?}");
        }
        [readers, writers][usize::from(writes)].fetch_sub(1, Ordering::SeqCst);
    }
}

/// Nested guards share the node of the one around. When the connection ends they are lost, and the node stays
/// until all of them have gone or begin anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_guards_that_were_lost_together_are_acquired_anew_beside_another_process() {
    let bed = Bed::shared("anew-nested");
    let (proxy, elsewhere) = (bed.proxy(), bed.session().await);
    let session = bed.session_of_through(T, &proxy).await;
    let busy = bed.busy_while_broken(&[&session, &elsewhere]).await;
    let strict = LockOptions::new().stop_at(StopAt::Suspect);
    for (name, outer_goes) in [("first", true), ("last", false)] {
        let inside = Arc::new(Inside::default());
        let lock = session.rw_lock(name).unwrap().with_options(strict);
        let outer = soon("the one around", lock.write()).await.unwrap();
        let (tell, mut told) = mpsc::unbounded_channel();
        let nested: Vec<_> = [false, true, false]
            .map(|writes| {
                let (within, again) = (lock.clone(), lock.clone());
                let (inside, tell) = (inside.clone(), tell.clone());
                let nested =
                    outer.scope_sync(|| carry(async move { within.read().await.unwrap() }));
                tokio::spawn(async move {
                    let lost = nested.await;
                    tell.send(()).unwrap();
                    lost.lost().await;
                    if writes {
                        let anew = again.write().await.unwrap();
                        inside.pass(true).await;
                        anew.release().await.unwrap();
                    } else {
                        let anew = again.read().await.unwrap();
                        inside.pass(false).await;
                        anew.release().await.unwrap();
                    }
                    drop(lost);
                })
            })
            .into();
        for _ in 0..nested.len() {
            soon("a nested guard", told.recv()).await.unwrap();
        }
        let (rival, beside) = (elsewhere.rw_lock(name).unwrap(), inside.clone());
        let rival = tokio::spawn(async move {
            let guard = rival.write().await.unwrap();
            beside.pass(true).await;
            guard.release().await.unwrap();
        });
        bed.until_nodes(name, 2).await;
        proxy.refuse(true);
        proxy.cut_reset();
        soon("the loss", outer.lost()).await;
        let outer = Some(outer).filter(|_| !outer_goes);
        proxy.refuse(false);
        if outer.is_some() {
            tokio::time::sleep(T / 6).await;
            assert!(!rival.is_finished(), "beside the node of the guard around");
        }
        drop(outer);
        soon("the other process", rival).await.unwrap();
        for nested in nested {
            soon("a guard anew", nested).await.unwrap();
        }
        bed.until_nodes(name, 0).await;
    }
    drop(busy);
    bed.end().await;
}

impl Bed {
    /// The names of so many permits.
    async fn until_permits(&self, permits: &str, count: usize) -> Vec<String> {
        until(&format!("{count} permits"), || {
            let names = self.contenders_by(permits, "");
            (names.len() == count).then_some(names)
        })
        .await
    }
}
