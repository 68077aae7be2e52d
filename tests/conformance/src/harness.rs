//! The harness.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zklock_core::backend::zookeeper::{ZooKeeperConnector, ZooKeeperOptions};
use zklock_core::conformance::{Harness, Step};
use zklock_core::coordinator::{Coordinator, Reply, RequestError};
use zklock_test_support::ZooKeeper;
use zookeeper_client::SessionInfo;

use crate::relay::{Mode, Relay};

/// Short enough to wait for an expiry, long enough to survive a busy machine.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// A ZooKeeper to test on.
#[derive(Clone)]
pub struct Server {
    address: String,
    sessions: Arc<Mutex<HashMap<i64, Opened>>>,
}

/// What it takes to break a session.
#[derive(Clone)]
struct Opened {
    info: SessionInfo,
    relay: Arc<Relay>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The runtime on which all sessions live.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME
        .get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

/// Runs a future on that runtime, and waits for it anywhere.
fn there<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = T> + Send + 'static {
    let task = runtime().spawn(work);
    async move { task.await.unwrap() }
}

/// The server that all tests of a process share.
pub fn server() -> Server {
    Server::new(ZooKeeper::shared().addr())
}

impl Server {
    /// The harness for the server at `host:port`. It must reap containers every second.
    pub fn new(address: impl Into<String>) -> Self {
        Server { address: address.into(), sessions: Arc::default() }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn opened(&self, session: i64) -> Opened {
        self.sessions.lock().unwrap().get(&session).expect("a session of this harness").clone()
    }
}

impl Harness for Server {
    fn open(&self) -> Reply<Arc<dyn Coordinator>> {
        let server = self.clone();
        Box::pin(there(async move {
            let relay = Arc::new(Relay::start(server.address.clone()).await);
            let mut options = ZooKeeperOptions::new(relay.address.to_string());
            options.session_timeout = SESSION_TIMEOUT;
            let session = ZooKeeperConnector::new(options)?.open().await?;
            let info = session.session_info().ok_or(RequestError::Closed)?;
            server.sessions.lock().unwrap().insert(session.session_id(), Opened { info, relay });
            Ok(Arc::new(session) as Arc<dyn Coordinator>)
        }))
    }

    /// Takes the session over with a second connection, and closes it there.
    fn expire(&self, session: i64) -> Step<'_> {
        let info = self.opened(session).info;
        let address = self.address.clone();
        Box::pin(there(async move {
            let thief = zookeeper_client::Client::connector()
                .with_session_timeout(SESSION_TIMEOUT)
                .with_session(info)
                .connect(&address)
                .await
                .unwrap();
            let mut state = thief.state_watcher();
            drop(thief);
            while !state.state().is_terminated() {
                state.changed().await;
            }
        }))
    }

    fn stall(&self, session: i64) -> Step<'_> {
        self.opened(session).relay.set(Mode::Stall);
        Box::pin(std::future::ready(()))
    }

    fn disconnect(&self, session: i64) -> Step<'_> {
        self.opened(session).relay.set(Mode::Cut);
        Box::pin(std::future::ready(()))
    }

    fn reconnect(&self, session: i64) -> Step<'_> {
        self.opened(session).relay.set(Mode::Pass);
        Box::pin(std::future::ready(()))
    }

    fn reaped_within(&self) -> Duration {
        Duration::from_secs(2)
    }
}
