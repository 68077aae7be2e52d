//! Several servers that make one service.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Builder, ZooKeeper};
use crate::port::ReservedPort;
use crate::proxy::{Framing, Proxy};
use crate::raw_client::RawClient;

/// Servers that elect a leader, with a proxy on every way from one to another, unless they are
/// [direct](Builder::direct).
///
/// Servers are counted from 0. Clients reach them directly, whatever is isolated; put a
/// [`Proxy`] in front of one to break that way too.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<ZooKeeper>,
    links: Vec<Link>,
    isolated: Mutex<BTreeSet<usize>>,
    /// For the servers that are restarted.
    _ports: [Vec<ReservedPort>; 2],
}

/// The way on which `from` reaches `to`.
#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    quorum: Proxy,
    election: Proxy,
}

impl Ensemble {
    /// Starts this many servers with the default settings and waits until all serve.
    ///
    /// # Panics
    ///
    /// When Java or ZooKeeper is not installed, or the servers do not come up.
    pub fn start(size: usize) -> Self {
        ZooKeeper::builder().ensemble(size)
    }

    pub(super) fn launch(builder: &Builder, size: usize) -> Self {
        let quorum: Vec<_> = (0..size).map(|_| ReservedPort::reserve()).collect();
        let election: Vec<_> = (0..size).map(|_| ReservedPort::reserve()).collect();
        let links = if builder.is_direct() { Vec::new() } else { connect(&quorum, &election) };
        // Whoever does not find the others says so at this level only.
        let builder = builder
            .clone()
            .java_property("org.slf4j.simpleLogger.log.org.apache.zookeeper.server.quorum", "info")
            .java_property("org.slf4j.simpleLogger.showDateTime", "true");
        let servers: Vec<_> = (0..size)
            .map(|i| {
                let direct =
                    |j: usize| format!("127.0.0.1:{}:{}", quorum[j].number(), election[j].number());
                let lines: Vec<_> = (0..size)
                    .map(|j| {
                        let link = links.iter().find(|link| (link.from, link.to) == (i, j));
                        let addr = link.map_or_else(|| direct(j), Link::addr);
                        format!("server.{}={addr}", j + 1)
                    })
                    .collect();
                let server = ZooKeeper::prepare(builder.clone(), ReservedPort::reserve(), &lines);
                server.set_id(i + 1);
                server
            })
            .collect();
        servers.iter().for_each(ZooKeeper::spawn);
        let ensemble =
            Self { servers, links, isolated: Mutex::default(), _ports: [quorum, election] };
        (0..size).for_each(|index| ensemble.await_serving(index));
        ensemble
    }

    fn await_serving(&self, index: usize) {
        if !self.servers[index].wait_until_serving() {
            panic!("server {index} does not serve:\n{}", self.failures());
        }
    }

    fn failures(&self) -> String {
        let told: Vec<_> = self.servers.iter().map(ZooKeeper::failure).collect();
        told.join("\n")
    }

    /// Waits until all serve. Returns what all logged if one does not, although nothing keeps it from that.
    pub fn stuck(&self) -> Option<String> {
        let serve = self.servers.iter().all(ZooKeeper::wait_until_serving);
        (!serve).then(|| self.failures())
    }

    /// Kills a server where it runs, starts it on the same port and data, and waits until it serves.
    ///
    /// # Panics
    ///
    /// When it does not come up, with what all servers logged.
    pub fn restart(&self, index: usize) {
        self.servers[index].relaunch();
        self.await_serving(index);
    }

    /// Returns a server.
    pub fn server(&self, index: usize) -> &ZooKeeper {
        &self.servers[index]
    }

    /// Returns all servers.
    pub fn servers(&self) -> &[ZooKeeper] {
        &self.servers
    }

    /// Returns the addresses of all servers, separated by commas.
    pub fn connect_string(&self) -> String {
        let addrs: Vec<_> = self.servers.iter().map(ZooKeeper::addr).collect();
        addrs.join(",")
    }

