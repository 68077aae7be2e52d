//! Locks of every kind, taken in every way.

use std::future::Future;
use std::time::{Duration, Instant};

use zklock::{
    AnyLock, GuardView, LockError, LockOptions, Mutex, MutexGuard, RwLock, RwLockReadGuard,
    RwLockWriteGuard, Semaphore, SemaphorePermit, Session,
};
use zklock::{MultiGuard, MultiLock};
use zklock_test_support::Control;

use crate::bed::{Bed, soon, until};

/// A kind of lock, of which there is one in a test, under the name of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    Exclusive,
    Read,
    Write,
    /// Who writes where the [`Read`](Kind::Read) of a test reads.
    WriteThere,
    Permit,
    Permits,
    Multi,
}

pub(crate) const KINDS: [Kind; 8] = [
    Kind::Mutex,
    Kind::Fair,
    Kind::Exclusive,
    Kind::Read,
    Kind::Write,
    Kind::Permit,
    Kind::Permits,
    Kind::Multi,
];

/// How long a caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Forever,
    Once,
    For(Duration),
    /// As often and as long as the options say.
    Tries,
}

/// What a caller has.
#[derive(Debug)]
pub(crate) enum Held {
    Mutex(MutexGuard),
    Read(RwLockReadGuard),
    Write(RwLockWriteGuard),
    Permit(SemaphorePermit),
    Multi(MultiGuard),
}

macro_rules! each {
    ($held:expr, $guard:ident => $what:expr) => {
        match $held {
            Held::Mutex($guard) => $what,
            Held::Read($guard) => $what,
            Held::Write($guard) => $what,
            Held::Permit($guard) => $what,
            Held::Multi($guard) => $what,
        }
    };
}

/// Takes a lock in one of the ways, async or blocking.
macro_rules! take {
    ($lock:expr, $wait:expr, [$forever:ident, $once:ident, $for:ident, $tries:ident] $($await:tt)*) => {{
        let lock = $lock;
        match $wait {
            Wait::Forever => lock.$forever()$($await)*,
            Wait::Once => lock.$once()$($await)*,
            Wait::For(time) => lock.$for(time)$($await)*,
            Wait::Tries => lock.$tries()$($await)*,
        }
    }};
}

