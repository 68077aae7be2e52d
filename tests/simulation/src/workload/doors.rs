//! The ways into a lock: handles of each kind, templates, and guarded functions.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_lite::FutureExt as _;
use futures_lite::future::{or, zip};
use zklock::layout::Kazoo;
use zklock::{Acl, AnyGuard, AnyLock, ErrorKind, MultiLock, OnLost, SessionRegistry};
use zklock::{LockError, LockOptions, LockTemplate, LockTemplateExt, Session, ZkLockTemplate};
use zklock::{carry_sync, current, is_held_in_scope, zk_locked};
use zklock_core::coordinator::operation::Operation;

use super::bodies::AtomicRan;
use super::polls::cut_short;
use super::scares::Frightened;
use super::task::Task;
use crate::rules;

/// How long those wait who come in by a door: so often so long.
const WAIT: Duration = Duration::from_millis(500);
const TRIES: u32 = 2;

/// Where a guarded function takes its lock, and what it does then.
pub(super) struct Call<'a> {
    task: &'a Task,
    pub(super) session: Session,
    pub(super) options: LockOptions,
    pub(super) name: String,
    begun: AtomicU32,
    /// What became of its body.
    ran: AtomicRan,
    /// When the call began, by the clock of its process, and how often that had been paused.
    since: (u64, u32),
    /// Whether one that need not take its lock takes it.
    locks: bool,
}

impl Call<'_> {
    /// The body of a guarded function.
    async fn body(&self) {
        self.has_begun();
        self.ran.begins();
        self.task.check_deadline(self.since, WAIT * TRIES);
        let guard = current();
        let valid = guard.is_valid() && !guard.remaining().is_zero();
        let named = guard.lock_name().is_some() && guard.fencing_token().is_some();
        if !named || (!valid && self.task.crew.ledger.quiet_for(self.task.crew.timeout)) {
            let what = format!("{}: {guard:?} in the body", self.task.name);
            self.task.crew.ledger.fail(rules::BODY, what);
        }
        self.task.panics();
        let long = self.task.lose_in_a_body(&guard).unwrap_or_else(|| self.task.short());
        let ends = async { or(guard.lost(), guard.revoked()).await };
        or(self.task.sleep(long), ends).await;
        self.task.panics();
        self.ran.ends(guard.is_valid());
    }

    /// The body begins, or what is done instead of it.
    pub(super) fn has_begun(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// A lock that all who come in by the same door take too.
    fn other(&self) -> &'static str {
        "other"
    }

    async fn succeed(&self) -> Result<(), LockError> {
        self.body().await;
        Ok(())
    }
}

/// A session that all see by this name, until this is dropped.
struct Registered<'a>(&'a str);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        drop(SessionRegistry::global().remove(Some(self.0)));
    }
}

/// What a function of a user returns where it fails.
#[derive(Debug)]
enum Failed {
    Lock(LockError),
    Own,
}

impl From<LockError> for Failed {
    fn from(error: LockError) -> Self {
        Failed::Lock(error)
    }
}

/// The error of the lock, if it was not the function's own.
fn of_the_lock(answer: Result<(), Failed>) -> Result<(), LockError> {
    match answer {
        Err(Failed::Lock(error)) => Err(error),
        Err(Failed::Own) | Ok(()) => Ok(()),
    }
}

#[zk_locked("doors/{call.name}", session = call.session, options = call.options)]
async fn alone(call: &Call<'_>) -> Result<(), LockError> {
    call.succeed().await
}

#[zk_locked("doors/{call.name}", mode = read, session = call.session, options = call.options, label = "reads {call.name}")]
async fn reads(call: &Call<'_>) -> Result<(), LockError> {
    call.succeed().await
}

#[zk_locked("doors/{call.name}", mode = write, session = call.session, options = call.options, driver = Kazoo::default())]
async fn writes(call: &Call<'_>) -> Result<(), LockError> {
    call.succeed().await
}

#[zk_locked("doors/{call.name}", mode = semaphore(2), session = call.session, options = call.options)]
async fn one_of_two(call: &Call<'_>) -> Result<(), LockError> {
    call.succeed().await
}

#[zk_locked("doors", key = call.name, key = call.other(), session = call.session, options = call.options)]
async fn both(call: &Call<'_>) -> Result<(), LockError> {
    call.succeed().await
}