    /// Returns the leader among those that are not isolated, and waits for one.
    ///
    /// # Panics
    ///
    /// When none is elected within 30 s.
    pub fn leader(&self) -> usize {
        let limit = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(leader) = self.with_mode("leader").next() {
                return leader;
            }
            assert!(Instant::now() < limit, "no leader in 30 s");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the followers that serve and are not isolated.
    pub fn followers(&self) -> Vec<usize> {
        self.with_mode("follower").collect()
    }

    /// Returns the children of a directory that this server shows.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn children(&self, index: usize, directory: &str) -> BTreeSet<String> {
        let addr = self.servers[index].addr();
        let mut client = RawClient::connect(&addr, Duration::from_secs(4)).expect("it serves");
        let children = client.children(directory).expect("the directory is there");
        _ = client.close();
        children.into_iter().collect()
    }

    /// Returns the children of a directory that this server shows and another one that serves, and is
    /// not isolated, does not, both times of two that are one second apart. No client can bring that
    /// about: it is a fault of ZooKeeper ([ZOOKEEPER-4541](https://issues.apache.org/jira/browse/ZOOKEEPER-4541),
    /// [ZOOKEEPER-4712](https://issues.apache.org/jira/browse/ZOOKEEPER-4712)).
    ///
    /// # Panics
    ///
    /// When a server that serves does not answer.
    pub fn unknown_elsewhere(&self, index: usize, directory: &str) -> BTreeSet<String> {
        let look = || {
            let shown = self.children(index, directory);
            let isolated = self.isolated().clone();
            let others = (0..self.servers.len())
                .filter(|other| *other != index && !isolated.contains(other))
                .filter(|other| self.servers[*other].mode().is_some());
            let unknown = others.flat_map(|other| &shown - &self.children(other, directory));
            unknown.collect::<BTreeSet<_>>()
        };
        let first = look();
        thread::sleep(Duration::from_secs(1));
        &first & &look()
    }

    fn with_mode(&self, mode: &'static str) -> impl Iterator<Item = usize> {
        let isolated = self.isolated().clone();
        let indexes = (0..self.servers.len()).filter(move |index| !isolated.contains(index));
        indexes.filter(move |index| self.servers[*index].mode().as_deref() == Some(mode))
    }

    /// Cuts a server from the others by silence: no FIN, no RST, nothing is forwarded. Its
    /// clients still reach it.
    pub fn isolate(&self, index: usize) {
        self.isolated().insert(index);
        self.apply();
    }

    /// Lets a server reach those others again that are not isolated themselves.
    pub fn heal(&self, index: usize) {
        self.isolated().remove(&index);
        self.apply();
    }

    fn apply(&self) {
        let isolated = self.isolated();
        for link in &self.links {
            let silent = isolated.contains(&link.from) || isolated.contains(&link.to);
            link.quorum.black_hole(silent);
            link.election.black_hole(silent);
        }
    }

    fn isolated(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.isolated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    fn addr(&self) -> String {
        let port = |proxy: &Proxy| proxy.socket_addr().port();
        format!("127.0.0.1:{}:{}", port(&self.quorum), port(&self.election))
    }
}

/// Makes a link from each server to each other.
fn connect(quorum: &[ReservedPort], election: &[ReservedPort]) -> Vec<Link> {
    let size = quorum.len();
    // A server tells the one that it calls where to call back. That must be a link as well, so
    // the ports of all links are known before the first is made.
    let mut ports: Vec<Vec<_>> =
        (0..size).map(|_| (0..size).map(|_| Some(ReservedPort::reserve())).collect()).collect();
    let addrs: Vec<Vec<_>> =
        ports.iter().map(|row| row.iter().flatten().map(ReservedPort::addr).collect()).collect();
    let mut links = Vec::new();
    for (from, row) in ports.iter_mut().enumerate() {
        for (to, port) in row.iter_mut().enumerate().filter(|(to, _)| *to != from) {
            let port = port.take().expect("each is taken once");
            let way_back = Framing::Election(addrs[to][from]);
            links.push(Link {
                from,
                to,
                quorum: Proxy::tcp(quorum[to].addr()),
                election: Proxy::with(port, election[to].addr(), way_back),
            });
        }
    }
    links
}
