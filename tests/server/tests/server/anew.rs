//! A task that lost permits and acquires others while it still has the guards of those: its own nodes, which
//! are there until the guards are dropped, do not keep it out.

use std::time::Duration;

use zklock::layout::Kazoo;
use zklock::{LockOptions, Semaphore, SemaphorePermit, Session};

use crate::bed::{Bed, PATIENCE, soon, until};

const T: Duration = Duration::from_secs(6);

fn semaphore(session: &Session, (kazoo, fair): (bool, bool)) -> Semaphore {
    let name = format!("kazoo-{kazoo}-fair-{fair}");
    let options = LockOptions::new().fair(fair).timeout(PATIENCE);
    let semaphore = session.semaphore(name, 2).unwrap().with_options(options);
    if kazoo { semaphore.driver(Kazoo::default()).unwrap() } else { semaphore }
}

const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

type Lost = (Semaphore, [SemaphorePermit; 2]);

async fn held(session: &Session) -> Vec<Lost> {
    let mut held = Vec::new();
    for kind in KINDS {
        let semaphore = semaphore(session, kind);
        let permits = [semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap()];
        held.push((semaphore, permits));
    }
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_all_permits_in_silence_gets_others_at_once() {
    let bed = Bed::shared("anew-silence");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T);
    let session = bed.adopt(builder.connect().await.unwrap());
    let busy = bed.busy(&[&session]).await;
    let held = held(&session).await;
    proxy.black_hole(true);
    for (_, permits) in &held {
        soon("the losses", async { tokio::join!(permits[0].lost(), permits[1].lost()) }).await;
    }
    proxy.heal();
    until("it is connected", || session.is_ready().then_some(())).await;
    for (semaphore, lost) in held {
        let mut anew = vec![soon("a permit", semaphore.acquire()).await.unwrap()];
        drop(lost);
        anew.push(soon("the other one", semaphore.acquire()).await.unwrap());
        assert!(anew.iter().all(|permit| permit.is_valid()), "{semaphore:?}");
        let busy = semaphore.try_acquire().await;
        assert!(busy.is_err_and(|error| error.is_busy()), "{semaphore:?}");
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_one_of_several_permits_gets_as_many_at_once() {
    let bed = Bed::shared("anew-deleted");
    let session = bed.session_of(T).await;
    let busy = bed.busy(&[&session]).await;
    for fair in [false, true] {
        let semaphore = session.semaphore(format!("fair-{fair}"), 3).unwrap();
        let semaphore = semaphore.with_options(LockOptions::new().fair(fair).timeout(PATIENCE));
        let leases = format!("fair-{fair}/leases");
        for deleted in [0, 1] {
            let other = semaphore.acquire().await.unwrap();
            let lost = semaphore.acquire_many(2).await.unwrap();
            let mut nodes = bed.until_leases(&leases, 3).await;
            nodes.retain(|node| !other.path().ends_with(node));
            bed.delete(&format!("{}/{}", bed.path(&leases), nodes[deleted]));
            soon("the loss", lost.lost()).await;
            let anew = soon("as many", semaphore.acquire_many(2)).await.unwrap();
            drop(lost);
            assert!(anew.is_valid() && other.is_valid(), "fair: {fair}");
            bed.until_leases(&leases, 3).await;
            anew.release().await.unwrap();
            other.release().await.unwrap();
        }
    }
    drop(busy);
    bed.end().await;
}

impl Bed {
    /// The names of so many permits.
    async fn until_leases(&self, leases: &str, count: usize) -> Vec<String> {
        until(&format!("{count} permits"), || {
            let names = self.contenders_by(leases, "lease-");
            (names.len() == count).then_some(names)
        })
        .await
    }
}
