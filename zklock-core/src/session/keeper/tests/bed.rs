//! A generation on the embedded coordinator, and what happens to it.

use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::sync::watch;

use crate::base::clock::Clock;
use crate::base::policy::StopAt;
use crate::base::session_state::SessionState;
use crate::base::times;
use crate::coordinator::access::AclEntry;
use crate::coordinator::connector::Connector;
use crate::coordinator::link::Link;
use crate::coordinator::memory::{Embedded, Faults};
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::coordinator::watch::Watch;
use crate::observe::observer::{Event, Events, Observer};
use crate::session::generation::{Generation, HeldNode};
use crate::session::health::SessionHealth;
use crate::session::keeper::{Keeping, keep};
use crate::session::lease_clock::LeaseClock;
use crate::session::local_queues::{LocalQueues, Place};
use crate::session::spawner::Spawner;
use crate::session::timing::Timing;
use crate::session::watch_budget::WatchBudget;

pub(super) const T: Duration = Duration::from_secs(12);

pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// A node that a stranger may write to whenever somebody reads it.
pub(super) const MEDDLED: &str = "/meddled";

pub(super) const PAYLOAD: &[u8] = b"who";

/// The embedded coordinator, which does not know when it was last in contact, and forgets
/// answers.
#[derive(Debug)]
struct Unaware {
    inner: Arc<dyn Coordinator>,
    forgets: Arc<AtomicU32>,
    forgotten: Arc<()>,
    multis: Arc<AtomicU32>,
    gets: Arc<AtomicU32>,
    writes: Arc<AtomicU32>,
    syncs: Arc<AtomicU32>,
    acls: Arc<AtomicU32>,
    refuses: Arc<AtomicBool>,
    meddles: Arc<AtomicBool>,
    panics: Arc<AtomicBool>,
    says: Says,
}

impl Unaware {
    fn panic_once(&self) {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "a coordinator that panics");
    }

    fn forget<T: Send + 'static>(&self, reply: Reply<T>) -> Reply<T> {
        let one_less = |left: u32| left.checked_sub(1);
        match self.forgets.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => {
                let forgotten = self.forgotten.clone();
                Box::pin(async move {
                    let _forgotten = forgotten;
                    pending().await
                })
            }
            Err(_) => reply,
        }
    }
}

impl Coordinator for Unaware {
    fn session_id(&self) -> i64 {
        self.inner.session_id()
    }
    fn session_timeout(&self) -> Duration {
        self.inner.session_timeout()
    }
    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
        self.forget(self.inner.create(path, data, kind))
    }
    fn delete(&self, path: &str) -> Reply<()> {
        self.forget(self.inner.delete(path))
    }
    fn children(&self, path: &str) -> Reply<Vec<String>> {
        self.panic_once();
        self.forget(self.inner.children(path))
    }
    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
        self.inner.children_watched(path)
    }
    fn acl(&self, path: &str) -> Reply<Option<Vec<AclEntry>>> {
        self.acls.fetch_add(1, Ordering::SeqCst);
        self.inner.acl(path)
    }
    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        let reply = self.inner.get(path);
        if path == MEDDLED && self.meddles.load(Ordering::SeqCst) {
            drop(self.inner.set(path, b"a stranger's"));
        }
        reply
    }
    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        self.forget(self.inner.get_watched(path))
    }
    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
        self.inner.set(path, data)
    }
    fn multi(&self, operations: Vec<Operation>) -> Reply<()> {
        self.multis.fetch_add(1, Ordering::SeqCst);
        self.panic_once();
        let written = |one: &Operation| matches!(one, Operation::Replace { .. });
        if let Some(index) = operations.iter().position(written) {
            self.writes.fetch_add(1, Ordering::SeqCst);
            if self.refuses.load(Ordering::SeqCst) {
                let error = Box::new(RequestError::NoAuth);
                return Box::pin(async move { Err(RequestError::Multi { index, error }) });
            }
        }
        self.forget(self.inner.multi(operations))
    }
    fn sync(&self, path: &str) -> Reply<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.inner.sync(path)
    }
    fn link(&self) -> Link {
        let says = *self.says.lock().unwrap();
        says.unwrap_or_else(|| self.inner.link())
    }
    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
        self.inner.link_changed(seen)
    }
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let says = *self.says.lock().unwrap();
        match says {
            None => self.inner.close(),
            Some(link) if link.is_over() => Box::pin(ready(())),
            Some(_) => {
                *self.says.lock().unwrap() = Some(Link::Closed);
                Box::pin(tokio::time::sleep(times::CLOSE))
            }
        }
    }
}

/// What the client says of its connection, if not what is true. Nobody answers its close then, unless it is
/// over.
type Says = Arc<Mutex<Option<Link>>>;

