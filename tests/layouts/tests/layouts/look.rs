//! Looking at a lock while connections break.

use std::time::{Duration, Instant};

use zklock::{LockEvent, LockOptions};
use zklock_test_support::{Control, RawClient};

use crate::bed::{Bed, acquiring, soon, until};

fn told(event: Option<LockEvent>) -> (&'static str, String) {
    match event {
        Some(LockEvent::Joined(one)) => ("joined", one.node),
        Some(LockEvent::Granted(one)) => ("granted", one.node),
        Some(LockEvent::Left(one)) => ("left", one.node),
        Some(LockEvent::Lost(one)) => ("lost", one.node),
        Some(LockEvent::Blind) => ("blind", String::new()),
        _ => ("end", String::new()),
    }
}

fn node(path: &str) -> String {
    path.rsplit('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn events_go_on_after_a_cut() {
    let bed = Bed::shared("events-cut");
    let proxy = bed.proxy();
    let watcher = bed.session_through(&proxy).await;
    let session = bed.session().await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let mut events = watcher.site("a").unwrap().events();
    assert_eq!(told(events.next().await), ("joined", node(guard.node_path())));
    assert_eq!(told(events.next().await), ("granted", node(guard.node_path())));
    proxy.refuse(true);
    proxy.cut_reset();
    assert_eq!(told(soon("the cut", events.next()).await).0, "blind");
    let gone = node(guard.node_path());
    guard.release().await.unwrap();
    let next = session.mutex("a").unwrap().acquire().await.unwrap();
    proxy.refuse(false);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(told(soon("what happened meanwhile", events.next()).await));
    }
    let next_node = node(next.node_path());
    assert_eq!(seen, [("left", gone), ("joined", next_node.clone()), ("granted", next_node)]);
    next.release().await.unwrap();
    assert_eq!(told(soon("the release", events.next()).await).0, "left");
    drop(events);
    bed.end().await;
}

#[tokio::test]
async fn events_go_on_in_a_new_session_and_tell_what_was_lost() {
    let bed = Bed::shared("events-expired");
    let proxy = bed.proxy();
    let session = bed.session_through(&proxy).await;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let mut events = session.site("a").unwrap().events();
    assert_eq!(told(events.next().await).0, "joined");
    assert_eq!(told(events.next().await).0, "granted");
    let gone = node(guard.node_path());
    let id = session.zookeeper_session().unwrap().id;
    proxy.refuse(true);
    proxy.expire_session(id);
    proxy.refuse(false);
    let lost = loop {
        match told(soon("the loss", events.next()).await) {
            ("blind", _) => {}
            other => break other,
        }
    };
    assert_eq!(lost, ("lost", gone));
    drop(guard);
    let next = soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap();
    assert_eq!(told(soon("the new one", events.next()).await), ("joined", node(next.node_path())));
    next.release().await.unwrap();
    drop(events);
    bed.end().await;
}

#[tokio::test]
async fn a_revocable_holder_hears_at_once_and_others_within_a_heartbeat() {
    let bed = Bed::shared("revoked");
    let other = bed.session().await;
    for (revocable, promised) in [(true, Duration::ZERO), (false, Duration::from_secs(1))] {
        let builder = bed.builder().session_timeout(Duration::from_secs(6));
        let builder = builder.defaults(LockOptions::default().revocable(revocable));
        let session = bed.adopt(builder.connect().await.unwrap());
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        if revocable {
            until("the own node is watched", || (bed.watched().len() == 1).then_some(())).await;
        }
        assert!(!guard.is_revoked());
        let control = Control::of(bed.server());
        assert_eq!(other.site("a").unwrap().revoke().await.unwrap(), 1);
        let start = Instant::now();
        soon("the wish", guard.revoked()).await;
        control.within("the wish", start.elapsed(), promised);
        assert!(guard.is_revoked() && guard.is_valid());
        // It says who it is again, and is still waited for.
        let waiting = acquiring(&other, "a");
        bed.until_contenders("a", 2).await;
        let asked = loop {
            let queue = other.site("a").unwrap().contenders().await.unwrap();
            assert!(queue[0].holds);
            if queue[0].owner.pid.is_some() {
                break queue[0].owner.revoked;
            }
        };
        assert!(asked, "it does not say that it was asked");
        guard.release().await.unwrap();
        soon("the next", waiting).await.unwrap().release().await.unwrap();
    }
    bed.end().await;
}

#[tokio::test]
async fn contenders_of_thousands_are_listed_in_order() {
    const COUNT: usize = 1_000;
    let bed = Bed::shared("many");
    let session = bed.session().await;
    // While it is held: an empty directory may be reaped at any moment.
    let first = session.mutex("a").unwrap().acquire().await.unwrap();
    let mut raw: RawClient = bed.raw();
    let path = bed.path("a/lock-");
    for _ in 0..COUNT {
        raw.create(&path, b"10.0.0.7", zklock_test_support::CreateMode::EphemeralSequential)
            .unwrap();
    }
    first.release().await.unwrap();
    let queue = session.site("a").unwrap().contenders().await.unwrap();
    assert_eq!(queue.len(), COUNT);
    assert!(queue.windows(2).all(|pair| pair[0].node < pair[1].node));
    assert_eq!(queue.iter().filter(|one| one.holds).count(), 1);
    raw.close().unwrap();
    bed.end().await;
}
