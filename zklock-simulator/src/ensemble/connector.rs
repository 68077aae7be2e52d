//! Opening sessions, as the library's connector does on real servers.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_lite::future::or;
use zklock_core::base::times;
use zklock_core::coordinator::connector::Connector;
use zklock_core::coordinator::memory::shared::Request;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::{Coordinator, Reply};

use super::client::Client;
use super::coordinator::SimulatedCoordinator;
use super::drive::no_hosts;
use super::shared::Shared;
use super::txn::Access;
use super::waiting::{Until, ask};
use crate::executor::Process;

/// How a process connects.
#[derive(Clone, Debug)]
pub struct Connecting {
    /// The session timeout that it asks for.
    pub session_timeout: Duration,
    /// How long opening a session may take.
    pub connect_timeout: Duration,
    /// The servers that it knows; none for all.
    pub servers: Vec<usize>,
    /// Who it is.
    pub credentials: Option<u32>,
    /// Who may use what it creates.
    pub access: Access,
    /// The part of the tree that it sees: nothing for all of it.
    pub chroot: String,
    /// What tells its sessions from others of the process.
    pub label: u64,
}

impl Connecting {
    /// Asks for this session timeout; everything else as usual.
    pub fn new(session_timeout: Duration) -> Self {
        Connecting {
            session_timeout,
            connect_timeout: Duration::from_secs(5),
            servers: Vec::new(),
            credentials: None,
            access: Access::Open,
            chroot: String::new(),
            label: 0,
        }
    }
}

/// How long to rest after no server let us in, at first and at most.
const PAUSE: (u64, u64) = (50_000, 500_000);

/// How often a session is opened until one has the timeout that it asks for.
const DIALS: u32 = 3;

/// How long to wait for a server's sign of life, at most.
const LOOK: u64 = 2_000_000;

pub(super) struct SimulatedConnector {
    pub(super) shared: Arc<Shared>,
    pub(super) process: Process,
    pub(super) connecting: Connecting,
    opening: Arc<AtomicUsize>,
}

impl fmt::Debug for SimulatedConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("SimulatedConnector");
        out.field("process", &self.process).finish_non_exhaustive()
    }
}

impl SimulatedConnector {
    pub(super) fn new(shared: Arc<Shared>, process: Process, connecting: Connecting) -> Self {
        SimulatedConnector { shared, process, connecting, opening: Arc::default() }
    }
}

impl Connector for SimulatedConnector {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        let (shared, opening) = (self.shared.clone(), self.opening.clone());
        let (process, connecting) = (self.process.clone(), self.connecting.clone());
        Box::pin(async move {
            let world = shared.world.clone();
            let limit = micros(connecting.connect_timeout);
            let end = world.now() + limit;
            let search = search(&shared, &process, &connecting, &opening, end);
            let late = async {
                world.sleep_until(end).await;
                Err(RequestError::Unreachable("no session in time".to_owned()))
            };
            or(search, late).await
        })
    }

    fn is_opening(&self) -> bool {
        self.opening.load(Ordering::Relaxed) > 0
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

async fn search(
    shared: &Arc<Shared>,
    process: &Process,
    connecting: &Connecting,
    opening: &Arc<AtomicUsize>,
    end: u64,
) -> Result<Arc<dyn Coordinator>, RequestError> {
    let world = shared.world.clone();
    let look = (micros(connecting.connect_timeout) / 4).min(LOOK);
    let mut pause = PAUSE.0;
    loop {
        let (candidates, takes) = shared.act(|machine| machine.probe(process, connecting, look));
        world.sleep_until(world.now() + takes).await;
        if !candidates.is_empty() {
            let rest = end.saturating_sub(world.now());
            let share = if machine_size(shared, connecting) == 1 { rest } else { rest / 2 };
            let _opening = Opening::new(opening);
            let attempt = attempt(shared, process, connecting, candidates);
            let late = async {
                world.sleep_until(world.now() + share).await;
                None
            };
            match or(async { Some(attempt.await) }, late).await {
                Some(Ok(session)) => return Ok(session),
                Some(Err(error)) if error.is_definite() => return Err(error),
                _ => {}
            }
        }
        world.sleep_until(world.now() + pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

fn machine_size(shared: &Shared, connecting: &Connecting) -> usize {
    match connecting.servers.len() {
        0 => shared.look(|machine| machine.servers.len()),
        known => known,
    }
}

async fn attempt(
    shared: &Arc<Shared>,
    process: &Process,
    connecting: &Connecting,
    candidates: Vec<usize>,
) -> Result<Arc<dyn Coordinator>, RequestError> {
    let (client, session) = granted(shared, process, connecting, candidates).await?;
    // The chroot is there; it is asked for again where the answer is lost.
    let mut pause = micros(times::reply(session.session_timeout()));
    loop {
        let root = Request::Get { path: "/".to_owned(), watch: false };
        let late = async {
            shared.world.sleep_until(shared.world.now() + pause).await;
            None
        };
        let answer = async { Some(ask(shared, client, root, |_, _| Some(())).await) };
        if let Some(answer) = or(answer, late).await {
            if let Err(error) = answer {
                session.close().await;
                return Err(error);
            }
            return Ok(Arc::new(session));
        }
        pause *= 2;
    }
}

/// A session that asked for what is granted: where it is something else, it is closed, and another one asks
/// for that.
async fn granted(
    shared: &Arc<Shared>,
    process: &Process,
    connecting: &Connecting,
    candidates: Vec<usize>,
) -> Result<(u64, SimulatedCoordinator), RequestError> {
    let mut connecting = connecting.clone();
    for _ in 0..DIALS {
        let candidates = candidates.clone();
        let client = shared.act(|machine| machine.open(process, &connecting, candidates));
        // The client's own task: whoever drops the attempt drops it.
        let mut attempt = Attempt { shared: shared.clone(), client, kept: false };
        let driver = Driver { shared: shared.clone(), client };
        process.spawn(driver.run());
        let opened =
            Until::new(shared, client, Err(no_hosts()), |client: &Client| client.opened.clone());
        opened.await?;
        attempt.kept = true;
        let chroot = connecting.chroot.clone();
        let session = SimulatedCoordinator::new(shared.clone(), process.clone(), client, chroot);
        if session.session_timeout() == connecting.session_timeout {
            return Ok((client, session));
        }
        connecting.session_timeout = session.session_timeout();
        session.close().await;
    }
    Err(RequestError::Unreachable("each server grants another session timeout".to_owned()))
}

/// A session that is being opened; dropped, its connection is closed and the session left alone.
struct Attempt {
    shared: Arc<Shared>,
    client: u64,
    kept: bool,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.kept {
            self.shared.act(|machine| machine.bury_client(self.client));
        }
    }
}

/// The task of a client. Its end is that of the client.
struct Driver {
    shared: Arc<Shared>,
    client: u64,
}

impl Driver {
    async fn run(self) {
        poll_fn(|cx| {
            self.shared.act(|machine| {
                if !machine.drive(self.client) {
                    return Poll::Ready(());
                }
                if let Some(client) = machine.clients.get_mut(&self.client) {
                    client.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            })
        })
        .await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.act(|machine| machine.driver_is_gone(self.client));
    }
}

struct Opening(Arc<AtomicUsize>);

impl Opening {
    fn new(opening: &Arc<AtomicUsize>) -> Self {
        opening.fetch_add(1, Ordering::Relaxed);
        Opening(opening.clone())
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
