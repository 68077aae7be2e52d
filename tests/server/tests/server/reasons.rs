//! The reason of a loss, as an observer is told it: each that `docs/failures.md` names, as the client library and
//! a server make it known.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zklock::{Event, LockOptions, LossReason, Observer, Session, StopAt};
use zklock_test_support::Proxy;

use crate::bed::{Bed, until};
use crate::kinds::{KINDS, Kind, all, lost};

const T: Duration = Duration::from_secs(6);

/// The locks that were lost, and why.
#[derive(Debug, Default)]
struct Losses(Mutex<Vec<(String, LossReason)>>);

impl Observer for Losses {
    fn event(&self, event: &Event) {
        if let Event::Lost { lock, reason, .. } = event {
            self.0.lock().unwrap().push((lock.to_string(), *reason));
        }
    }
}

impl Losses {
    /// Locks of these kinds are lost, and no lock for any other reason.
    async fn are_for(&self, reason: LossReason, kinds: &[Kind]) {
        for kind in kinds {
            until(&format!("{kind:?} is lost, {reason:?}"), || {
                let told = self.0.lock().unwrap();
                told.iter().any(|(lock, _)| lock.starts_with(kind.name())).then_some(())
            })
            .await;
        }
        let told = std::mem::take(&mut *self.0.lock().unwrap());
        assert!(told.iter().all(|(_, its)| *its == reason), "{reason:?}: {told:?}");
    }
}

/// A session whose losses are told. All of its locks are in one ZooKeeper session.
async fn observed(bed: &Bed, proxy: &Proxy) -> (Session, Arc<Losses>) {
    let losses = Arc::new(Losses::default());
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(1);
    let session = bed.adopt(builder.observer(losses.clone()).connect().await.unwrap());
    (session, losses)
}

#[tokio::test]
async fn an_observer_is_told_why_a_lock_is_lost() {
    let bed = Bed::shared("reasons");
    let proxy = bed.proxy();
    for reason in
        [LossReason::Deleted, LossReason::SessionEnded, LossReason::Silence, LossReason::Suspect]
    {
        let (session, losses) = observed(&bed, &proxy).await;
        let stop_at = if reason == LossReason::Suspect { StopAt::Suspect } else { StopAt::Lost };
        let all = all(&session, LockOptions::default().stop_at(stop_at)).await;
        match reason {
            LossReason::Deleted => all.iter().for_each(|(_, held)| bed.delete(held.node_path())),
            LossReason::SessionEnded => {
                proxy.expire_session(session.zookeeper_session().unwrap().id);
            }
            LossReason::Silence => proxy.black_hole(true),
            _ => {
                proxy.refuse(true);
                proxy.cut_reset();
            }
        }
        for (kind, held) in &all {
            lost(*kind, held, Instant::now()).await;
        }
        losses.are_for(reason, &KINDS).await;
        proxy.heal();
        until("it is connected", || session.is_ready().then_some(())).await;
    }
    bed.end().await;
}

/// Another session of this process breaks it as another process does.
#[tokio::test]
async fn who_breaks_a_lock_that_it_holds_is_told_so_and_who_is_broken_of_a_deletion() {
    let bed = Bed::shared("reasons-broken");
    let proxy = bed.proxy();
    let (session, losses) = observed(&bed, &proxy).await;
    let other = bed.session().await;
    let kinds = [Kind::Mutex, Kind::Read, Kind::Write];
    for (breaks, reason) in [(&session, LossReason::Broken), (&other, LossReason::Deleted)] {
        for kind in kinds {
            let held = kind.acquire(&session).await;
            let site = breaks.site(kind.name()).unwrap();
            let [holder] = &site.contenders().await.unwrap()[..] else { panic!("one holds it") };
            assert!(site.break_holder(holder).await.unwrap());
            lost(kind, &held, Instant::now()).await;
        }
        losses.are_for(reason, &kinds).await;
    }
    bed.end().await;
}
