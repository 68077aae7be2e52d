//! A semaphore of kazoo's that is new, and two processes with two limits.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use zklock_core::layout::Kazoo;
use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options, Weather};
use zklock_simulation::executor::World;
use zklock_simulation::host::Host;

const T: Duration = Duration::from_secs(10);

/// In microseconds.
const SECOND: u64 = 1_000_000;

/// Two processes use a semaphore of kazoo's for the first time, at the same time and with two limits.
fn who_enters(seed: u64) -> usize {
    let world = World::new(Chooser::random(seed), false);
    let weather = Weather { steps: 8, ..Weather::default() };
    let options = Options { tick: 2 * SECOND, weather, ..Options::default() };
    let ensemble = Ensemble::new(&world, options);
    // As the first acquire of any kind leaves it, or kazoo between creating and writing.
    ensemble.prepare("/zklock");
    ensemble.prepare("/zklock/printers");
    for limit in [2, 3] {
        let (process, asleep) = (world.process(), world.clone());
        let connector = ensemble.connector(&process, Connecting::new(T));
        let session = Session::simulated_builder(connector, Host::of(&process));
        let session = session.tick_time(T / 5).driver(Kazoo::default()).open().unwrap();
        process.spawn(async move {
            let printers = session.semaphore("printers", limit).unwrap();
            let permit = printers.acquire().await;
            asleep.sleep_until(100 * SECOND).await;
            drop((permit, session));
        });
    }
    while world.now() < 5 * SECOND && world.step() {}
    ensemble.nodes("/zklock/printers/").len()
}

#[test]
fn a_semaphore_of_kazoo_that_is_new_is_used_with_one_limit() {
    assert_eq!((0..300).filter(|seed| who_enters(*seed) != 1).collect::<Vec<_>>(), [0; 0]);
}
