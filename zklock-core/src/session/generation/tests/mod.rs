//! Grants while leases are lost.

use super::*;
use crate::base::policy::StopAt;
use crate::coordinator::memory::Embedded;
use crate::coordinator::traits::Connector;
use crate::session::timing::Timing;
use std::thread;

async fn generation() -> Arc<Generation> {
    let timeout = Duration::from_secs(12);
    let timing = Timing::of(timeout, None).unwrap();
    let coordinator = Embedded::new().connector(timeout).connect().await.unwrap();
    let lease = LeaseClock::new(Clock::Caller, timing, Clock::Caller.now());
    Generation::new(
        1,
        coordinator,
        lease,
        Spawner::Inline,
        Events::default(),
        WatchBudget::new(""),
        None,
    )
}

#[tokio::test]
async fn a_grant_between_the_end_of_the_leases_and_their_loss_is_cared_for() {
    let generation = generation().await;
    let before = generation.grantable(StopAt::Lost).unwrap();
    generation.lease().end_epoch();
    let after = generation.grantable(StopAt::Lost).unwrap();
    assert!(generation.hold("/a".into(), "a".into(), 1, before, None).is_none());
    let granted = generation.hold("/b".into(), "b".into(), 2, after, None).unwrap();
    let careful = generation.grantable(StopAt::Suspect).unwrap();
    generation.doubt();
    assert!(generation.hold("/c".into(), "c".into(), 3, careful, None).is_none());
    let held: Vec<_> = generation.held().iter().map(|node| node.path.clone()).collect();
    assert!(held.len() == 1 && held[0] == granted.path, "{held:?}");
}

#[tokio::test]
async fn whatever_is_granted_while_leases_are_lost_is_cared_for_or_lost() {
    let generation = generation().await;
    let other = generation.clone();
    let losing = thread::spawn(move || (0..2_000).for_each(|_| other.lose_leases()));
    let mut number = 0;
    while !losing.is_finished() {
        number += 1;
        let path: Arc<str> = format!("/{number}").into();
        let Some(term) = generation.grantable(StopAt::Lost) else { continue };
        let Some(node) = generation.hold(path.clone(), "a".into(), number, term, None) else {
            continue;
        };
        let cared_for = generation.held().iter().any(|held| held.czxid == number);
        assert!(cared_for || !generation.lease().is_present(term), "{number}");
        generation.unhold(&node);
    }
    losing.join().unwrap();
}
