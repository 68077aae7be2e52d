//! Scripts on real servers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zklock_core::coordinator::connector::Connector;
use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::requests::Coordinator;
use zklock_core::coordinator::zookeeper::{Acl, Auth, ZooKeeperConnector, ZooKeeperOptions};
use zklock_simulation::conformance::{Bed, SLOTS, Work};
use zklock_simulation::ensemble::Access;
use zklock_test_support::{
    Action, Direction, Ensemble, Matcher, OpCode, Proxy, RawClient, Rule, ZooKeeper,
};

/// Of a session that nothing ends by lapse of time, however busy the machine is, and of a short one.
const TIMEOUT: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(4)];

/// The servers that scripts share.
pub(crate) struct Site {
    servers: Vec<SocketAddr>,
    roots: AtomicUsize,
    full: AtomicUsize,
    /// Keeps them running.
    _held: Box<dyn std::any::Any + Send + Sync>,
}

impl Site {
    pub(crate) fn alone(server: ZooKeeper) -> Self {
        let servers = vec![server.socket_addr()];
        Site::new(servers, Box::new(server))
    }

    pub(crate) fn three(ensemble: Ensemble) -> Self {
        let servers = ensemble.servers().iter().map(ZooKeeper::socket_addr).collect();
        Site::new(servers, Box::new(ensemble))
    }

    fn new(servers: Vec<SocketAddr>, held: Box<dyn std::any::Any + Send + Sync>) -> Self {
        let (roots, full) = Default::default();
        Site { servers, roots, full, _held: held }
    }
}

/// One session of the pool, and its way to the server.
struct Way {
    proxy: Arc<Proxy>,
    session: Option<Arc<dyn Coordinator>>,
    rule: Option<Rule>,
}

/// What one thread runs its scripts on. It keeps its sessions from script to script.
pub(crate) struct Real {
    site: Arc<Site>,
    ways: Mutex<BTreeMap<(usize, u8), Way>>,
    /// Which of its ways each slot uses.
    used: Mutex<[u8; SLOTS]>,
}

/// The runtime on which all sessions live.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME
        .get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

fn flavour(access: Access) -> u8 {
    match access {
        Access::Open => 0,
        Access::Private(_) => 1,
        Access::ReadOnly(_) => 2,
        Access::Kept(_) => 3,
    }
}

impl Real {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Real { site, ways: Mutex::default(), used: Mutex::new([0; SLOTS]) }
    }

    fn proxy(&self, slot: usize) -> Arc<Proxy> {
        let flavour = self.used.lock().unwrap()[slot];
        self.ways.lock().unwrap()[&(slot, flavour)].proxy.clone()
    }

    fn rule(&self, slot: usize, rule: Option<Rule>) -> Option<Rule> {
        let flavour = self.used.lock().unwrap()[slot];
        let mut ways = self.ways.lock().unwrap();
        std::mem::replace(&mut ways.get_mut(&(slot, flavour)).unwrap().rule, rule)
    }
}

