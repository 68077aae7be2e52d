//! A task: it asks for locks, again and again, and at the end it wants each of them once more.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_lite::FutureExt as _;
use zklock_core::base::cancel_policy::OnLost;
use zklock_core::base::error::LockError;
use zklock_core::base::error_kind::ErrorKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::guard::view::GuardView;
use zklock_core::layout::Kazoo;
use zklock_core::lock::{AnyGuard, AnyLock};
use zklock_core::run::template::ZkLockTemplate;
use zklock_core::session::{Session, SessionBuilder};

use super::bodies::AtomicRan;
use super::corners::Together;
use super::plan::{Family, Layout, LockPlan};
use super::polls::{Cut, cut_off, cut_short, nervously};
use crate::ensemble::Connecting;
use crate::executor::{Process, current_task};
use crate::host::Host;
use crate::profile::{Faults, Profile};
use crate::rules::{self, Caller, Entry, Ledger};

/// What those are told who use a semaphore with another identifier than others of their process.
const ANOTHER_LAYOUT: &str = "already uses it in the layout";

/// What the tasks of a schedule share.
#[derive(Debug)]
pub struct Crew {
    /// Who holds what.
    pub ledger: Arc<Ledger>,
    /// The locks.
    pub locks: Vec<LockPlan>,
    /// What the schedule is about.
    pub profile: Profile,
    /// The session timeout, in microseconds.
    pub timeout: u64,
    /// The servers' tick, in microseconds.
    pub tick: u64,
    /// Whether there are no more faults.
    pub calm: AtomicBool,
    /// How many tasks have not asked for everything yet.
    pub busy: AtomicU32,
    /// How many tasks are not done.
    pub running: AtomicU32,
    /// Whether a directory is close to its last number.
    pub exhausted: AtomicBool,
    /// How many nodes a server shows that its leader does not know.
    pub planted: AtomicU32,
    /// What the tasks of a corner know of each other.
    pub together: Arc<Together>,
}

impl Crew {
    /// Whether some task has not asked for everything yet.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }
}

/// A task of a process.
pub(super) struct Task {
    pub(super) crew: Arc<Crew>,
    pub(super) process: Process,
    pub(super) session: Session,
    pub(super) name: String,
    /// The task that acquired what it holds, if that is another one.
    pub(super) origin: Option<Caller>,
}

/// Counts a task as long as it is not dropped.
pub(super) struct Count(Arc<Crew>, fn(&Crew) -> &AtomicU32);

impl Count {
    pub(super) fn new(crew: &Arc<Crew>, of: fn(&Crew) -> &AtomicU32) -> Self {
        of(crew).fetch_add(1, Ordering::Relaxed);
        Count(crew.clone(), of)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.1(&self.0).fetch_sub(1, Ordering::Relaxed);
    }
}

/// A task.
pub fn run(
    crew: &Arc<Crew>,
    process: Process,
    session: Session,
    number: u32,
) -> impl Future<Output = ()> + Send + 'static + use<> {
    let name = format!("task {}.{number}", process.id().0);
    let counts = (Count::new(crew, |crew| &crew.running), Count::new(crew, |crew| &crew.busy));
    let (world, wakers) = (process.world().clone(), crew.profile.wakers);
    let task = Task { crew: crew.clone(), process, session, name, origin: None };
    async move { nervously(&world, go(task, number, counts), wakers).await }
}

async fn go(mut task: Task, number: u32, (_running, busy): (Count, Count)) {
    let crew = task.crew.clone();
    let twin = crew.profile.twins.then(|| task.another_session()).flatten();
    let mut twin = twin.map(|(twin, _)| twin);
    {
        let _busy = busy;
        task.sleep(u64::from(task.choose(40)) * 1_000).await;
        if crew.profile.traffic && number == 0 {
            task.make_traffic().await;
        } else {
            for _ in 0..crew.profile.rounds {
                if crew.ledger.is_closing(&task.process) {
                    break;
                }
                task.round().await;
                task.rest().await;
                if let Some(twin) = &mut twin {
                    std::mem::swap(&mut task.session, twin);
                }
            }
        }
    }
    // Whoever is served now is helped by nobody who comes later.
    while !crew.calm.load(Ordering::Relaxed) || crew.busy.load(Ordering::Relaxed) > 0 {
        task.sleep(100_000).await;
    }
    for lock in 0..crew.locks.len() {
        if crew.ledger.is_closing(&task.process) {
            break;
        }
        task.at_last(lock).await;
    }
    // The other one of the two is closed by who opened it.
    if let Some(twin) = twin {
        crew.ledger.closes(&task.process);
        twin.close().await;
        task.session.close().await;
    }
}

