//! The proxy as tests use it.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::acceptor;
use super::chaos::Chaos;
use super::frame::{Direction, Frame};
use super::rule::{Action, Cut, Entry, Matcher, Rule};
use super::state::{Framing, Shared};
use crate::port::ReservedPort;
use crate::raw_client::{RawClient, RawError, SessionKey};
use crate::wire::OpCode;

/// A TCP proxy in front of one server that reads ZooKeeper's frames.
///
/// Clients connect to [`addr`](Self::addr). Without rules it forwards everything, in order, with
/// some tens of microseconds a hop. All controls work at once on live connections; those that
/// take effect on frames do so at the moment a frame would be forwarded.
///
/// Four-letter words and TLS pass as bytes: everything works on them but rules, log and counters.
///
/// # Use outside of this project
///
/// Nothing here knows our locks: any client of ZooKeeper in any language can be tested with it,
/// against any server. This crate is not published; take it as a git dependency of your tests. The
/// proxy needs no Java: point it at the server that you have.
///
/// - *What is sent.* Let the client work once and read [`log`](Self::log): which requests it
///   sends, on which paths, what was answered and when. [`requests`](Self::requests) counts.
/// - *What breaks it.* Name a frame with a [`Matcher`] (request, reply or notification; kind;
///   path; the nth) and say what becomes of it with an [`Action`]: dropped, held, delayed,
///   forwarded or not with a cut of the connection after it.
/// - *Whether it came to that.* [`Rule::wait`] waits for the frame, so a test needs no pauses; a
///   rule that never hit proves nothing, so ask [`Rule::hits`].
/// - *What outlives it.* [`expire_session`](Self::expire_session) ends a session behind its
///   client's back, [`black_hole`](Self::black_hole) makes the network silent,
///   [`chaos`](Self::chaos) cuts at random, [`heal`](Self::heal) ends all of it.
///
/// A create that is applied and whose reply never arrives, the classic that leaves ghosts in the
/// queues of locks:
///
/// ```
/// use std::time::Duration;
/// use zklock_test_support::{
///     Action, CreateMode, Cut, Matcher, OpCode, Proxy, RawClient, ZooKeeper,
/// };
///
/// let server = ZooKeeper::shared();
/// let proxy = Proxy::start(server.socket_addr());
/// let lost = proxy.on(Matcher::reply(OpCode::Create).path("/ghost"), Action::DropAndCut(Cut::Fin));
///
/// // Your client, on `proxy.addr()`.
/// let mut client = RawClient::connect(&proxy.addr(), Duration::from_secs(10)).unwrap();
/// assert!(client.create("/ghost", b"", CreateMode::Ephemeral).is_err());
///
/// assert!(lost.wait(1, Duration::from_secs(5)));
/// let mut outside = RawClient::connect(&server.addr(), Duration::from_secs(10)).unwrap();
/// assert!(outside.exists("/ghost", false).unwrap());
/// ```
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    addr: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of a server.
    pub fn start(upstream: SocketAddr) -> Self {
        Self::with(ReservedPort::reserve(), upstream, Framing::Client)
    }

    /// Starts a proxy in front of anything else that speaks TCP; it has no frames.
    pub fn tcp(upstream: SocketAddr) -> Self {
        Self::with(ReservedPort::reserve(), upstream, Framing::Raw)
    }

    pub(crate) fn with(port: ReservedPort, upstream: SocketAddr, framing: Framing) -> Self {
        let (shared, addr) = (Shared::new(upstream, framing), port.addr());
        let for_thread = Arc::clone(&shared);
        let acceptor = thread::spawn(move || acceptor::run(&for_thread, &port));
        let proxy = Self { shared, addr, acceptor: Some(acceptor) };
        proxy.refuse(false);
        proxy
    }

    /// Returns where clients connect, as `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// Returns where clients connect.
    pub fn socket_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sends later connections to another server.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.shared.update(|state| state.upstream = upstream);
    }

    /// Cuts all connections with FIN, towards the server too.
    pub fn cut_fin(&self) {
        self.cut(Cut::Fin);
    }

    /// Cuts all connections with RST, towards the server too, and returns when it was sent.
    pub fn cut_reset(&self) {
        self.cut(Cut::Reset);
    }

    /// Cuts all connections. What the proxy has not forwarded yet is lost.
    pub fn cut(&self, way: Cut) {
        self.cut_if(way, |_| true);
    }

    /// Cuts the connections of one session.
    pub fn cut_session(&self, id: i64, way: Cut) {
        self.cut_if(way, |session| session == id);
    }

    fn cut_if(&self, way: Cut, wanted: impl Fn(i64) -> bool) {
        let live = self.shared.lock().live();
        let mut resets = Vec::new();
        for connection in live {
            if wanted(connection.session.load(std::sync::atomic::Ordering::SeqCst)) {
                resets.extend(connection.cut(&self.shared, way, way));
            }
        }
        let limit = Instant::now() + Duration::from_secs(2);
        let sent = |socket: &Weak<_>| socket.strong_count() == 0;
        while !resets.iter().all(sent) && Instant::now() < limit {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Makes the network silent in both directions, or heals it.
    ///
    /// Nobody gets FIN or RST, nothing is forwarded, also not that somebody closes. New
    /// connections are accepted and hear nothing, and the server does not see them. As in a real
    /// network, what was sent meanwhile arrives after healing.
    pub fn black_hole(&self, on: bool) {
        self.shared.update(|state| state.black_hole = [on; 2]);
    }

    /// Makes one direction silent, or heals it.
    pub fn black_hole_one_way(&self, direction: Direction, on: bool) {
        self.shared.update(|state| state.black_hole[direction.index()] = on);
    }

    /// Makes each direction take this much longer; throughput stays.
    pub fn delay(&self, time: Duration) {
        self.shared.update(|state| state.delay = [time; 2]);
    }

    /// Makes one direction take this much longer.
    pub fn delay_one_way(&self, direction: Direction, time: Duration) {
        self.shared.update(|state| state.delay[direction.index()] = time);
    }

    /// Refuses new connections, or takes them again; live ones stay.
    pub fn refuse(&self, on: bool) {
        self.shared.update(|state| {
            state.refuse = on;
            if on {
                state.stop_listening();
            }
        });
        if !on {
            let limit = Some(Instant::now() + Duration::from_secs(10));
            let listening =
                self.shared.wait_until(limit, |state| state.listener.as_ref().map(drop));
            assert!(listening.is_some(), "the proxy cannot listen on {}", self.addr);
        }
    }

    /// Adds a rule. A frame obeys the first rule that applies to it; others do not see it.
    pub fn on(&self, matcher: Matcher, action: Action) -> Rule {
        self.add(matcher, action, false)
    }

    /// Adds a rule, and [refuses](Self::refuse) new connections from the first frame on that it applies
    /// to: whoever is cut off there does not come back before.
    pub fn on_and_refuse(&self, matcher: Matcher, action: Action) -> Rule {
        self.add(matcher, action, true)
    }

    fn add(&self, matcher: Matcher, action: Action, refuses: bool) -> Rule {
        let entry = |id| Entry::new(id, matcher, action, refuses);
        let id = self.shared.update(|state| state.add_rule(entry));
        Rule { shared: Arc::clone(&self.shared), id }
    }

    /// Ends all rules, black holes, delays and refusals, and lets go what was held.
    pub fn heal(&self) {
        self.shared.update(|state| {
            state.remove_all_rules();
            state.black_hole = [false; 2];
            state.delay = [Duration::ZERO; 2];
        });
        self.refuse(false);
    }

    /// Cuts all connections at random moments, with FIN or RST, about once per `mean`. One seed
    /// gives one sequence of intervals and kinds.
    pub fn chaos(&self, seed: u64, mean: Duration) -> Chaos {
        Chaos::start(Arc::clone(&self.shared), seed, mean)
    }

    /// Returns how many requests of this kind were forwarded.
    pub fn requests(&self, opcode: OpCode) -> u64 {
        self.shared.lock().requests.get(&opcode).copied().unwrap_or_default()
    }

    /// Returns how many requests were forwarded, connects and what only keeps a session alive apart.
    pub fn requests_total(&self) -> u64 {
        let state = self.shared.lock();
        let counted = |op: &OpCode| !op.keeps_alive() && *op != OpCode::Connect;
        state.requests.iter().filter(|(op, _)| counted(op)).map(|(_, count)| count).sum()
    }

    /// Returns how many watch notifications were forwarded.
    pub fn watch_events(&self) -> u64 {
        self.shared.lock().watch_events
    }

    /// Returns how many bytes were forwarded in both directions.
    pub fn bytes(&self) -> u64 {
        self.shared.lock().bytes.iter().sum()
    }

    /// Returns how many connections there are.
    pub fn connections(&self) -> usize {
        self.shared.lock().live().len()
    }

    /// Returns how many connections there ever were.
    pub fn connections_total(&self) -> u64 {
        self.shared.lock().accepted
    }

    /// Returns the frames since the start or [`clear_log`](Self::clear_log), the dropped ones
    /// included, in the order in which they were judged; at most the last 200,000.
    pub fn log(&self) -> Vec<Frame> {
        self.shared.lock().log.iter().cloned().collect()
    }

    /// Empties the log.
    pub fn clear_log(&self) {
        self.shared.lock().log.clear();
    }

    /// Returns the sessions that were opened through the proxy, the latest last.
    pub fn sessions(&self) -> Vec<SessionKey> {
        self.shared.lock().sessions.clone()
    }

    /// Ends a session on the server behind its client's back, as an expiry does: its ephemeral
    /// nodes go, and the client hears of it when it reconnects. New connections are refused
    /// meanwhile.
    ///
    /// # Panics
    ///
    /// When no such session was opened through this proxy, or the server cannot be reached.
    pub fn expire_session(&self, id: i64) {
        let (key, upstream, refused) = {
            let state = self.shared.lock();
            let key = state.sessions.iter().find(|key| key.id == id).cloned();
            (key, state.upstream, state.refuse)
        };
        let key = key.unwrap_or_else(|| panic!("no session {id:#x} came through this proxy"));
        // The server gives a session to whoever comes last: the client must not come back before
        // the session is closed.
        self.refuse(true);
        let limit = Instant::now() + Duration::from_secs(10);
        loop {
            let resumed = RawClient::resume(&upstream.to_string(), &key);
            let closed = resumed.and_then(|client| {
                // A connection that the client had opened before may arrive after ours: then the server
                // closes that one with the session, and does not answer here.
                client.set_read_timeout(Some(Duration::from_secs(1)));
                client.close()
            });
            match closed {
                Ok(()) | Err(RawError::Expired) => break,
                Err(_) if Instant::now() < limit => {}
                Err(err) => panic!("cannot end session {id:#x}: {err}"),
            }
        }
        // A server that expires a session closes its connection too.
        self.cut_session(id, Cut::Fin);
        if !refused {
            self.refuse(false);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.update(|state| {
            state.closed = true;
            state.stop_listening();
        });
        if let Some(acceptor) = self.acceptor.take() {
            _ = acceptor.join();
        }
        let all: Vec<_> = {
            let state = self.shared.lock();
            state.connections.iter().filter_map(Weak::upgrade).collect()
        };
        for connection in all {
            connection.cut(&self.shared, Cut::Reset, Cut::Reset);
        }
    }
}
