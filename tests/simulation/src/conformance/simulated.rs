//! Scripts on the simulated ensemble.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zklock_core::coordinator::requests::Coordinator;

use super::bed::{Bed, SLOTS, Work};
use super::play::play;
use super::report::Report;
use super::script::{Class, Script};
use crate::chooser::Chooser;
use crate::ensemble::{Access, Connecting, Ensemble, Options, Weather};
use crate::executor::{Process, World};

const TIMEOUT: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(4);
const REAP: u64 = 100_000;

/// A simulated ensemble for one script.
#[derive(Debug)]
pub struct Simulated {
    world: Arc<World>,
    ensemble: Ensemble,
    /// The process of each slot; every session has a way of its own.
    processes: Mutex<BTreeMap<usize, Process>>,
    servers: Mutex<[usize; SLOTS]>,
}

impl Simulated {
    /// Runs a script on so many servers, as a seed decides.
    ///
    /// # Panics
    ///
    /// When it does not come to an end.
    #[allow(clippy::panic)]
    pub fn run(script: &Script, servers: usize, seed: u64) -> Report {
        let world = World::new(Chooser::random(seed), false);
        let weather = Weather { steps: 3, lag: 6, disk: 3, ..Weather::default() };
        let reap_every = if script.class == Class::Reaping { REAP } else { u64::MAX / 4 };
        let options = Options { servers, weather, reap_every, ..Options::default() };
        let ensemble = Ensemble::new(&world, options);
        let bed = Simulated {
            world: world.clone(),
            ensemble,
            processes: Mutex::default(),
            servers: Mutex::new([0, 1 % servers, 2 % servers]),
        };
        let (result, script) = (Arc::new(Mutex::new(None)), script.clone());
        let slot = result.clone();
        world.process().spawn(async move {
            let report = play(&script, &bed).await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        });
        let end = 3_600_000_000;
        loop {
            let done = result.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(report) = done {
                world.end();
                return report;
            }
            if !world.step() || world.now() > end || world.panics() > 0 {
                panic!("the script does not end in the simulation");
            }
        }
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<usize, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self, slot: usize) -> Process {
        self.processes().entry(slot).or_insert_with(|| self.world.process()).clone()
    }

    fn block(&self, slot: usize, to_server: bool, to_client: bool) {
        let process = self.process(slot);
        for server in 0..self.ensemble.size() {
            self.ensemble.block(&process, server, to_server, to_client);
        }
    }

    async fn rest(&self, micros: u64) {
        self.world.sleep_until(self.world.now() + micros).await;
    }

    fn server(&self, slot: usize) -> usize {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)[slot]
    }
}

impl Bed for Simulated {
    fn open(&self, slot: usize, access: Access, short: bool) -> Work<'_, Arc<dyn Coordinator>> {
        Box::pin(async move {
            let timeout = if short { SHORT } else { TIMEOUT };
            let process = self.process(slot);
            let credentials = (access != Access::Open).then_some(1);
            let servers = vec![self.server(slot)];
            let connecting =
                Connecting { servers, credentials, access, ..Connecting::new(timeout) };
            loop {
                let connector = self.ensemble.connector(&process, connecting.clone());
                if let Ok(session) = connector.connect().await {
                    return session;
                }
            }
        })
    }

    fn silence(&self, slot: usize, to_server: bool) -> Work<'_> {
        self.block(slot, to_server, !to_server);
        Box::pin(async {})
    }

    fn lost(&self, _slot: usize, _requests: usize) -> Work<'_> {
        Box::pin(self.rest(5_000))
    }

    fn pause(&self, slot: usize, to_server: bool, to_client: bool) -> Work<'_> {
        self.block(slot, to_server, to_client);
        Box::pin(async {})
    }

    fn resume(&self, slot: usize) -> Work<'_> {
        self.block(slot, false, false);
        Box::pin(async {})
    }

    fn cut(&self, slot: usize) -> Work<'_> {
        self.ensemble.cut_process(&self.process(slot));
        self.block(slot, true, true);
        Box::pin(async {})
    }

    fn heal(&self, slot: usize, server: usize) -> Work<'_> {
        let server = server % self.ensemble.size();
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)[slot] = server;
        self.ensemble.reroute(&self.process(slot), server);
        self.block(slot, false, false);
        Box::pin(async {})
    }

    /// As on a real server: the session is taken over and closed, so that its own watches, which
    /// are those of its connection, do not see its end.
    fn expire(&self, slot: usize, session: i64) -> Work<'_> {
        self.ensemble.cut_process(&self.process(slot));
        self.block(slot, true, true);
        self.ensemble.expire(session);
        Box::pin(async move {
            self.rest(50_000).await;
            self.block(slot, false, false);
        })
    }

    fn outlive(&self) -> Work<'_> {
        Box::pin(self.rest(SHORT.as_micros() as u64 + 700_000))
    }

    fn reap(&self) -> Work<'_> {
        // One beneath another goes an interval later.
        Box::pin(self.rest(REAP * 4))
    }

    fn root(&self, full: bool) -> Work<'_, String> {
        self.ensemble.prepare("/root");
        Box::pin(async move {
            self.rest(50_000).await;
            if full {
                self.ensemble.set_sequence("/root", i32::MAX - 2);
            }
            "/root".to_owned()
        })
    }
}
