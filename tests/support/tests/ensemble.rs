//! Several servers, and one cut from the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::thread;
use std::time::{Duration, Instant};

use zklock_test_support::{CreateMode, Ensemble, RawClient};

const LONG: Duration = Duration::from_secs(30);

fn connect(ensemble: &Ensemble, index: usize) -> RawClient {
    RawClient::connect(&ensemble.server(index).addr(), LONG).unwrap()
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let limit = Instant::now() + LONG;
    while !check() {
        assert!(Instant::now() < limit, "not in 30 s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// One test, because the servers take seconds to start.
#[test]
fn members_can_be_cut_from_each_other() {
    let ensemble = Ensemble::start(3);
    assert_eq!(ensemble.connect_string().split(',').count(), 3);
    let leader = ensemble.leader();
    assert_eq!(ensemble.followers().len(), 2);
    a_cut_follower_answers_reads_from_the_past(&ensemble, leader);
    let next = a_cut_leader_is_replaced(&ensemble, leader);
    a_killed_leader_is_replaced(&ensemble, next);
}

fn a_cut_follower_answers_reads_from_the_past(ensemble: &Ensemble, leader: usize) {
    let follower = ensemble.followers()[0];
    let mut near_leader = connect(ensemble, leader);
    let mut near_follower = connect(ensemble, follower);
    near_follower.create("/f", b"old", CreateMode::Persistent).unwrap();

    ensemble.isolate(follower);
    let cut_at = Instant::now();
    near_leader.set_data("/f", b"new").unwrap();
    let mut lasted = Duration::ZERO;
    while let Ok(data) = near_follower.data("/f") {
        assert_eq!(data, b"old", "the follower is not cut");
        lasted = cut_at.elapsed();
        assert!(lasted < LONG, "the follower never gives up");
        thread::sleep(Duration::from_millis(20));
    }
    println!("a follower cut from its leader answered reads for {lasted:?}");
    assert!(lasted > Duration::from_secs(1), "only {lasted:?}");
    assert!(ensemble.server(follower).mode().is_none());
    near_leader.set_data("/f", b"newer").unwrap();

    ensemble.heal(follower);
    eventually("the follower joins again", || ensemble.followers().contains(&follower));
    assert_eq!(connect(ensemble, follower).data("/f").unwrap(), b"newer");
}

fn a_cut_leader_is_replaced(ensemble: &Ensemble, leader: usize) -> usize {
    ensemble.isolate(leader);
    let next = ensemble.leader();
    assert_ne!(next, leader);
    connect(ensemble, next).set_data("/f", b"of the next leader").unwrap();
    eventually("the old leader steps down", || ensemble.server(leader).mode().is_none());
    ensemble.heal(leader);
    eventually("the old leader follows", || ensemble.followers().contains(&leader));
    assert_eq!(connect(ensemble, leader).data("/f").unwrap(), b"of the next leader");
    next
}

fn a_killed_leader_is_replaced(ensemble: &Ensemble, leader: usize) {
    ensemble.server(leader).kill();
    let next = ensemble.leader();
    assert_ne!(next, leader);
    connect(ensemble, next).set_data("/f", b"once more").unwrap();
    ensemble.restart(leader);
    eventually("all serve", || ensemble.followers().len() == 2);
    assert_eq!(connect(ensemble, leader).data("/f").unwrap(), b"once more");
}