impl Bed for Real {
    fn open(&self, slot: usize, access: Access, short: bool) -> Work<'_, Arc<dyn Coordinator>> {
        let flavour = flavour(access);
        self.used.lock().unwrap()[slot] = flavour;
        let server = self.site.servers[slot % self.site.servers.len()];
        let proxy = {
            let mut ways = self.ways.lock().unwrap();
            let way = ways.entry((slot, flavour)).or_insert_with(|| Way {
                proxy: Arc::new(Proxy::start(server)),
                session: None,
                rule: None,
            });
            if let Some(session) = way.session.clone().filter(|one| one.link() == Link::Up) {
                return Box::pin(async move { session });
            }
            way.proxy.clone()
        };
        let mut options = ZooKeeperOptions::new(proxy.addr());
        options.session_timeout = TIMEOUT[usize::from(short)];
        options.connect_timeout = Duration::from_secs(60);
        if access != Access::Open {
            let (scheme, credentials) = ("digest".to_owned(), b"me:secret".to_vec());
            options.auth.push(Auth { scheme, credentials });
            options.acl = match access {
                Access::ReadOnly(_) => Acl::ReadOnlyOthers,
                _ => Acl::CreatorAll,
            };
        }
        let opened = runtime().spawn(async move {
            ZooKeeperConnector::new(options).unwrap().connect().await.unwrap()
        });
        Box::pin(async move {
            let session = opened.await.unwrap();
            let mut ways = self.ways.lock().unwrap();
            ways.get_mut(&(slot, flavour)).unwrap().session = Some(session.clone());
            session
        })
    }

    fn silence(&self, slot: usize, to_server: bool) -> Work<'_> {
        let proxy = self.proxy(slot);
        if to_server {
            let asks = [
                OpCode::Create2,
                OpCode::CreateContainer,
                OpCode::Delete,
                OpCode::GetChildren,
                OpCode::GetChildren2,
                OpCode::GetData,
                OpCode::SetData,
                OpCode::Multi,
                OpCode::Sync,
            ];
            let matcher = asks.into_iter().fold(Matcher::request(OpCode::Create), Matcher::or);
            self.rule(slot, Some(proxy.on(matcher, Action::Drop)));
        } else {
            proxy.black_hole_one_way(Direction::ToClient, true);
        }
        Box::pin(async {})
    }

    fn lost(&self, slot: usize, requests: usize) -> Work<'_> {
        if let Some(rule) = self.rule(slot, None) {
            assert!(rule.wait(requests as u64, Duration::from_secs(60)), "it is not sent");
            self.rule(slot, Some(rule));
        }
        Box::pin(async {})
    }

    fn pause(&self, slot: usize, to_server: bool, to_client: bool) -> Work<'_> {
        let proxy = self.proxy(slot);
        proxy.black_hole_one_way(Direction::ToServer, to_server);
        proxy.black_hole_one_way(Direction::ToClient, to_client);
        Box::pin(async {})
    }

    fn resume(&self, slot: usize) -> Work<'_> {
        self.proxy(slot).black_hole(false);
        Box::pin(async {})
    }

    fn cut(&self, slot: usize) -> Work<'_> {
        let proxy = self.proxy(slot);
        // What was silenced is lost, and the next connection is silent, too.
        proxy.black_hole(true);
        proxy.cut_fin();
        if let Some(rule) = self.rule(slot, None) {
            rule.release();
        }
        Box::pin(async {})
    }

    fn heal(&self, slot: usize, server: usize) -> Work<'_> {
        let proxy = self.proxy(slot);
        // The client's next connection waits in the proxy, which takes it there.
        proxy.set_upstream(self.site.servers[server % self.site.servers.len()]);
        proxy.black_hole(false);
        Box::pin(async {})
    }

    fn expire(&self, slot: usize, session: i64) -> Work<'_> {
        self.proxy(slot).expire_session(session);
        Box::pin(async {})
    }

    fn outlive(&self) -> Work<'_> {
        std::thread::sleep(TIMEOUT[1] + Duration::from_millis(700));
        Box::pin(async {})
    }

    fn reap(&self) -> Work<'_> {
        std::thread::sleep(Duration::from_millis(1_300));
        Box::pin(async {})
    }

    fn root(&self, full: bool) -> Work<'_, String> {
        let root = if full {
            format!("/full{}", self.site.full.fetch_add(1, Ordering::Relaxed))
        } else {
            let root = format!("/root{}", self.site.roots.fetch_add(1, Ordering::Relaxed));
            let addr = self.site.servers[0].to_string();
            let mut admin = RawClient::connect(&addr, Duration::from_secs(10)).unwrap();
            let mode = zklock_test_support::CreateMode::Persistent;
            admin.create(&root, b"", mode).unwrap();
            admin.close().unwrap();
            root
        };
        Box::pin(async move { root })
    }
}
