//! A leader that its followers do not hear for a while, although it hears them.

#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::Duration;

use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options};
use zklock_simulation::executor::World;
use zklock_simulation::host::Host;

const T: Duration = Duration::from_secs(4);
const TICK: u64 = 400_000;

/// When the followers hear nothing more, and when they hear everything.
const DEAF: (u64, u64) = (10_000_000, 14_700_000);

/// Its sessions are not touched then, and end; and a creation from before that end is answered when the
/// network is back, before anything else is.
#[test]
fn a_lock_is_not_granted_on_the_answer_to_a_creation_from_before_the_end_of_its_session() {
    let (mut ended, mut granted) = (0, 0);
    for asks in (13_000_000..DEAF.1 + 100_000).step_by(50_000) {
        let world = World::new(Chooser::random(1), false);
        let options = Options { servers: 3, tick: TICK, sync_limit: 20, ..Options::default() };
        let ensemble = Ensemble::new(&world, options);
        let process = world.process();
        let connector = ensemble.connector(&process, Connecting::new(T));
        let session = Session::simulated_builder(connector, Host::of(&process));
        let session = session.tick_time(Duration::from_micros(TICK)).open().unwrap();
        let (tell, told) = mpsc::channel();
        let (asleep, judge) = (world.clone(), ensemble.clone());
        process.spawn(async move {
            let mutex = session.mutex("orders").unwrap();
            mutex.acquire().await.unwrap().release().await.unwrap();
            asleep.sleep_until(asks).await;
            let guard = mutex.acquire().await.unwrap();
            let czxid = guard.fencing_token().czxid() as i64;
            let life = judge.life(guard.node_path(), Some(czxid)).unwrap();
            tell.send((guard.is_valid(), life.gone)).unwrap();
        });
        for (at, silent) in [(DEAF.0, true), (DEAF.1, false)] {
            let network = ensemble.clone();
            world.at(at, move || {
                let leader = network.leader().unwrap();
                for other in (0..3).filter(|other| *other != leader) {
                    network.part(leader, other, silent);
                }
            });
        }
        while world.now() < 30_000_000 && world.step() {}
        let (valid, gone) = told.try_recv().unwrap();
        assert!(!valid || gone.is_none(), "asked at {asks} µs: its node has gone at {gone:?}");
        granted += u32::from(valid);
        ended += u32::from(ensemble.lives().iter().any(|life| {
            matches!(life.gone, Some((_, zklock_simulation::ensemble::Gone::SessionEnded)))
        }));
    }
    assert!(granted > 0 && ended > 0, "{granted} {ended}");
}
