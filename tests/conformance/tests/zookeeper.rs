//! The conformance suite on a real ZooKeeper: every session goes through a proxy of its own, which can stall
//! it and cut it off.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zklock_conformance::{Harness, Step};
use zklock_core::coordinator::connector::Connector;
use zklock_core::coordinator::requests::{Coordinator, Reply};
use zklock_core::coordinator::zookeeper::{ZooKeeperConnector, ZooKeeperOptions};
use zklock_test_support::{Direction, Proxy, ZooKeeper};

zklock_conformance::conformance_tests!(Arc::new(server()));

/// The client breaks a connection that is silent for four fifteenths of it, which a busy machine may be.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// A ZooKeeper to test on. It must reap containers every second.
#[derive(Clone, Debug)]
struct Server {
    address: SocketAddr,
    proxies: Arc<Mutex<HashMap<i64, Arc<Proxy>>>>,
}

/// A harness for the server that all tests of a process share.
fn server() -> Server {
    Server { address: ZooKeeper::shared().socket_addr(), proxies: Arc::default() }
}

/// The runtime on which all sessions live.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME
        .get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

impl Server {
    /// Does something with the proxy of a session. It may block, so it has a thread of its own.
    fn act(&self, session: i64, f: impl FnOnce(&Proxy) + Send + 'static) -> Step<'_> {
        let proxy = self.proxies.lock().unwrap().get(&session).cloned();
        let proxy = proxy.expect("a session of this harness");
        let task = runtime().spawn_blocking(move || f(&proxy));
        Box::pin(async { task.await.unwrap() })
    }
}

fn cut_off(proxy: &Proxy) {
    proxy.refuse(true);
    proxy.cut_fin();
    proxy.black_hole(false);
}

impl Harness for Server {
    fn open(&self) -> Reply<Arc<dyn Coordinator>> {
        let server = self.clone();
        let opened = runtime().spawn(async move {
            let proxy = Arc::new(Proxy::start(server.address));
            let mut options = ZooKeeperOptions::new(proxy.addr());
            options.session_timeout = SESSION_TIMEOUT;
            let session = ZooKeeperConnector::new(options)?.connect().await?;
            server.proxies.lock().unwrap().insert(session.session_id(), proxy);
            Ok(session)
        });
        Box::pin(async { opened.await.unwrap() })
    }

    fn expire(&self, session: i64) -> Step<'_> {
        self.act(session, move |proxy| proxy.expire_session(session))
    }

    fn stall(&self, session: i64) -> Step<'_> {
        self.act(session, |proxy| proxy.black_hole_one_way(Direction::ToServer, true))
    }

    fn disconnect(&self, session: i64) -> Step<'_> {
        self.act(session, cut_off)
    }

    fn reconnect(&self, session: i64) -> Step<'_> {
        self.act(session, |proxy| proxy.refuse(false))
    }

    fn reaped_within(&self) -> Duration {
        Duration::from_secs(2)
    }
}