/// Closes a session that was opened under a label, as began at a moment. If a first call is dropped, it goes on
/// by itself, and another one perhaps waits for it.
pub(crate) async fn close(
    crew: &Crew,
    (process, label): (&Process, u64),
    session: &Session,
    begun: u64,
) {
    let world = process.world();
    if world.seldom(2, crew.profile.cancels) == 1 {
        let cut = Cut::of(1 + world.choose(24));
        if cut_off(world, session.close(), cut).await.is_none() {
            world.say(|| format!("{}: drops a call that closes", process.id()));
            if world.choose(2) == 1 {
                return;
            }
        }
    }
    session.close().await;
    crew.ledger.has_closed(process, label, begun);
}

impl Task {
    /// Rests between two calls: mostly for a moment.
    async fn rest(&self) {
        let profile = &self.crew.profile;
        let most = match profile.rests {
            0 if profile.long > 100 => 200,
            0 => 30,
            rests => rests,
        };
        let long = u64::from(self.process.world().seldom(5, most)) * self.crew.timeout / 3;
        self.sleep(long + u64::from(self.choose(10)) * 1_000).await;
    }

    /// Another session of its process.
    pub(super) fn another_session(&self) -> Option<(Session, u64)> {
        self.another_session_with(|builder| builder)
    }

    /// Another session of its process, with other settings, and its label.
    pub(super) fn another_session_with(
        &self,
        settings: impl FnOnce(SessionBuilder) -> SessionBuilder,
    ) -> Option<(Session, u64)> {
        self.another_session_as(|_| (), settings)
    }

    /// The same, for somebody else, or for another part of the tree.
    pub(super) fn another_session_as(
        &self,
        who: impl FnOnce(&mut Connecting),
        settings: impl FnOnce(SessionBuilder) -> SessionBuilder,
    ) -> Option<(Session, u64)> {
        let (label, timeout) = (self.process.world().unique(), self.crew.timeout);
        let usual = Connecting::new(Duration::from_micros(timeout));
        let mut connecting = Connecting { label, ..usual };
        who(&mut connecting);
        let host = Host::below(&self.process, &connecting.chroot);
        let ensemble = self.crew.ledger.store().ensemble();
        let connector = ensemble.connector(&self.process, connecting);
        let session = Session::simulated_builder(connector, host);
        let session = session.tick_time(Duration::from_micros(self.crew.tick));
        Some((settings(session).open().ok()?, label))
    }

    /// Closes another session of its process.
    pub(super) async fn close(&self, session: Session, label: u64) {
        let begun = self.process.world().now();
        close(&self.crew, (&self.process, label), &session, begun).await;
    }

    /// Asks for a lock that nobody else wants, and gives up.
    async fn pass_by(&self) {
        let name = format!("passing/{}", self.process.world().unique());
        let Ok(lock) = self.session.mutex(name) else { return };
        let (world, cut) = (self.process.world(), Cut::of(1 + self.choose(16)));
        if let Some(Ok(guard)) = cut_short(world, lock.try_acquire(), cut).await {
            drop(guard.release().await);
        }
    }

    /// When a call is dropped, of so many moments: as often as acquires are.
    pub(super) fn cut(&self, of: u32) -> Option<Cut> {
        match self.process.world().seldom(2, self.crew.profile.cancels) {
            0 => None,
            _ => Cut::of(1 + self.choose(of)),
        }
    }

    pub(super) fn choose(&self, of: u32) -> u32 {
        self.process.world().choose(of)
    }

    pub(super) async fn sleep(&self, long: u64) {
        let world = self.process.world();
        world.sleep_until(world.now() + long).await;
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        self.process.world().say(|| format!("{}: {}", self.name, what()));
    }

    /// Another task of the same process.
    pub(super) fn part(&self, what: &str) -> Task {
        let name = format!("{} ({what})", self.name);
        let (crew, process) = (self.crew.clone(), self.process.clone());
        Task { crew, process, session: self.session.clone(), name, origin: None }
    }

    /// Another task of the same process, which holds what this one acquired.
    pub(super) fn keeper(&self, what: &str) -> Task {
        Task { origin: Some(self.acquirer()), ..self.part(what) }
    }

    /// Who acquired what it holds.
    pub(super) fn acquirer(&self) -> Caller {
        self.origin.unwrap_or_else(current_task)
    }