pub(super) struct Kept {
    pub(super) generation: Arc<Generation>,
    pub(super) faults: Faults,
    pub(super) forgets: Arc<AtomicU32>,
    /// Each request that is waited for, and whose answer is forgotten, has another one.
    forgotten: Arc<()>,
    pub(super) multis: Arc<AtomicU32>,
    pub(super) gets: Arc<AtomicU32>,
    /// How many of them wrote something.
    pub(super) writes: Arc<AtomicU32>,
    pub(super) syncs: Arc<AtomicU32>,
    pub(super) acls: Arc<AtomicU32>,
    /// Whether the server refuses writing.
    pub(super) refuses: Arc<AtomicBool>,
    /// Whether a stranger writes to [`MEDDLED`].
    pub(super) meddles: Arc<AtomicBool>,
    /// Whether the coordinator panics at the next list, or commit of several operations.
    pub(super) panics: Arc<AtomicBool>,
    says: Says,
    pub(super) local_queues: Arc<LocalQueues>,
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) state: watch::Receiver<SessionState>,
}

#[derive(Debug)]
struct Told(Mutex<mpsc::Sender<Event>>);

impl Observer for Told {
    fn event(&self, event: &Event) {
        let _ = self.0.lock().unwrap().send(event.clone());
    }
}

pub(super) async fn kept() -> Kept {
    kept_with(None).await
}

/// The same, on servers with this tick.
pub(super) async fn kept_with(tick: Option<Duration>) -> Kept {
    keeping(unkept_with(tick).await)
}

/// The same, below a chroot.
pub(super) async fn kept_below(chroot: &str) -> Kept {
    keeping(unkept_below(chroot, None).await)
}

fn keeping((kept, keeping): (Kept, Keeping)) -> Kept {
    tokio::spawn(keep(kept.generation.clone(), keeping));
    kept
}

/// The same, of which the keeper does not run.
pub(super) async fn unkept() -> (Kept, Keeping) {
    unkept_with(None).await
}

/// The same, on servers with this tick.
pub(super) async fn unkept_with(tick: Option<Duration>) -> (Kept, Keeping) {
    unkept_below("", tick).await
}

async fn unkept_below(chroot: &str, tick: Option<Duration>) -> (Kept, Keeping) {
    let store = Embedded::new();
    let coordinator = store.connector(T).connect().await.unwrap();
    let faults = store.faults(coordinator.session_id());
    let timing = Timing::of(T, tick).unwrap();
    let lease = LeaseClock::new(Clock::Caller, timing, Clock::Caller.now());
    let (sender, events_told) = mpsc::channel();
    let observer: Arc<dyn Observer> = Arc::new(Told(Mutex::new(sender)));
    let (spawner, events) = (Spawner::Inline, Events::to([observer]));
    let [forgets, multis, gets, writes, syncs, acls] =
        [const { AtomicU32::new(0) }; 6].map(Arc::new);
    let [refuses, meddles, panics] = [const { AtomicBool::new(false) }; 3].map(Arc::new);
    let (says, forgotten) = (Says::default(), Arc::default());
    let coordinator = Arc::new(Unaware {
        inner: coordinator,
        forgets: forgets.clone(),
        forgotten: Arc::clone(&forgotten),
        multis: multis.clone(),
        gets: gets.clone(),
        writes: writes.clone(),
        syncs: syncs.clone(),
        acls: acls.clone(),
        refuses: refuses.clone(),
        meddles: meddles.clone(),
        panics: panics.clone(),
        says: says.clone(),
    });
    let watches = WatchBudget::new(chroot);
    let generation = Generation::new(1, coordinator, lease, spawner, events, watches);
    let health = SessionHealth::connecting();
    let state = health.state().subscribe();
    let local_queues = LocalQueues::new(Place { servers: "keeper".into(), chroot: "".into() });
    let keeping = Keeping { health: health.of_another(), local_queues: local_queues.clone() };
    let kept = Kept {
        generation,
        faults,
        forgets,
        forgotten,
        multis,
        gets,
        writes,
        syncs,
        acls,
        refuses,
        meddles,
        panics,
        says,
        local_queues,
        events: events_told,
        state,
    };
    (kept, keeping)
}

impl Kept {
    pub(super) async fn hold(&self, path: &str, stop_at: StopAt) -> Arc<HeldNode> {
        self.hold_with(path, stop_at, PAYLOAD).await
    }

    pub(super) async fn hold_with(
        &self,
        path: &str,
        stop_at: StopAt,
        payload: &[u8],
    ) -> Arc<HeldNode> {
        let generation = &self.generation;
        let created = generation.create(path, b"", NodeKind::Ephemeral).await.unwrap();
        let term = generation.grantable(stop_at).unwrap();
        let payload = Some(payload.into());
        generation.hold(path.into(), "a".into(), created.stat.czxid, term, payload).unwrap()
    }

    /// Lets the client say this of its connection.
    pub(super) fn say(&self, link: Link) {
        *self.says.lock().unwrap() = Some(link);
    }

    /// How many requests are waited for whose answers are forgotten.
    pub(super) fn unanswered(&self) -> usize {
        // The bed has one, and the coordinator.
        Arc::strong_count(&self.forgotten) - 2
    }

    pub(super) fn is_valid(&self, node: &HeldNode) -> bool {
        self.generation.is_valid_at(node.term, Clock::Caller.now())
    }
}
