//! A network that is silent for a while, and then delivers all that was sent meanwhile at once.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options};
use zklock_simulation::executor::{Process, World};
use zklock_simulation::host::Host;

const T: Duration = Duration::from_secs(10);
const TICK: u64 = 400_000;

/// How long it is silent: nearly for as long as a client stays that knows one server.
const SILENT: u64 = 2_500_000;

fn session(ensemble: &Ensemble, process: &Process, server: usize) -> Session {
    let mut connecting = Connecting::new(T);
    connecting.servers = vec![server];
    let connector = ensemble.connector(process, connecting);
    let session = Session::simulated_builder(connector, Host::of(process));
    session.tick_time(Duration::from_micros(TICK)).open().unwrap()
}

/// The server of the holder delivers late, and is cut off from its leader so long after that it has not yet told it
/// of the session. Meanwhile it answers commits. Returns until when the lock is held, and when it is granted to
/// another process.
fn round(begins: u64, parted: u64) -> (u64, u64) {
    let world = World::new(Chooser::random(1), false);
    let options = Options { servers: 3, tick: TICK, ..Options::default() };
    let ensemble = Ensemble::new(&world, options);
    let [holder, other] = [(); 2].map(|()| world.process());
    let leader = ensemble.leader().unwrap();
    let [follower, last] = [1, 2].map(|next| (leader + next) % 3);
    let [held, granted] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let here = session(&ensemble, &holder, follower);
    let (asleep, busy) = (world.clone(), here.clone());
    holder.spawn(async move {
        loop {
            let _ = busy.mutex("items").unwrap().try_acquire().await;
            asleep.sleep_until(asleep.now() + 20_000).await;
        }
    });
    let (asleep, until) = (world.clone(), held.clone());
    holder.spawn(async move {
        let guard = here.mutex("orders").unwrap().acquire().await.unwrap();
        while guard.is_valid() {
            until.store(asleep.now(), Ordering::Relaxed);
            asleep.sleep_until(asleep.now() + 1_000).await;
        }
        asleep.sleep_until(60_000_000).await;
    });
    let (asleep, at, there) = (world.clone(), granted.clone(), session(&ensemble, &other, last));
    other.spawn(async move {
        asleep.sleep_until(5_000_000).await;
        let _guard = there.mutex("orders").unwrap().acquire().await.unwrap();
        at.store(asleep.now(), Ordering::Relaxed);
        asleep.sleep_until(60_000_000).await;
    });
    for (at, silent) in [(begins, true), (begins + SILENT, false)] {
        let (network, process) = (ensemble.clone(), holder.clone());
        world.at(at, move || network.block(&process, follower, silent, silent));
    }
    let network = ensemble.clone();
    world.at(begins + SILENT + parted, move || {
        network.part(leader, follower, true);
        network.part(follower, leader, true);
    });
    while world.now() < 40_000_000 && world.step() {}
    (held.load(Ordering::Relaxed), granted.load(Ordering::Relaxed))
}

#[test]
fn a_commit_that_is_delivered_late_holds_no_lock_longer_than_its_leader_knows_of_the_session() {
    let (mut most, mut rounds) = (0, 0);
    for begins in (10_000_000..10_000_000 + TICK).step_by(TICK as usize / 5) {
        for parted in [2_000, TICK / 4, TICK / 2 - 5_000] {
            let (until, granted) = round(begins, parted);
            assert!(granted > 0, "begins at {begins}, parted after {parted}: nobody is granted it");
            assert!(
                until < granted,
                "begins at {begins}, parted after {parted}: {until}, {granted}"
            );
            // But for half a tick, each message counts.
            assert!(
                until - begins >= 9_000_000,
                "lost {} µs after the last message",
                until - begins
            );
            most = most.max(until - begins);
            rounds += 1;
        }
    }
    assert_eq!(rounds, 15);
    assert!(
        most >= 9_800_000,
        "the lock was lost long before that: {most} µs after the last message"
    );
}