#[zk_locked("doors/skipped", session = call.session, options = call.options, try_once, on_busy = skip)]
async fn skips(call: &Call<'_>) -> Result<Option<()>, LockError> {
    call.body().await;
    Ok(Some(()))
}

#[zk_locked("doors/{call.name}", session = call.session, options = call.options, on_error = |error| Err(Failed::Lock(error)))]
async fn answers(call: &Call<'_>) -> Result<(), Failed> {
    call.body().await;
    Err(Failed::Own)
}

#[zk_locked("doors/{call.name}", session = call.session, options = call.options, map_err = Failed::Lock, condition = call.locks)]
async fn perhaps(call: &Call<'_>) -> Result<(), Failed> {
    let held = is_held_in_scope(format!("doors/{}", call.name));
    if call.locks {
        call.body().await;
    } else {
        call.has_begun();
        if held {
            let what = format!("{}: has a lock that it does not want", call.task.name);
            call.task.crew.ledger.fail(rules::BODY, what);
        }
    }
    Ok(())
}

#[zk_locked("doors/{call.name}", session = call.session, options = call.options)]
#[allow(clippy::manual_async_fn, reason = "this form is what is tried")]
fn in_a_block(call: &Call<'_>) -> impl Future<Output = Result<(), LockError>> {
    async move { call.succeed().await }
}

#[zk_locked("doors/{name}", session = session)]
async fn by_a_registered_name(session: &str, name: &str) -> Result<bool, LockError> {
    Ok(is_held_in_scope(format!("doors/{name}")))
}

/// A name that is not written where it is used.
const CONSTANT: &str = "constant";

#[zk_locked(CONSTANT, namespace = "doors", session = call.session, options = call.options, on_busy = |_| Err(Failed::Own))]
async fn is_told(call: &Call<'_>) -> Result<(), Failed> {
    call.body().await;
    Ok(())
}

impl Task {
    /// Acquires by the methods of its kind.
    pub(super) async fn acquire_by_kind(
        asked: &AnyLock,
        how: u32,
        timeout: Duration,
    ) -> Result<AnyGuard, LockError> {
        Ok(match asked {
            AnyLock::Mutex(lock) => AnyGuard::Mutex(match how {
                0..=2 => lock.acquire().await?,
                3 => lock.try_acquire().await?,
                4 => lock.acquire_timeout(timeout).await?,
                _ => lock.acquire_tries().await?,
            }),
            AnyLock::Read(lock) => AnyGuard::Read(match how {
                0..=2 => lock.read().await?,
                3 => lock.try_read().await?,
                4 => lock.read_timeout(timeout).await?,
                _ => lock.read_tries().await?,
            }),
            AnyLock::Write(lock) => AnyGuard::Write(match how {
                0..=2 => lock.write().await?,
                3 => lock.try_write().await?,
                4 => lock.write_timeout(timeout).await?,
                _ => lock.write_tries().await?,
            }),
            AnyLock::Permits(lock, 1) => AnyGuard::Permits(match how {
                0..=2 => lock.acquire().await?,
                3 => lock.try_acquire().await?,
                4 => lock.acquire_timeout(timeout).await?,
                _ => lock.acquire_tries().await?,
            }),
            AnyLock::Permits(lock, permits) => AnyGuard::Permits(match how {
                0..=2 => lock.acquire_many(*permits).await?,
                3 => lock.try_acquire_many(*permits).await?,
                4 => lock.acquire_many_timeout(*permits, timeout).await?,
                _ => lock.acquire_many_tries(*permits).await?,
            }),
            // Other kinds have these methods only.
            other => Task::acquire(other, how).await?,
        })
    }

    /// Whether the node that is in the way is there, of a session that the servers have not given up, and its client
    /// has, or its process uses it no more: one that stood still for too long opens another, and its deletions wait.
    fn is_left(&self, call: &Call<'_>, error: &LockError) -> bool {
        let ensemble = self.crew.ledger.store().ensemble();
        let used = self.session.zookeeper_session().map(|used| used.id);
        let has_stood_still = self.process.pauses() > call.since.1;
        // Who waits for a permit is not told by whose node.
        let node = error.holder().map(|holder| &*holder.node);
        let nodes = ensemble.ephemerals(&format!("/zklock/doors/{}/", call.name));
        let mut nodes = nodes.iter().filter(|path| node.is_none_or(|node| path.ends_with(node)));
        nodes.any(|path| {
            ensemble.life(path, None).is_some_and(|life| {
                let owner = life.owner;
                let is_unused = used != Some(owner) && ensemble.is_of(owner, &self.process);
                !ensemble.has_client(owner) || has_stood_still && is_unused
            })
        })
    }