    /// Commits on this session at short intervals.
    async fn make_traffic(&self) {
        let Ok(lock) = self.session.mutex(format!("traffic-{}", self.process.id().0)) else {
            return;
        };
        // Something is answered between two faults that are close together.
        let (times, step) = match self.crew.profile.kinds_of_faults {
            Faults::Late | Faults::Dozes => (60, 300),
            _ => (30, 60),
        };
        for _ in 0..times {
            self.sleep(u64::from(self.choose(8)) * self.crew.timeout / step).await;
            drop(lock.acquire_timeout(Duration::from_millis(500)).await);
        }
    }

    async fn round(&self) {
        let world = self.process.world();
        if let Some(corner) = self.crew.profile.corner {
            return self.go_into(corner).await;
        }
        if world.seldom(2, self.crew.profile.passes) == 1 {
            self.pass_by().await;
        }
        if self.crew.profile.kinds && world.seldom(2, self.crew.profile.multi) == 1 {
            return self.take_all().await;
        }
        let lock = self.choose(self.crew.locks.len() as u32) as usize;
        let plan = &self.crew.locks[lock];
        if self.crew.profile.doors && self.choose(2) == 1 {
            return self.come_in().await;
        }
        if self.crew.profile.rare && self.choose(3) == 1 {
            return self.do_what_few_do(lock).await;
        }
        let _using = self.crew.ledger.uses(&self.name, lock, &self.process);
        let times = if self.crew.profile.hasty { [1, 2, 3, 4] } else { [5, 50, 300, 2_000] };
        let timeout = Duration::from_millis(times[self.choose(4) as usize]);
        let (mut how, tries) = (self.choose(8), 1 + self.choose(2));
        if how == 3 && plan.lingers && !plan.tried {
            // What lingers cannot be tried.
            how = 4;
        }
        if self.crew.profile.patient {
            how = 0;
        }
        if self.crew.profile.bodies {
            how = 7;
        }
        let cut = Cut::of(world.seldom(20, self.crew.profile.cancels));
        let lets_go = plan.tried && (how == 3 || self.choose(2) == 1);
        let used = if lets_go { &plan.for_a_try() } else { plan };
        let asked = match used.lock(world, &self.session, Some((timeout, tries))) {
            Ok(asked) => asked,
            Err(error) => return self.refuse(lock, &error),
        };
        let share = plan.share(&asked);
        self.say(|| {
            let wait = match how {
                0..=2 => "waits".to_owned(),
                3 => "asks once".to_owned(),
                _ => format!("waits {tries} × {} ms", timeout.as_millis()),
            };
            let mode = match &asked {
                AnyLock::Read(_) => " to read",
                AnyLock::Write(_) => " to write",
                _ => "",
            };
            let cancelled = cut.map(|cut| cut.to_string());
            format!("wants {}{mode}: {wait}{}", plan.name, cancelled.unwrap_or_default())
        });
        let odd =
            plan.limited_at || plan.confused || plan.mixed && matches!(asked, AnyLock::Mutex(_));
        if how == 7 && share.0 == share.1 && !odd {
            return self.execute(lock, timeout, tries, cut).await;
        }
        let most = match how {
            0..=2 => u64::MAX,
            3 => 0,
            _ => (timeout * tries).as_micros() as u64,
        };
        let asking = self.crew.ledger.asks(lock, &self.process, most).wants(share.0);
        let asking = match how {
            0..=2 => asking,
            _ => asking.within(timeout.as_micros() as u64),
        };
        let start = self.process.nanos();
        let paused = self.process.pauses();
        let acquiring = async {
            if self.crew.profile.doors {
                Task::acquire_by_kind(&asked, how, timeout).await
            } else {
                Task::acquire(&asked, how).await
            }
        };
        let answer = cut_short(world, acquiring, cut).await;
        if how >= 3 {
            let tries = if how == 3 { 1 } else { tries };
            self.check_deadline((start, paused), timeout * tries);
        }
        match answer {
            Some(Ok(guard)) => {
                self.check_limit(lock, (&asked, share.0), &guard.view());
                self.hold(lock, share, guard, asking).await;
            }
            Some(Err(error)) => {
                let dropped = self.crew.profile.cancels > 0;
                self.crew.ledger.check_holder(&self.name, &asking, &error, dropped);
                if plan.identified && format!("{error}").contains(ANOTHER_LAYOUT) {
                    self.crew.ledger.check_identifier(&self.name, lock, &self.process, &error);
                }
                self.judge_of(plan, &error, Some(how));
                self.crew.ledger.check_heard(&self.name, &asking, paused, &error);
                self.crew.ledger.check_refusal(&self.name, &asking, error.kind());
            }
            None => self.say(|| "is dropped".to_owned()),
        }
    }