impl Kind {
    /// The name of its lock; none is the beginning of another.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::Fair => "fair",
            Kind::Exclusive => "exclusive",
            Kind::Read | Kind::WriteThere => "read",
            Kind::Write => "write",
            Kind::Permit => "permit",
            Kind::Permits => "several",
            Kind::Multi => "multi",
        }
    }

    /// Who keeps this kind out.
    pub(crate) fn rival(self) -> Self {
        if self == Kind::Read { Kind::WriteThere } else { self }
    }

    fn mutex(self, session: &Session, options: LockOptions) -> Mutex {
        let options = if self == Kind::Fair { options.fair(true) } else { options };
        let mutex = session.mutex(self.name()).unwrap().with_options(options);
        if self == Kind::Exclusive { mutex.with_driver(zklock::layout::OneNode) } else { mutex }
    }

    fn rw_lock(self, session: &Session, options: LockOptions) -> RwLock {
        session.rw_lock(self.name()).unwrap().with_options(options)
    }

    /// One permit of one, or two of three: either excludes a second.
    fn semaphore(self, session: &Session, options: LockOptions) -> Semaphore {
        let limit = if self == Kind::Permit { 1 } else { 3 };
        session.semaphore(self.name(), limit).unwrap().with_options(options)
    }

    fn permits(self) -> u32 {
        if self == Kind::Permit { 1 } else { 2 }
    }

    fn multi(self, session: &Session, options: LockOptions) -> MultiLock {
        let mutex = session.mutex("multi/b").unwrap().with_options(options);
        let read = session.rw_lock("multi/a").unwrap().with_options(options);
        MultiLock::new([AnyLock::Mutex(mutex), AnyLock::Read(read)]).unwrap()
    }

    /// Takes it.
    pub(crate) async fn take(
        self,
        session: &Session,
        options: LockOptions,
        wait: Wait,
    ) -> Result<Held, LockError> {
        Ok(match self {
            Kind::Mutex | Kind::Fair | Kind::Exclusive => Held::Mutex(take!(
                self.mutex(session, options),
                wait,
                [acquire, try_acquire, acquire_timeout, acquire_tries].await
            )?),
            Kind::Read => Held::Read(take!(
                self.rw_lock(session, options),
                wait,
                [read, try_read, read_timeout, read_tries].await
            )?),
            Kind::Write | Kind::WriteThere => Held::Write(take!(
                self.rw_lock(session, options),
                wait,
                [write, try_write, write_timeout, write_tries].await
            )?),
            Kind::Permit | Kind::Permits => {
                let (lock, permits) = (self.semaphore(session, options), self.permits());
                Held::Permit(match (wait, permits) {
                    (Wait::Forever, 1) => lock.acquire().await?,
                    (Wait::Once, 1) => lock.try_acquire().await?,
                    (Wait::For(time), 1) => lock.acquire_timeout(time).await?,
                    (Wait::Forever, _) => lock.acquire_many(permits).await?,
                    (Wait::Once, _) => lock.try_acquire_many(permits).await?,
                    (Wait::For(time), _) => lock.acquire_many_timeout(permits, time).await?,
                    (Wait::Tries, _) => lock.acquire_many_tries(permits).await?,
                })
            }
            Kind::Multi => Held::Multi(take!(
                self.multi(session, options),
                wait,
                [acquire, try_acquire, acquire_timeout, acquire_tries].await
            )?),
        })
    }

    /// Takes it on this thread.
    pub(crate) fn take_blocking(
        self,
        session: &Session,
        options: LockOptions,
        wait: Wait,
    ) -> Result<Held, LockError> {
        Ok(match self {
            Kind::Mutex | Kind::Fair | Kind::Exclusive => Held::Mutex(take!(
                self.mutex(session, options),
                wait,
                [
                    blocking_acquire,
                    blocking_try_acquire,
                    blocking_acquire_timeout,
                    blocking_acquire_tries
                ]
            )?),
            Kind::Read => Held::Read(take!(
                self.rw_lock(session, options),
                wait,
                [blocking_read, blocking_try_read, blocking_read_timeout, blocking_read_tries]
            )?),
            Kind::Write | Kind::WriteThere => Held::Write(take!(
                self.rw_lock(session, options),
                wait,
                [blocking_write, blocking_try_write, blocking_write_timeout, blocking_write_tries]
            )?),
            Kind::Permit | Kind::Permits => {
                let (lock, permits) = (self.semaphore(session, options), self.permits());
                Held::Permit(match (wait, permits) {
                    (Wait::Forever, 1) => lock.blocking_acquire()?,
                    (Wait::Once, 1) => lock.blocking_try_acquire()?,
                    (Wait::For(time), 1) => lock.blocking_acquire_timeout(time)?,
                    (Wait::Forever, _) => lock.blocking_acquire_many(permits)?,
                    (Wait::Once, _) => lock.blocking_try_acquire_many(permits)?,
                    (Wait::For(time), _) => lock.blocking_acquire_many_timeout(permits, time)?,
                    (Wait::Tries, _) => lock.blocking_acquire_many_tries(permits)?,
                })
            }
            Kind::Multi => Held::Multi(take!(
                self.multi(session, options),
                wait,
                [
                    blocking_acquire,
                    blocking_try_acquire,
                    blocking_acquire_timeout,
                    blocking_acquire_tries
                ]
            )?),
        })
    }

    /// Takes it, with the defaults, for as long as it takes.
    pub(crate) async fn acquire(self, session: &Session) -> Held {
        self.take(session, LockOptions::default(), Wait::Forever).await.unwrap()
    }

    /// Waits for it in a task of its own.
    pub(crate) fn acquiring(self, session: &Session) -> tokio::task::JoinHandle<Held> {
        let session = session.clone();
        tokio::spawn(async move { soon("the lock", self.acquire(&session)).await })
    }

    /// The same; answers when it was granted, too.
    pub(crate) fn granted(self, session: &Session) -> tokio::task::JoinHandle<(Held, Instant)> {
        let waiting = self.acquiring(session);
        tokio::spawn(async move { (waiting.await.unwrap(), Instant::now()) })
    }
}

impl Held {
    pub(crate) fn is_valid(&self) -> bool {
        each!(self, guard => guard.is_valid())
    }

    pub(crate) fn remaining(&self) -> Duration {
        each!(self, guard => guard.remaining())
    }

