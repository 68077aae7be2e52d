//! Room for a permit, and a connection that breaks at the same moment.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use zklock_core::layout::Kazoo;
use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options, Weather};
use zklock_simulation::executor::{Process, World};
use zklock_simulation::host::Host;

const T: Duration = Duration::from_secs(10);

/// In microseconds.
const SECOND: u64 = 1_000_000;

/// When the only permit is released.
const RELEASED: u64 = 5 * SECOND;

/// When the node of the next one is created, whose connection is `broken` for two seconds, both as times
/// after the release; and whether it was asked for without a connection.
fn created(seed: u64, broken: u64) -> (Option<u64>, bool) {
    let world = World::new(Chooser::random(seed), false);
    let ensemble = Ensemble::new(&world, Options { tick: 2 * SECOND, ..Options::default() });
    let [holder, waiter] = [world.process(), world.process()];
    let open = |process: &Process| {
        let connector = ensemble.connector(process, Connecting::new(T));
        let builder = Session::simulated_builder(connector, Host::of(process));
        builder.tick_time(T / 5).max_connections(1).driver(Kazoo::default()).open().unwrap()
    };
    let (one, other) = (open(&holder), open(&waiter));
    let asleep = world.clone();
    holder.spawn(async move {
        let permit = one.semaphore("printers", 1).unwrap().acquire().await.unwrap();
        asleep.sleep_until(RELEASED).await;
        permit.release().await.unwrap();
        asleep.sleep_until(100 * SECOND).await;
        drop(one);
    });
    let (asleep, at) = (world.clone(), RELEASED + broken);
    waiter.spawn(async move {
        asleep.sleep_until(2 * SECOND).await;
        let permit = other.semaphore("printers", 1).unwrap().acquire().await;
        asleep.sleep_until(100 * SECOND).await;
        drop((permit, other));
    });
    let (network, process) = (ensemble.clone(), waiter.clone());
    world.at(at, move || {
        network.cut_process(&process);
        network.block(&process, 0, true, true);
    });
    let network = ensemble.clone();
    world.at(at + 2 * SECOND, move || network.block(&waiter, 0, false, false));
    while world.now() < at + 4 * SECOND && world.step() {}
    let lives = ensemble.lives();
    let is_next = |path: &str| path.starts_with("/zklock/printers/");
    let next = lives.iter().find(|life| life.born > RELEASED && is_next(&life.path));
    (next.map(|life| life.born - RELEASED), ensemble.asked_while_down())
}

/// It would be made after the reconnect, even if the caller has given up by then.
#[test]
fn no_permit_is_asked_for_while_the_connection_is_down() {
    for seed in 0..40 {
        let asked = created(seed, 10 * SECOND).0.unwrap() - Weather::default().latency;
        for broken in asked - 10..asked + 2 {
            let (created, without) = created(seed, broken);
            assert!(created.is_some() && !without, "{seed}: {broken} µs after the release");
        }
    }
}
