//! The harness of the embedded coordinator.

use std::sync::Arc;
use std::time::Duration;

use super::harness::{Harness, Step};
use zklock_core::coordinator::connector::Connector;
use zklock_core::coordinator::memory::{Embedded, EmbeddedOptions, Faults};
use zklock_core::coordinator::requests::{Coordinator, Reply};

/// Returns a harness on an embedded store of its own.
pub fn embedded() -> Arc<dyn Harness> {
    let options = EmbeddedOptions::new().reap_after(Duration::from_millis(100));
    Arc::new(Memory(Embedded::with_options(options)))
}

struct Memory(Embedded);

impl Memory {
    fn act(&self, session: i64, f: impl FnOnce(&Faults) + Send + 'static) -> Step<'_> {
        let faults = self.0.faults(session);
        Box::pin(async move { f(&faults) })
    }
}

impl Harness for Memory {
    fn open(&self) -> Reply<Arc<dyn Coordinator>> {
        self.0.connector(Duration::from_secs(10)).connect()
    }

    fn expire(&self, session: i64) -> Step<'_> {
        self.act(session, Faults::expire)
    }

    fn stall(&self, session: i64) -> Step<'_> {
        self.act(session, Faults::silence)
    }

    fn disconnect(&self, session: i64) -> Step<'_> {
        self.act(session, Faults::disconnect)
    }

    fn reconnect(&self, session: i64) -> Step<'_> {
        self.act(session, Faults::reconnect)
    }

    fn reaped_within(&self) -> Duration {
        Duration::from_millis(100)
    }
}
