//! What `release` says where no answer arrives: its node is gone by then.

#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::time::Duration;

use zklock_core::layout::OneNode;
use zklock_core::session::Session;
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options};
use zklock_simulation::executor::World;
use zklock_simulation::host::Host;

/// In microseconds: the session timeout, and the tick of the servers.
const T: u64 = 4_000_000;
const TICK: u64 = 400_000;

/// What a few steps of the simulation take, whose timers count in milliseconds.
const STEPS: u64 = 2_000;

/// When the network falls silent.
const SILENT: u64 = 2 * T;

/// Releases a lock at `at` behind a network of which requests or answers do not arrive. Returns how long
/// that took, and for how much longer the node was there.
fn release_takes(servers: usize, one_node: bool, requests: bool, at: u64) -> (u64, Option<u64>) {
    let world = World::new(Chooser::random(at), false);
    let options = Options { servers, tick: TICK, sync_limit: 20, ..Options::default() };
    let ensemble = Ensemble::new(&world, options);
    let process = world.process();
    let connector = ensemble.connector(&process, Connecting::new(Duration::from_micros(T)));
    let builder = Session::simulated_builder(connector, Host::of(&process));
    let builder = builder.tick_time(Duration::from_micros(TICK)).max_connections(1);
    let builder = if one_node { builder.driver(OneNode) } else { builder };
    let session = builder.open().unwrap();
    let (tell, told) = mpsc::channel();
    let asleep = world.clone();
    process.spawn(async move {
        let guard = session.mutex("orders").unwrap().acquire().await.unwrap();
        let node = (guard.path().to_owned(), guard.fencing_token().czxid() as i64);
        asleep.sleep_until(at).await;
        // A lock that was lost is released all the same.
        drop(guard.release().await);
        tell.send((node, asleep.now())).unwrap();
        // The servers end the session, and not this.
        asleep.sleep_until(at + 10 * T).await;
        drop(session);
    });
    let network = ensemble.clone();
    world.at(SILENT, move || {
        (0..servers).for_each(|server| network.block(&process, server, requests, true));
    });
    while world.now() < at + 5 * T && world.step() {}
    let ((path, czxid), back) = told.try_recv().unwrap();
    let gone = ensemble.life(&path, Some(czxid)).unwrap().gone.unwrap().0;
    (back - at, gone.checked_sub(back).filter(|later| *later > 0))
}

#[test]
fn a_release_that_nobody_answers_comes_back_when_the_node_is_gone_and_not_long_after() {
    for servers in [1, 3] {
        for (one_node, requests) in [(false, false), (false, true), (true, false), (true, true)] {
            for at in (SILENT - 1_000..SILENT + T / 2).step_by(30_011) {
                let (took, later) = release_takes(servers, one_node, requests, at);
                let how = format!(
                    "{servers} servers, one node: {one_node}, requests lost: {requests}, {at}"
                );
                assert_eq!(later, None, "{how}: the node was there");
                // What is looked at before it is deleted may never be sent its deletion.
                let gives_up = if one_node { T / 2 } else { 0 };
                assert!(took <= T + 2 * TICK + gives_up + STEPS, "{how}: {took} µs");
            }
        }
    }
}
