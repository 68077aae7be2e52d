//! What is left of several connections of a session.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options};
use zklock_simulation::executor::World;
use zklock_simulation::host::Host;

const T: Duration = Duration::from_secs(4);

/// More acquires at a time than one connection is used for.
const MANY: usize = 12;

#[test]
fn after_a_close_no_task_watches_over_the_other_connections() {
    let world = World::new(Chooser::random(0), false);
    let ensemble = Ensemble::new(&world, Options::default());
    let process = world.process();
    let connector = ensemble.connector(&process, Connecting::new(T));
    let session = Session::simulated_builder(connector, Host::of(&process)).open().unwrap();
    let (asleep, sessions, its) = (world.clone(), ensemble.clone(), process.clone());
    let mut states = session.states();
    process.spawn(async move {
        asleep.sleep_until(100_000).await;
        for number in 0..MANY {
            let lock = session.mutex(format!("orders/{number}")).unwrap();
            its.spawn(async move { drop(lock.acquire().await.unwrap()) });
        }
        asleep.sleep_until(1_000_000).await;
        assert!(sessions.sessions_of(&its).len() > 1, "one connection is enough");
        session.close().await;
        drop(session);
        // Of each state it is told, and then of the end.
        while states.next().await.is_some() {}
    });
    while world.now() < 3_000_000 && world.step() {}
    assert_eq!((ensemble.sessions().len(), world.panics()), (0, 0));
    assert_eq!(process.task_names(), [""; 0]);
}