    /// Comes in by one of the ways that are not drawn for the locks of all, for a lock of its own.
    pub(super) async fn come_in(&self) {
        let (begun, name) = (AtomicU32::new(0), format!("{}", self.process.world().unique()));
        let options = LockOptions::new().timeout(WAIT).retries(TRIES);
        let options = match self.choose(4) {
            1 => options.on_lost(OnLost::Finish),
            2 => options.fair(true),
            3 => options.hold_at_most(Duration::from_millis(20)),
            _ => options,
        };
        let (door, session) = (self.choose(26), self.session.clone());
        let locks = door == 8 && self.choose(2) == 1;
        let since = (self.process.nanos(), self.process.pauses());
        let ran = AtomicRan::default();
        let call = Call { task: self, session, options, name, begun, ran, since, locks };
        self.say(|| format!("comes in by door {door}"));
        let cut = self.cut(20);
        let coming_in = AssertUnwindSafe(self.by_door(door, &call)).catch_unwind();
        let answer = match cut_short(self.process.world(), coming_in, cut).await {
            Some(Ok(Some(answer))) => answer,
            Some(Ok(None)) => return,
            Some(Err(panic)) => return self.has_panicked(panic, &format!("doors/{}", call.name)),
            None => {
                self.say(|| "is dropped".to_owned());
                return self.check_let_go(&format!("doors/{}", call.name));
            }
        };
        let begun = call.begun.load(Ordering::Relaxed);
        // Those by which several calls are made, one after the other.
        if begun == 0 && !matches!(door, 16 | 17 | 22..) {
            self.check_deadline(call.since, WAIT * TRIES);
        }
        self.check_ran(&call.ran, answer.as_ref());
        match answer {
            Ok(()) if begun == 1 => {}
            Ok(()) => {
                let what = format!("{}: Ok, body {begun} by door {door}", self.name);
                self.crew.ledger.fail(rules::BODY, what);
            }
            // The others who come in by this door.
            Err(error) if error.is_busy() && door == 4 => self.crew.ledger.refused(),
            // Where its session was replaced, the servers perhaps keep a node of the one before.
            Err(error) if error.is_busy() && self.is_left(&call, &error) => {
                self.crew.ledger.refused();
            }
            Err(error) if error.is_busy() => {
                self.crew.ledger.fail(rules::ERROR, format!("{}: {error:#}", self.name));
            }
            Err(error) => self.judge_body(call.options.hold_at_most, call.since.0, &error),
        }
    }

    /// Comes in by a door; `None` where that says that nothing was done.
    async fn by_door(&self, door: u32, call: &Call<'_>) -> Option<Result<(), LockError>> {
        Some(match door {
            0 => alone(call).await,
            1 => reads(call).await,
            2 => writes(call).await,
            3 => one_of_two(call).await,
            4 => both(call).await,
            5 => in_a_block(call).await,
            6 => match skips(call).await {
                Ok(None) => return None,
                other => other.map(drop),
            },
            7 => of_the_lock(answers(call).await),
            8 => of_the_lock(perhaps(call).await),
            21 => match is_told(call).await {
                Err(Failed::Own) => return None,
                other => of_the_lock(other),
            },
            9..=15 => self.by_template(call, door - 9).await,
            16 => self.by_name(call).await,
            17 => self.write_under(call).await,
            18 => self.detach(call).await,
            19 => self.take_both(call).await,
            20 => self.ask_the_session(call).await,
            22 => self.look_from_outside(call).await,
            23 => match self.is_asked_to_let_go(call).await {
                Some(answer) => answer,
                None => return None,
            },
            24 => self.in_another_session(call).await,
            _ => self.drain(call).await,
        })
    }

