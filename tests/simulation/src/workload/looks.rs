//! Looking at locks, again and again, while single connections get no session.

use std::sync::Arc;

use zklock_core::session::Session;

use super::task::{Count, Crew, Task};
use crate::executor::Process;
use crate::rules;

/// How long a look takes at most that goes by a connection which is served, in microseconds: nothing is struck.
const LOOKED: u64 = 1_000_000;

/// How long a client knows what has befallen its connection.
const KNOWN: u64 = 200_000;

/// A task that looks at a lock as long as others ask for locks.
pub(crate) fn looks(
    crew: &Arc<Crew>,
    process: Process,
    session: Session,
) -> impl Future<Output = ()> + Send + 'static + use<> {
    let running = Count::new(crew, |crew| &crew.running);
    let name = format!("looker {}", process.id().0);
    let task = Task { crew: crew.clone(), process, session, name, origin: None };
    async move {
        let _running = running;
        task.look().await;
    }
}

impl Task {
    async fn look(&self) {
        let (store, world) = (self.crew.ledger.store(), self.process.world());
        let Ok(site) = self.session.site(self.crew.locks[0].name) else { return };
        while self.crew.is_busy() && !self.crew.ledger.is_closing(&self.process) {
            let known = store.faults();
            self.sleep(KNOWN).await;
            let is_served = || {
                let ensemble = store.ensemble();
                let sessions = ensemble.sessions_of(&self.process);
                sessions.iter().any(|session| !ensemble.is_down(*session))
            };
            let before = (store.faults(), self.process.pauses());
            if !is_served() || known != before.0 {
                continue;
            }
            let start = world.now();
            let looked = site.contenders().await;
            let (took, after) = (world.now() - start, (store.faults(), self.process.pauses()));
            if took > LOOKED && before == after {
                let what = format!("{}: it takes {took} µs to look: {looked:?}", self.name);
                self.crew.ledger.fail(rules::LANES, what);
            }
        }
    }
}
