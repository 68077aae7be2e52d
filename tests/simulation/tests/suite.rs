//! The conformance suite of the coordinators on the simulated ensemble, of one server and of three.
//! The suite waits in real time, so the world is not let run ahead of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zklock_conformance::{Harness, Step};
use zklock_core::coordinator::requests::{Coordinator, Reply};
use zklock_simulation::chooser::Chooser;
use zklock_simulation::ensemble::{Connecting, Ensemble, Options, Weather};
use zklock_simulation::executor::{Process, World};

struct Simulated {
    world: Arc<World>,
    ensemble: Ensemble,
    processes: Arc<Mutex<HashMap<i64, Process>>>,
}

fn simulated(servers: usize) -> Arc<dyn Harness> {
    let world = World::new(Chooser::random(servers as u64), false);
    let weather = Weather { steps: 3, lag: 10, disk: 2, ..Weather::default() };
    let reap_every = 100_000;
    let options = Options { servers, reap_every, weather, ..Options::default() };
    let ensemble = Ensemble::new(&world, options);
    beat(&world);
    let weak = Arc::downgrade(&world);
    thread::spawn(move || {
        let start = Instant::now();
        while let Some(world) = weak.upgrade() {
            let ahead = Duration::from_micros(world.now()).saturating_sub(start.elapsed());
            thread::sleep(ahead);
            if !world.step() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    });
    Arc::new(Simulated { world, ensemble, processes: Arc::default() })
}

/// Keeps the world from jumping far ahead of the time that really passes.
fn beat(world: &Arc<World>) {
    let next = world.clone();
    world.at(world.now() + 500, move || beat(&next));
}

impl Simulated {
    fn act(&self, session: i64, f: impl FnOnce(&Ensemble, &Process) + Send + 'static) -> Step<'_> {
        let process = self.processes.lock().unwrap()[&session].clone();
        Box::pin(async move { f(&self.ensemble, &process) })
    }
}

fn block(ensemble: &Ensemble, process: &Process, to_server: bool, to_client: bool) {
    for server in 0..ensemble.size() {
        ensemble.block(process, server, to_server, to_client);
    }
}

impl Harness for Simulated {
    fn open(&self) -> Reply<Arc<dyn Coordinator>> {
        let process = self.world.process();
        let mut connecting = Connecting::new(Duration::from_secs(10));
        // Of several servers one, lest a session does not see what another one did. It follows.
        connecting.servers = vec![0];
        let opened = self.ensemble.connector(&process, connecting).connect();
        let processes = self.processes.clone();
        Box::pin(async move {
            let session = opened.await?;
            processes.lock().unwrap().insert(session.session_id(), process);
            Ok(session)
        })
    }

    fn expire(&self, session: i64) -> Step<'_> {
        self.act(session, move |ensemble, _| ensemble.expire(session))
    }

    fn stall(&self, session: i64) -> Step<'_> {
        self.act(session, |ensemble, process| block(ensemble, process, true, false))
    }

    fn disconnect(&self, session: i64) -> Step<'_> {
        self.act(session, move |ensemble, process| {
            ensemble.cut(session, false);
            block(ensemble, process, true, true);
        })
    }

    fn reconnect(&self, session: i64) -> Step<'_> {
        self.act(session, |ensemble, process| block(ensemble, process, false, false))
    }

    fn reaped_within(&self) -> Duration {
        Duration::from_millis(250)
    }
}

mod alone {
    zklock_conformance::conformance_tests!(super::simulated(1));
}

mod three {
    zklock_conformance::conformance_tests!(super::simulated(3));
}