    /// A call that began at a moment of this clock, when its process had been paused so often, has an answer: in
    /// the time that it had.
    pub(super) fn check_deadline(&self, (start, pauses): (u64, u32), most: Duration) {
        let took = Duration::from_nanos(self.process.nanos() - start);
        if took > most + Duration::from_millis(100) && self.process.pauses() == pauses {
            let what = format!("{}: {took:?} instead of {most:?}", self.name);
            self.crew.ledger.fail(rules::DEADLINE, what);
        }
    }

    /// Acquires as long as it takes, once, or as often as it was told.
    pub(super) async fn acquire(asked: &AnyLock, how: u32) -> Result<AnyGuard, LockError> {
        match how {
            0..=2 => asked.acquire().await,
            3 => asked.try_acquire().await,
            _ => asked.acquire_tries().await,
        }
    }

    /// Runs a body under the lock.
    async fn execute(&self, lock: usize, timeout: Duration, tries: u32, cut: Option<Cut>) {
        let plan = &self.crew.locks[lock];
        // Then it goes on to its end, whether or not it still has the lock.
        let finishes = self.choose(4) == 3;
        let on_lost = if finishes { OnLost::Finish } else { OnLost::Cancel };
        let options = plan.options.timeout(timeout).retries(tries).on_lost(on_lost);
        let template = ZkLockTemplate::new(self.session.clone()).with_options(options);
        // The driver of a template does not choose the layout of a semaphore.
        let permits = matches!(plan.family, Family::Permits(_));
        let template = match plan.layout {
            Layout::Curator => template,
            Layout::Kazoo if !permits => template.with_driver(Kazoo::default()),
            _ => return,
        };
        let (template, share) = match plan.family {
            Family::ReadWrite => (template.write(), (1_000, 1_000)),
            Family::Permits(limit) => (template.semaphore(limit).permits(limit), (limit, limit)),
            Family::Mutex => (template, (1_000, 1_000)),
        };
        let most = (timeout * tries).as_micros() as u64;
        let asking = Mutex::new(Some(self.crew.ledger.asks(lock, &self.process, most)));
        let answered = || drop(asking.lock().unwrap_or_else(PoisonError::into_inner).take());
        let start = (self.process.nanos(), self.process.pauses());
        let begun = AtomicU32::new(0);
        let ran = AtomicRan::default();
        let body = async |view: GuardView| {
            ran.begins();
            self.check_deadline(start, timeout * tries);
            if begun.fetch_add(1, Ordering::Relaxed) > 0 {
                self.crew.ledger.fail(rules::BODY, format!("{}: it runs again", self.name));
            }
            let process = self.process.clone();
            let lock_has_permits = plan.has_permits();
            let (again, who) = (false, self.acquirer());
            let seen = view.view();
            let entry = Entry { lock, share, process, view, lock_has_permits, again, who };
            let holding = self.crew.ledger.granted(&self.name, entry, None);
            answered();
            self.panics();
            self.sleep(if self.crew.profile.bodies { self.duration() } else { self.short() }).await;
            if !finishes {
                self.crew.ledger.check_body(&self.name, holding.id());
            }
            self.panics();
            ran.ends(seen.is_valid());
        };
        let world = self.process.world();
        let executing = AssertUnwindSafe(template.execute_with(plan.name, body)).catch_unwind();
        let answer = match cut_short(world, executing, cut).await {
            Some(Ok(answer)) => Some(answer),
            over => {
                answered();
                let ledger = &self.crew.ledger;
                let used = ledger.is_used_by_others(&self.name, lock, &self.process, 1);
                if !plan.lingers && !used && ledger.is_alone(lock, &self.process) {
                    self.check_let_go(plan.name);
                }
                match over {
                    Some(Err(panic)) => return self.has_panicked(panic, ""),
                    _ => None,
                }
            }
        };
        answered();
        let begun = begun.into_inner();
        if let Some(answer) = &answer {
            self.check_ran(&ran, answer.as_ref());
        }
        match answer {
            Some(Ok(())) if begun == 1 && ran.has_ended() => {}
            Some(Ok(())) => {
                self.crew.ledger.fail(rules::BODY, format!("{}: Ok, body {begun}", self.name));
            }
            Some(Err(error)) => {
                if begun == 0 {
                    self.check_deadline(start, timeout * tries);
                }
                self.judge_body(plan.options.hold_at_most, start.0, &error);
            }
            None => self.say(|| "is dropped".to_owned()),
        }
    }