    async fn by_template(&self, call: &Call<'_>, which: u32) -> Result<(), LockError> {
        let template = ZkLockTemplate::new(call.session.clone()).with_options(call.options);
        let name = format!("doors/{}", call.name);
        let two = [name.clone(), format!("{name}-too")];
        let failing = || async {
            call.body().await;
            Ok::<(), Failed>(())
        };
        match which {
            0 => template.execute(name, || call.body()).await,
            1 => template.read().execute(name, || call.body()).await,
            2 => template.execute_all(two, || call.body()).await,
            3 => {
                let template: &dyn LockTemplate = &template;
                template.execute(name, || call.body()).await
            }
            4 => {
                let template: &dyn LockTemplate = &template;
                of_the_lock(template.execute_fallible(name, failing).await)
            }
            5 => of_the_lock(template.execute_fallible(name, failing).await),
            _ => of_the_lock(template.execute_all_fallible(two, failing).await),
        }
    }

    /// By the name of a session: of one that all see, and of one that is installed for the tests.
    async fn by_name(&self, call: &Call<'_>) -> Result<(), LockError> {
        // Schedules that run side by side share the registry.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("of {}", NEXT.fetch_add(1, Ordering::Relaxed));
        let registry = SessionRegistry::global();
        if by_a_registered_name(&name, &call.name).await.is_ok() {
            self.crew
                .ledger
                .fail(rules::BODY, format!("{}: there is no session {name}", self.name));
        }
        registry.register(Some(&name), call.session.clone());
        let registered = Registered(&name);
        let held = by_a_registered_name(&name, &call.name).await;
        drop(registered);
        if held? {
            call.has_begun();
        }
        let installed = registry.install_here(Some(&name), call.session.clone());
        let again = by_a_registered_name(&name, &call.name).await;
        drop(installed);
        again.map(drop)
    }

    /// A guard that leaves its scope, and one that is asked what it is.
    async fn detach(&self, call: &Call<'_>) -> Result<(), LockError> {
        let name = format!("doors/{}", call.name);
        let lock = call.session.rw_lock(name.clone())?.with_options(call.options);
        let guard = lock.write_tries().await?.detach();
        let seen = guard.scope_sync(|| carry_sync(|| is_held_in_scope(name.as_str()))());
        let inside = guard.scope(async { is_held_in_scope(name.as_str()) }).await;
        let here = guard.scope_sync(|| lock.is_write_held_in_scope() && lock.is_held_in_scope());
        let valid = guard.is_valid();
        if (!seen || !inside || !here) && valid {
            let what = format!("{}: is held {seen} and {inside}, here {here}", self.name);
            self.crew.ledger.fail(rules::NESTED, what);
        }
        let told = format!("{guard:?} with {:?}", guard.fencing_tokens());
        self.say(|| told);
        let waits = async { or(guard.revoked(), guard.lost()).await };
        or(self.sleep(self.short()), waits).await;
        call.has_begun();
        AnyGuard::Write(guard).detach().release().await
    }

    /// Two locks as one, by each of its methods.
    async fn take_both(&self, call: &Call<'_>) -> Result<(), LockError> {
        let name = format!("doors/{}", call.name);
        let read =
            AnyLock::Read(call.session.rw_lock(format!("{name}-read"))?.with_options(call.options));
        let mutex: AnyLock = call.session.mutex(name)?.with_options(call.options).into();
        let both = MultiLock::new([mutex, read])?;
        let (members, of_none) = (both.members().len(), MultiLock::new(Vec::<AnyLock>::new()));
        if members != 2 || of_none.is_ok() {
            self.crew.ledger.fail(rules::ERROR, format!("{}: {members} members", self.name));
        }
        let guard = match self.choose(3) {
            0 => both.try_acquire().await?,
            1 => both.acquire_timeout(Duration::from_millis(500)).await?,
            _ => both.acquire_tries().await?,
        };
        let held = guard.scope_sync(|| current().lock_name().is_some());
        let inside = guard.scope(async { current().is_valid() }).await;
        let told = format!("{guard:?} with {held} and {inside}, {:?}", guard.fencing_tokens());
        self.say(|| told);
        call.has_begun();
        guard.detach().release().await
    }

