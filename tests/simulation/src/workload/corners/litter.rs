//! A semaphore that some take for a mutex, and in whose directory nodes lie that are nobody's.

use std::sync::Arc;
use std::time::Duration;

use super::together::Noted;
use crate::rules;
use crate::workload::task::Task;

const WAIT: Duration = Duration::from_millis(300);

const NAME: &str = "litter";
const PERMITS: u32 = 8;

/// How many nodes lie there: fewer than are passed by.
const LITTER: u32 = 3;

/// How long it takes until all see a node that somebody has made.
const SEEN: u64 = 5_000;

impl Task {
    pub(in crate::workload) async fn find_others_among_litter(&self) {
        let ensemble = self.crew.ledger.store().ensemble();
        for path in ["", "/leases"] {
            ensemble.prepare(&format!("/zklock/{NAME}{path}"));
        }
        for number in 0..LITTER {
            ensemble.prepare(&format!("/zklock/{NAME}/leases/_c_x-lease-{:010}", 900 + number));
        }
        match self.choose(3) {
            0 => self.holds_the_name_alone().await,
            _ => self.holds_a_permit().await,
        }
    }

    async fn holds_a_permit(&self) {
        let Ok(lock) = self.session.semaphore(NAME, PERMITS) else { return };
        let answer = lock.acquire_timeout(WAIT).await;
        let Ok(guard) = answer else { return };
        self.say(|| format!("has {}", guard.node_path()));
        let since = self.process.world().now();
        let noted = Noted { what: NAME, since, view: Arc::new(guard.view()) };
        let known = self.crew.together.notes(noted);
        self.sleep(self.short()).await;
        drop(known);
        self.say(|| format!("lets go of {}", guard.node_path()));
        drop(guard.release().await);
    }

    /// Whoever gets the name as a mutex is beside nobody who holds a permit and was there before.
    async fn holds_the_name_alone(&self) {
        let Ok(lock) = self.session.mutex(NAME) else { return };
        let asked = self.process.world().now();
        let Ok(guard) = lock.acquire_timeout(WAIT).await else { return };
        self.say(|| format!("has {}", guard.node_path()));
        let before = |other: &&Noted| other.since + SEEN < asked && other.view.is_valid();
        if let Some(other) = self.crew.together.all(NAME).iter().find(before) {
            let (mine, other) = (guard.node_path(), other.view.node_path());
            let what = format!("{}: {mine} is held beside {other}", self.name);
            self.crew.ledger.fail(rules::MIXED, what);
        }
        drop(guard.release().await);
    }
}