    pub(crate) async fn lost(&self) {
        each!(self, guard => guard.lost().await)
    }

    pub(crate) async fn revoked(&self) {
        each!(self, guard => guard.revoked().await)
    }

    /// Does something inside.
    pub(crate) async fn scope<F: Future>(&self, body: F) -> F::Output {
        each!(self, guard => guard.scope(body).await)
    }

    pub(crate) async fn release(self) -> Result<(), LockError> {
        each!(self, guard => guard.release().await)
    }

    pub(crate) fn blocking_release(self) -> Result<(), LockError> {
        each!(self, guard => guard.blocking_release())
    }

    /// The paths of its nodes, one of each lock.
    pub(crate) fn paths(&self) -> Vec<&str> {
        match self {
            Held::Multi(guard) => guard.members().iter().map(|member| member.node_path()).collect(),
            one => vec![one.node_path()],
        }
    }

    /// What can be asked of it; of several all together.
    pub(crate) fn view(&self) -> GuardView {
        each!(self, guard => guard.view())
    }

    /// The path of its node; of several the last.
    pub(crate) fn node_path(&self) -> &str {
        match self {
            Held::Mutex(guard) => guard.node_path(),
            Held::Read(guard) => guard.node_path(),
            Held::Write(guard) => guard.node_path(),
            Held::Permit(guard) => guard.node_path(),
            Held::Multi(guard) => guard.members().last().unwrap().node_path(),
        }
    }

    /// Its token, as text that sorts.
    pub(crate) fn token(&self) -> String {
        match self {
            Held::Mutex(guard) => guard.fencing_token().to_string(),
            Held::Read(guard) => guard.fencing_token().to_string(),
            Held::Write(guard) => guard.fencing_token().to_string(),
            Held::Permit(guard) => guard.fencing_token().to_string(),
            Held::Multi(guard) => {
                let tokens = guard.fencing_tokens();
                tokens.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
        }
    }
}

/// Holds one lock of each kind.
pub(crate) async fn all(session: &Session, options: LockOptions) -> Vec<(Kind, Held)> {
    let mut all = Vec::new();
    for kind in KINDS {
        all.push((kind, kind.take(session, options, Wait::Forever).await.unwrap()));
    }
    all
}

/// Waits until a guard is lost; answers for how long since.
pub(crate) async fn lost(kind: Kind, held: &Held, since: Instant) -> Duration {
    soon(&format!("the loss of {kind:?}"), held.lost()).await;
    let took = since.elapsed();
    assert!(!held.is_valid() && held.remaining().is_zero(), "{kind:?}");
    took
}

/// The answers until a waiter is granted what is free: the list, and for permits the next node and the next list.
pub(crate) const NEXT: u32 = 3;

/// Another has it at once, with a greater token; who lost it is told so, also by the release.
pub(crate) async fn had_by_another(
    kind: Kind,
    held: Held,
    waiting: tokio::task::JoinHandle<(Held, Instant)>,
    (control, free): (&Control, Instant),
) {
    let (next, granted) = soon("the next", waiting).await.unwrap();
    let took = granted.saturating_duration_since(free);
    control.within_answers(&format!("{kind:?}: the next"), took, Duration::ZERO, NEXT);
    assert!(next.token() > held.token() || kind == Kind::Permits, "{kind:?}");
    assert!(!held.is_valid());
    let error = held.release().await.unwrap_err();
    assert!(error.is_lost(), "{kind:?}: {error}");
    assert!(next.is_valid());
    next.release().await.unwrap();
}

impl Bed {
    /// Deletes a node as somebody else does.
    pub(crate) fn delete(&self, path: &str) {
        let mut raw = self.raw();
        raw.delete(path).unwrap();
        raw.close().unwrap();
    }

    /// Waits until a session with one connection waits for what is held: it watches the node, or has one of its own
    /// among the permits.
    pub(crate) async fn until_awaited(&self, kind: Kind, held: &Held, by: &Session) {
        let permits = match kind {
            Kind::Permit => 1,
            Kind::Permits => 3,
            _ => {
                let watches = |path: &String| path == held.node_path();
                let watched = || self.watched_by(by).iter().any(watches).then_some(());
                return until("it is awaited", watched).await;
            }
        };
        self.until_nodes(&format!("{}/leases", kind.name()), permits + 1).await;
    }
}