    /// Where the limit of a semaphore is in ZooKeeper, all have the same, and obey it.
    fn check_limit(&self, lock: usize, (asked, share): (&AnyLock, u32), view: &GuardView) {
        self.crew.ledger.check_lowered(&self.name, (lock, &self.process), share, view);
        if let (AnyLock::Permits(asked, _), Layout::Kazoo) = (asked, self.crew.locks[lock].layout) {
            // Its number is given here, and not read.
            let limit = asked.limit().unwrap_or_default();
            self.crew.ledger.check_limit(&self.name, &self.process, lock, limit);
        }
    }

    /// Looks at the error of a handle.
    fn refuse(&self, lock: usize, error: &LockError) {
        self.say(|| format!("{error:#}"));
        if self.crew.locks[lock].confused && error.kind() == ErrorKind::InvalidOption {
            self.crew.ledger.check_handle(&self.name, lock, &self.process, error);
        } else {
            self.crew.ledger.fail(rules::ERROR, format!("{}: {error:#}", self.name));
        }
    }

    /// Looks at the error of an acquire.
    pub(super) fn judge_of(&self, plan: &LockPlan, error: &LockError, how: Option<u32>) {
        if plan.confused && error.kind() == ErrorKind::InvalidOption {
            return self.say(|| format!("{error:#}"));
        }
        self.judge(error, how);
    }

    /// Looks at the error of a call that runs a body, and began at this moment of its clock: it had the lock for as
    /// long as it may, if it was held for too long.
    pub(super) fn judge_body(&self, most: Option<Duration>, since: u64, error: &LockError) {
        let took = Duration::from_nanos(self.process.nanos() - since);
        if error.is_held_too_long() && most.is_some_and(|most| took >= most) {
            return self.is_held_too_long(error);
        }
        self.judge(error, Some(7));
    }

    /// Notes an error that says rightly that a lock was held for too long.
    pub(super) fn is_held_too_long(&self, error: &LockError) {
        self.say(|| format!("{error}"));
        self.crew.ledger.refused();
    }

    /// Looks at an error.
    pub(super) fn judge(&self, error: &LockError, how: Option<u32>) {
        self.say(|| format!("{error}"));
        self.crew.ledger.refused();
        let patient = how.is_some_and(|how| how < 3);
        let may_be = match error.kind() {
            ErrorKind::Busy if patient => {
                self.crew.locks.iter().any(|plan| self.deletes_by_hand(plan, error))
            }
            ErrorKind::Busy => how.is_some(),
            // Connecting takes its time.
            ErrorKind::Unavailable => !patient,
            ErrorKind::Lost => how.is_none_or(|how| how == 7),
            ErrorKind::Unauthorized => self.is_refused(),
            ErrorKind::Exhausted => self.crew.exhausted.load(Ordering::Relaxed),
            ErrorKind::Closing => self.crew.ledger.is_closing(&self.process),
            _ => false,
        };
        if !may_be {
            self.crew.ledger.fail(rules::ERROR, format!("{}: {error:#}", self.name));
        }
    }

    /// Whether its process was told within a session timeout that it may not do something: who asked for it may be
    /// told of other things first.
    pub(super) fn is_refused(&self) -> bool {
        let since = self.process.world().now().saturating_sub(self.crew.timeout);
        self.crew.ledger.store().ensemble().refused_since(since, &self.process)
    }

    /// Does what an error says of a node that stays, if that is the directory of a lock that nobody has
    /// used. Returns whether it is.
    fn deletes_by_hand(&self, plan: &LockPlan, error: &LockError) -> bool {
        let Some(path) = self.crew.ledger.unused_directory(plan, error) else { return false };
        self.say(|| format!("deletes {path} by hand"));
        self.crew.ledger.store().ensemble().outsider(Operation::Delete { path });
        true
    }

    async fn at_last(&self, lock: usize) {
        let plan = &self.crew.locks[lock];
        let world = self.process.world();
        let _using = self.crew.ledger.uses(&self.name, lock, &self.process);
        let Ok(asked) = plan.lock(world, &self.session, None) else { return };
        let share = plan.share(&asked);
        self.say(|| format!("wants {} at last", plan.name));
        let asking = self.crew.ledger.asks(lock, &self.process, u64::MAX);
        match asked.acquire().await {
            Ok(guard) => {
                drop(asking);
                self.check_limit(lock, (&asked, share.0), &guard.view());
                let holding = self.note(lock, share, guard.view(), None);
                self.sleep(1_000).await;
                drop(holding);
                drop(guard.release().await);
            }
            Err(error) => self.judge_of(plan, &error, Some(0)),
        }
    }
}