    /// What a session tells of itself.
    async fn ask_the_session(&self, call: &Call<'_>) -> Result<(), LockError> {
        let session = &call.session;
        let mut states = session.states();
        let lock = session
            .mutex(format!("doors/{}", call.name))?
            .with_driver(zklock::layout::OneNode)
            .with_options(call.options);
        let guard = lock.acquire_tries().await?;
        let first = or(async { states.next().await }, async {
            self.sleep(1_000).await;
            None
        });
        let first = first.await;
        let valid = guard.is_valid();
        let held = session.local_contenders().iter().any(|one| &*one.lock == guard.lock_name());
        let here = guard.scope_sync(|| lock.is_held_in_scope()) && !lock.is_held_in_scope();
        if valid && !(here && held) {
            let what =
                format!("{}: {} is not held, says its session", self.name, guard.node_path());
            self.crew.ledger.fail(rules::ERROR, what);
        }
        let (timing, id) = (session.timing(), session.zookeeper_session());
        let (defaults, own) = (session.defaults(), lock.options());
        let told = format!("{session:?} {first:?} {timing:?} {id:?} {defaults:?} {own:?}");
        self.say(|| told);
        call.has_begun();
        guard.release().await
    }

    /// In a session with settings of its own.
    async fn in_another_session(&self, call: &Call<'_>) -> Result<(), LockError> {
        let Some((session, label)) = self.another_session_with(|builder| {
            builder
                .root("/doors")
                .app("doors")
                .observer(Arc::new(Frightened))
                .defaults(LockOptions::new().timeout(Duration::from_millis(500)))
                .warn_waiting(Duration::from_millis(5))
                .warn_holding(Duration::from_millis(5))
                .max_connections(1)
                .driver(Kazoo::default())
                .acl(Acl::Open)
                .auth("digest", "user:word")
        }) else {
            return Ok(());
        };
        let lock = session.mutex(call.name.as_str())?;
        let one = lock.acquire_tries().await;
        let other = async {
            drop(lock.acquire_tries().await);
        };
        let hold = async {
            self.sleep(20_000).await;
            match one {
                Ok(guard) => guard.release().await,
                Err(error) => Err(error),
            }
        };
        let (released, ()) = zip(hold, other).await;
        let draining = session.drain(Duration::from_millis(1));
        let left = cut_short(self.process.world(), draining, self.cut(4)).await.unwrap_or_default();
        // Also one that was dropped.
        let refused = lock.try_acquire().await.is_err();
        if !left.is_empty() || !refused {
            let what = format!("{}: {left:?} is held while it drains, {refused}", self.name);
            self.crew.ledger.fail(rules::ERROR, what);
        }
        self.close(session, label).await;
        call.has_begun();
        released
    }

    /// A session that drains, and meanwhile loses what is held in it.
    async fn drain(&self, call: &Call<'_>) -> Result<(), LockError> {
        let Some((session, label)) = self.another_session() else { return Ok(()) };
        let lock = session.mutex(format!("doors/{}", call.name))?.with_options(call.options);
        let answer = lock.acquire_tries().await;
        if let Ok(guard) = &answer {
            self.lose_while_it_drains(&session, guard.node_path().to_owned()).await;
        }
        let released = match answer {
            Ok(guard) => guard.release().await,
            Err(error) => Err(error),
        };
        self.close(session, label).await;
        call.has_begun();
        released.or_else(|error| (error.kind() == ErrorKind::Lost).then_some(()).ok_or(error))
    }

    /// An outsider deletes a node that is held in a session that drains.
    async fn lose_while_it_drains(&self, session: &Session, path: String) {
        let (world, ledger, timeout) = (self.process.world(), &self.crew.ledger, self.crew.timeout);
        let draining = async {
            let left = session.drain(Duration::from_micros(4 * timeout)).await;
            (left, world.now())
        };
        let deletion = async {
            self.sleep(self.short()).await;
            ledger.store().meddle();
            ledger.store().ensemble().outsider(Operation::Delete { path });
            world.now()
        };
        let ((left, end), deleted) = zip(draining, deletion).await;
        let long = end.saturating_sub(deleted);
        if ledger.calm_for(long + timeout) && (long > timeout || !left.is_empty()) {
            let what = format!("{}: {left:?} is left after {long} µs", self.name);
            ledger.fail(rules::DRAINED, what);
        }
    }
}
