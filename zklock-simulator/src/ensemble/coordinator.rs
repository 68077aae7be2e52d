//! A session of the simulated ensemble, as the library sees it.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_lite::future::or;
use zklock_core::coordinator::access::AclEntry;
use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::memory::shared::Request;
use zklock_core::coordinator::node::{Created, NodeKind, Stat};
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::requests::{Coordinator, Reply};
use zklock_core::coordinator::watch::Watch;

use super::client::{Client, Phase};
use super::frames::Answer;
use super::shared::Shared;
use super::waiting::{Until, ask, speak};
use crate::executor::Process;

/// How long a close waits for the server's word, as with a real server: by the clock of its process, in
/// nanoseconds.
const CLOSE_WAIT: u64 = 1_000_000_000;

pub(super) struct SimulatedCoordinator {
    shared: Arc<Shared>,
    process: Process,
    client: u64,
    session: i64,
    timeout: Duration,
    /// What precedes each path, and nobody sees.
    chroot: String,
    closed: AtomicBool,
    /// How the client ended.
    end: Arc<OnceLock<Link>>,
}

impl fmt::Debug for SimulatedCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("SimulatedCoordinator");
        out.field("session", &format_args!("{:#x}", self.session)).finish_non_exhaustive()
    }
}

impl SimulatedCoordinator {
    pub(super) fn new(shared: Arc<Shared>, process: Process, client: u64, chroot: String) -> Self {
        let (session, timeout, end) = shared.look(|machine| {
            let known = machine
                .clients
                .get(&client)
                .map(|client| (client.session, client.timing.session, client.end.clone()));
            known.unwrap_or_default()
        });
        let timeout = Duration::from_micros(timeout);
        let closed = AtomicBool::new(false);
        SimulatedCoordinator { shared, process, client, session, timeout, chroot, closed, end }
    }

    fn ask<T: Send + 'static>(
        &self,
        request: Request,
        convert: fn(Answer, Option<super::waiting::WatchFuture>) -> Option<T>,
    ) -> Reply<T> {
        if self.closed.load(Ordering::Relaxed) {
            return Box::pin(ready(Err(RequestError::Closed)));
        }
        ask(&self.shared, self.client, request, convert)
    }

    /// A path, as the servers know it.
    fn full(&self, path: &str) -> String {
        match (self.chroot.as_str(), path) {
            ("", path) => path.to_owned(),
            (chroot, "/") => chroot.to_owned(),
            (chroot, path) => [chroot, path].concat(),
        }
    }

    fn done(&self, request: Request) -> Reply<()> {
        self.ask(request, |answer, _| (answer == Answer::Done).then_some(()))
    }

    /// Gives its part of the client up.
    fn let_go(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.shared.act(|machine| {
                if let Some(client) = machine.clients.get_mut(&self.client) {
                    client.over.get_or_insert(Link::Closed);
                    let mut wake = Vec::new();
                    client.tell_watchers(&mut wake);
                    for watching in client.watches.values_mut() {
                        wake.extend(watching.waker.take());
                    }
                    machine.wake.append(&mut wake);
                }
                machine.let_go(self.client);
            });
        }
    }
}

impl Drop for SimulatedCoordinator {
    fn drop(&mut self) {
        // Without a close, a watch learns it from the client.
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.shared.act(|machine| machine.let_go(self.client));
        }
    }
}

impl Coordinator for SimulatedCoordinator {
    fn session_id(&self) -> i64 {
        self.session
    }

    fn session_timeout(&self) -> Duration {
        self.timeout
    }

    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
        let request = Request::Create { path: self.full(path), data: data.to_vec(), kind };
        let created = self.ask(request, |answer, _| match answer {
            Answer::Created(created) => Some(created),
            _ => None,
        });
        let chroot = self.chroot.len();
        if chroot == 0 {
            return created;
        }
        Box::pin(async move {
            let created = created.await?;
            Ok(Created::new(&created.path[chroot..], created.stat))
        })
    }

    fn delete(&self, path: &str) -> Reply<()> {
        self.done(Request::Delete { path: self.full(path) })
    }

    fn children(&self, path: &str) -> Reply<Vec<String>> {
        let request = Request::Children { path: self.full(path), watch: false };
        self.ask(request, |answer, _| match answer {
            Answer::Children(names) => Some(names),
            _ => None,
        })
    }

    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
        let request = Request::Children { path: self.full(path), watch: true };
        self.ask(request, |answer, watch| match (answer, watch) {
            (Answer::Children(names), Some(watch)) => Some((names, Box::pin(watch) as Watch)),
            _ => None,
        })
    }

    /// It keeps none. Whoever asks wants to be heard, and is, as by a ping.
    fn acl(&self, _: &str) -> Reply<Option<Vec<AclEntry>>> {
        if self.closed.load(Ordering::Relaxed) {
            return Box::pin(ready(Err(RequestError::Closed)));
        }
        let heard = speak(&self.shared, self.client);
        Box::pin(async move { heard.await.map(|()| None) })
    }

    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        let request = Request::Get { path: self.full(path), watch: false };
        self.ask(request, |answer, _| match answer {
            Answer::Data(data, stat) => Some((data, stat)),
            _ => None,
        })
    }

    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let request = Request::Get { path: self.full(path), watch: true };
        self.ask(request, |answer, watch| match (answer, watch) {
            (Answer::Data(data, stat), Some(watch)) => Some((data, stat, Box::pin(watch) as Watch)),
            _ => None,
        })
    }

    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
        let request = Request::Set { path: self.full(path), data: data.to_vec() };
        self.ask(request, |answer, _| match answer {
            Answer::Stat(stat) => Some(stat),
            _ => None,
        })
    }

    fn multi(&self, mut operations: Vec<Operation>) -> Reply<()> {
        for operation in &mut operations {
            let (Operation::Check { path }
            | Operation::CheckVersion { path, .. }
            | Operation::Create { path, .. }
            | Operation::Set { path, .. }
            | Operation::Replace { path, .. }
            | Operation::Delete { path }) = operation;
            if !self.chroot.is_empty() {
                *path = self.full(path);
            }
        }
        self.done(Request::Multi(operations))
    }

    fn sync(&self, path: &str) -> Reply<()> {
        self.done(Request::Sync { path: self.full(path) })
    }

    fn link(&self) -> Link {
        self.shared.look(|machine| {
            let gone = self.end.get().copied().unwrap_or(Link::Closed);
            machine.clients.get(&self.client).map_or(gone, |client| client.link())
        })
    }

    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
        let look = move |client: &Client| Some(client.link()).filter(|link| *link != seen);
        Box::pin(Until::new(&self.shared, self.client, Link::Closed, look))
    }

    fn link_lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let changes = self
            .shared
            .look(|machine| machine.clients.get(&self.client).map_or(0, |client| client.changes));
        let look = move |client: &Client| (client.changes != changes).then_some(());
        Box::pin(Until::new(&self.shared, self.client, (), look))
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let look = |client: &Client| (client.phase == Phase::Over).then_some(());
        let over = Until::new(&self.shared, self.client, (), look);
        self.let_go();
        let until = self.process.moment(self.process.nanos() + CLOSE_WAIT);
        let limit = self.shared.world.sleep_until(until);
        Box::pin(or(over, limit))
    }
}
