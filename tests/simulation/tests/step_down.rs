//! A writer that becomes a reader: just after a standstill, while its connection is down, and shortly before
//! somebody deletes its node.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, mpsc};
use std::time::Duration;

use zklock_core::coordinator::operation::Operation;
use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options};
use zklock_simulation::executor::{Process, World};
use zklock_simulation::host::Host;

const T: Duration = Duration::from_secs(10);

/// An ensemble, and a process with a session there.
fn start() -> (Arc<World>, Ensemble, Process, Session) {
    let world = World::new(Chooser::random(1), false);
    let ensemble = Ensemble::new(&world, Options { tick: 2_000_000, ..Options::default() });
    let process = world.process();
    let connector = ensemble.connector(&process, Connecting::new(T));
    let session = Session::simulated_builder(connector, Host::of(&process));
    let session = session.tick_time(T / 5).open().unwrap();
    (world, ensemble, process, session)
}

/// For half a tick, its commits prove too little for a grant. It needs none.
#[test]
fn who_downgrades_just_after_a_standstill_asks_few_times() {
    let (world, ensemble, process, session) = start();
    let (tell, told) = mpsc::channel();
    let (asleep, counting) = (world.clone(), ensemble.clone());
    process.spawn(async move {
        let writing = session.rw_lock("orders").unwrap().write().await.unwrap();
        asleep.sleep_until(20_000_000).await;
        let before = counting.requests();
        let reading = writing.downgrade().await.unwrap();
        tell.send((counting.requests() - before, asleep.now(), reading.is_valid())).unwrap();
    });
    let (stops, goes_on) = (process.clone(), process.clone());
    world.at(19_900_000, move || stops.pause());
    world.at(25_000_000, move || goes_on.resume());
    while world.now() < 40_000_000 && world.step() {}
    let (requests, at, is_valid) = told.try_recv().unwrap();
    assert!(requests < 20 && at < 25_100_000 && is_valid, "{requests} at {at}");
}

/// It would be made after the reconnect, when its caller has been told that the lock is lost.
#[test]
fn who_downgrades_asks_for_no_node_while_the_connection_is_down() {
    const SILENT: u64 = 20_000_000;
    for (until, in_time) in [(SILENT + 5_000_000, true), (SILENT + 9_000_000, false)] {
        let (world, ensemble, process, session) = start();
        let (tell, told) = mpsc::channel();
        let (asleep, network) = (world.clone(), ensemble.clone());
        process.spawn(async move {
            let writing = session.rw_lock("orders").unwrap().write().await.unwrap();
            let owner = network.sessions()[0];
            while !network.is_down(owner) {
                asleep.sleep_until(asleep.now() + 10_000).await;
            }
            let is_reader = writing.downgrade().await.is_ok();
            tell.send((is_reader, asleep.now())).unwrap();
            asleep.sleep_until(40_000_000).await;
            drop(session);
        });
        for (at, silent) in [(SILENT, true), (until, false)] {
            let (network, process) = (ensemble.clone(), process.clone());
            world.at(at, move || network.block(&process, 0, silent, silent));
        }
        while world.now() < 40_000_000 && world.step() {}
        let (is_reader, at) = told.try_recv().unwrap();
        assert_eq!((is_reader, at < SILENT + 9_000_000), (in_time, true), "{at}");
        assert!(!ensemble.asked_while_down());
        let made = ensemble.lives().iter().any(|life| life.path.contains("__READ__"));
        assert_eq!(made, in_time);
    }
}

/// How long it wrote counts as well, whenever between two heartbeats that was.
#[test]
fn who_wrote_and_read_for_longer_than_a_quarter_of_the_session_timeout_is_told_of_a_deletion_at_once()
 {
    let (world, ensemble, process, session) = start();
    let (tell, told) = mpsc::channel();
    let asleep = world.clone();
    process.spawn(async move {
        let _always = session.mutex("always").unwrap().acquire().await.unwrap();
        let lock = session.rw_lock("orders").unwrap();
        for (phase, part) in (0..10).flat_map(|phase| (0..5).map(move |part| (phase, part))) {
            asleep.sleep_until(asleep.now() + 1_700_000 + phase * 170_000).await;
            let writing = lock.write().await.unwrap();
            let granted = asleep.now();
            asleep.sleep_until(granted + part * 500_000).await;
            let reading = writing.downgrade().await.unwrap();
            asleep.sleep_until(granted + 2_550_000).await;
            let deleted = asleep.now();
            ensemble.outsider(Operation::Delete { path: reading.node_path().to_owned() });
            reading.lost().await;
            tell.send((phase, part, asleep.now() - deleted)).unwrap();
        }
    });
    while world.now() < 600_000_000 && world.step() {}
    let took: Vec<_> = told.try_iter().collect();
    let late: Vec<_> = took.iter().filter(|(_, _, took)| *took > 20_000).collect();
    assert!(took.len() == 50 && late.is_empty(), "{} times, late: {late:?}", took.len());
}
