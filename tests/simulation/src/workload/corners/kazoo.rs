//! Kazoo's semaphore, which programs in Python use as well, and whose directory goes when it is empty.

use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::or;
use zklock::layout::Kazoo;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::Coordinator;

use crate::ensemble::Connecting;
use crate::rules;
use crate::workload::task::Task;

const NAME: &str = "python";
const LIMIT: usize = 1;
const WAIT: Duration = Duration::from_millis(500);

/// How often somebody does the same, one time after the other.
const TIMES: u32 = 4;

/// How long a program that makes the directory takes to write the limit into it.
const WRITTEN: u64 = 200_000;

/// The directory of the permits, and that of the lock under which they are counted.
const PERMITS: &str = "/zklock/python";
const INNER: &str = "/zklock/python-__lock__";

impl Task {
    pub(in crate::workload) async fn share_with_kazoo(&self) {
        match self.choose(5) {
            0 | 1 => self.is_kazoo().await,
            2 => {
                // Nothing happens where it has children.
                for _ in 0..TIMES {
                    self.crew.ledger.store().meddle();
                    let path = PERMITS.to_owned();
                    self.crew.ledger.store().ensemble().outsider(Operation::Delete { path });
                    self.sleep(u64::from(self.choose(8)) * 500).await;
                }
            }
            _ => self.shares_permits().await,
        }
    }

    /// Has a permit by the library.
    async fn shares_permits(&self) {
        let Ok(lock) = self.session.semaphore(NAME, LIMIT as u32) else { return };
        let lock = lock.with_driver(Kazoo::default());
        match lock.acquire_timeout(WAIT).await {
            Ok(guard) => {
                self.say(|| format!("has {}", guard.node_path()));
                self.check_permits();
                self.sleep(self.short()).await;
                if self.choose(3) == 1 {
                    self.sleep(WRITTEN).await;
                    let ensemble = self.crew.ledger.store().ensemble();
                    let (says, node) = (ensemble.data(PERMITS), ensemble.data(guard.node_path()));
                    if guard.is_valid()
                        && node.is_some()
                        && says.as_deref() != Some(LIMIT.to_string().as_bytes())
                    {
                        let what = format!("{}: {PERMITS} says {says:?}", self.name);
                        self.crew.ledger.fail(rules::ONE_LIMIT, what);
                    }
                }
                self.say(|| format!("lets go of {}", guard.node_path()));
                drop(guard.release().await);
            }
            // Others have the permits, or the directory goes again and again.
            Err(error) if error.is_busy() || error.is_unavailable() => {
                self.say(|| format!("{error:#}"));
            }
            Err(error) => {
                self.crew.ledger.fail(rules::ERROR, format!("{}: {error:#}", self.name));
            }
        }
    }

    /// There are no more permits than there may be.
    fn check_permits(&self) {
        let permits = self.crew.ledger.store().ensemble().ephemerals(&format!("{PERMITS}/"));
        if permits.len() > LIMIT {
            let what = format!("{}: {permits:?}, of {LIMIT}", self.name);
            self.crew.ledger.fail(rules::ROOM, what);
        }
    }

    /// Has a permit as a program in Python has it.
    async fn is_kazoo(&self) {
        let timeout = Duration::from_micros(self.crew.timeout);
        let connecting =
            Connecting { label: self.process.world().unique(), ..Connecting::new(timeout) };
        let ensemble = self.crew.ledger.store().ensemble();
        let connector = ensemble.connector(&self.process, connecting);
        let Ok(session) = connector.connect().await else { return };
        let late = async {
            self.sleep(2 * self.crew.timeout).await;
            Err(RequestError::ConnectionLoss)
        };
        let often = async {
            for _ in 0..TIMES {
                self.has_a_permit(&session).await?;
            }
            Ok(())
        };
        let done = or(often, late).await;
        self.say(|| format!("is kazoo no more: {done:?}"));
        session.close().await;
    }

    async fn has_a_permit(&self, session: &Arc<dyn Coordinator>) -> Result<(), RequestError> {
        for path in ["/zklock", PERMITS] {
            ensure(session, path).await?;
        }
        if session.get(PERMITS).await?.0.is_empty() {
            session.set(PERMITS, LIMIT.to_string().as_bytes()).await?;
        }
        ensure(session, INNER).await?;
        let number = self.process.world().unique();
        let inner = format!("{INNER}/{number:032x}__lock__");
        let inner = session.create(&inner, b"", NodeKind::EphemeralSequential).await?.path;
        self.say(|| format!("is kazoo, with {inner}"));
        self.awaits_its_turn(session, &inner).await?;
        let mine = format!("{PERMITS}/{number:032x}");
        loop {
            let (permits, changed) = session.children_watched(PERMITS).await?;
            if permits.len() < LIMIT {
                session.create(&mine, b"", NodeKind::Ephemeral).await?;
                break;
            }
            changed.await;
        }
        session.delete(&inner).await?;
        self.say(|| format!("is kazoo, and has {mine}"));
        self.check_permits();
        self.sleep(self.short()).await;
        session.delete(&mine).await
    }

    /// Waits for the node before its own, of those whose names are kazoo's.
    async fn awaits_its_turn(
        &self,
        session: &Arc<dyn Coordinator>,
        inner: &str,
    ) -> Result<(), RequestError> {
        let sequence =
            |name: &str| name.rsplit_once("__lock__").map(|(_, number)| number.to_owned());
        let mine = sequence(inner);
        loop {
            let names = session.children(INNER).await?;
            let before =
                names.iter().filter(|name| sequence(name) < mine && sequence(name).is_some());
            let Some(before) = before.max_by_key(|name| sequence(name)) else { return Ok(()) };
            match session.get_watched(&format!("{INNER}/{before}")).await {
                Ok((_, _, gone)) => {
                    gone.await;
                }
                Err(RequestError::NoNode) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

async fn ensure(session: &Arc<dyn Coordinator>, path: &str) -> Result<(), RequestError> {
    match session.create(path, b"", NodeKind::Persistent).await {
        Ok(_) | Err(RequestError::NodeExists) => Ok(()),
        Err(error) => Err(error),
    }
}
