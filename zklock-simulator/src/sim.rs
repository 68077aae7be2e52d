//! Tests of users in a simulated world: their handlers, their processes, and what befalls them.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::oneshot;
use zklock_core::session::{Session, SessionBuilder, SessionRegistry};

use crate::chooser::Chooser;
use crate::ensemble::{Connecting, Ensemble, Options, Weather};
use crate::executor;
use crate::host::Host;

/// Runs a test in a simulated world: processes, one ZooKeeper server and the network between them,
/// in virtual time, without threads. The same seed does the same again; other seeds are other
/// orders of events.
///
/// ```
/// use zklock::testing::sim;
///
/// for seed in 0..20 {
///     sim(seed, async |world| {
///         let [one, other] = [world.process(), world.process()];
///         let held = one.session().mutex("orders")?.acquire().await?;
///         let busy = other.session().mutex("orders")?.try_acquire().await;
///         assert!(busy.is_err_and(|error| error.is_busy()));
///
///         one.crash();
///         other.session().mutex("orders")?.acquire().await?; // After the session timeout.
///         # drop(held);
///         Ok::<(), zklock::LockError>(())
///     })
///     .unwrap();
/// }
/// ```
///
/// The times of tokio (`tokio::time::sleep`, `timeout`) are those of the world, to the millisecond.
/// Real input and output, and threads, do not wait for it.
///
/// The seed does not decide what chooses by chance of its own: `tokio::select!` does, unless it begins with `biased;`, and so
/// does the order of a `HashMap`.
///
/// # Panics
///
/// Panics if the test panics, or a handler, also one whose [`Running`] nobody awaits, or a task of the
/// library, after it has written the seed and what happened in the world to standard error; and if the
/// test does not end within a day of the world.
#[track_caller]
pub fn sim<T>(seed: u64, test: impl AsyncFnOnce(World) -> T) -> T {
    sim_with_servers(1, seed, test)
}

/// Runs a test in a simulated world with so many ZooKeeper servers, three or five as a rule: they elect a leader,
/// followers may be late, and servers [die](World::crash) or [do not hear each other](World::part). Everything
/// else is as in [`sim`].
///
/// ```
/// use std::time::Duration;
/// use zklock::testing::sim_with_servers;
///
/// for seed in 0..10 {
///     sim_with_servers(3, seed, async |world| {
///         let process = world.process();
///         let guard = process.session().mutex("orders")?.acquire().await?;
///
///         let server = world.choose(3); // Perhaps the leader, or the server of this process.
///         world.crash(server as usize);
///         world.sleep(Duration::from_secs(60)).await;
///         assert!(guard.is_valid()); // Two of three are enough.
///         Ok::<(), zklock::LockError>(())
///     })
///     .unwrap();
/// }
/// ```
///
/// # Panics
///
/// As [`sim`]; and if there are no servers, or more than 9.
#[track_caller]
pub fn sim_with_servers<T>(servers: usize, seed: u64, test: impl AsyncFnOnce(World) -> T) -> T {
    assert!((1..=9).contains(&servers), "{servers} servers");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build();
    let runtime = runtime.unwrap_or_else(|error| unreachable!("a runtime without I/O: {error}"));
    let world = World::new(servers, seed);
    let inner = world.0.inner.clone();
    let tested = catch_unwind(AssertUnwindSafe(|| {
        let result = runtime.block_on(live(&world, test));
        // An assertion of a handler fails the test, also where nobody waits for its result.
        if let Some(panic) = world.untold() {
            resume_unwind(panic);
        }
        let panics = inner.panics();
        assert!(panics == 0, "{panics} tasks of the library panicked");
        result
    }));
    if tested.is_err() {
        eprintln!("the world of seed {seed}:");
        inner.take_lines().iter().for_each(|line| eprintln!("{line}"));
    }
    // Its tasks use the runtime.
    runtime.block_on(async { inner.end() });
    tested.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The longest test.
const DAY: u64 = 86_400_000_000;

/// Notes that the test was woken.
#[derive(Default)]
struct Woken(Mutex<(bool, Option<Waker>)>);

impl Woken {
    fn lock(&self) -> MutexGuard<'_, (bool, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> bool {
        std::mem::take(&mut self.lock().0)
    }

    /// Whether it was woken; if not, the waker is told.
    fn was(&self, waker: &Waker) -> bool {
        let mut woken = self.lock();
        woken.1 = Some(waker.clone());
        woken.0
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let mut woken = self.lock();
        woken.0 = true;
        let waker = woken.1.take();
        drop(woken);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Lets the world go on until the test is over. While nothing in it is ready, tokio's clock goes on to
/// what is first: its own next timer, or the world's.
async fn live<T>(world: &World, test: impl AsyncFnOnce(World) -> T) -> T {
    let (inner, start) = (&world.0.inner, tokio::time::Instant::now());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut test = pin!(test(world.clone()));
    waker.wake_by_ref();
    loop {
        while woken.take() {
            if let Poll::Ready(result) = test.as_mut().poll(&mut Context::from_waker(&waker)) {
                return result;
            }
        }
        assert!(inner.now() < DAY, "the test does not end");
        if let Some(next) = inner.idle_until() {
            let next = start + Duration::from_micros(next.min(DAY));
            let mut sleep = pin!(tokio::time::sleep_until(next));
            let wait = |cx: &mut Context<'_>| {
                if woken.was(cx.waker()) || inner.is_ready(cx.waker()) {
                    return Poll::Ready(());
                }
                sleep.as_mut().poll(cx)
            };
            poll_fn(wait).await;
            inner.advance(u64::try_from(start.elapsed().as_micros()).unwrap_or(DAY));
            if woken.lock().0 {
                continue;
            }
        }
        inner.step();
    }
}

/// A simulated world. Clones are the same one.
///
/// ```
/// use std::time::Duration;
/// use zklock::testing::sim;
///
/// sim(7, async |world| {
///     world.sleep(Duration::from_secs(60)).await; // No real time passes.
///     assert!(world.elapsed() >= Duration::from_secs(60));
/// });
/// ```
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    inner: Arc<executor::World>,
    ensemble: Ensemble,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// All processes, and whether each is cut off.
    processes: Vec<(executor::Process, bool)>,
    /// Whether there is an outage.
    away: bool,
    /// How handlers ended that panicked, in the order in which they did.
    panics: Vec<Panicked>,
}

/// What a handler panicked with, until it is told to somebody.
#[derive(Clone)]
struct Panicked(Arc<Mutex<Option<Payload>>>);

type Payload = Box<dyn Any + Send>;

impl Panicked {
    fn take(&self) -> Option<Payload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}

/// The network on a good day: some messages take longer than others. What is struck on a bad one is late by three seconds
/// at most, which locks outlive.
fn fair() -> Weather {
    Weather { steps: 8, slow: 10, lag: 4, disk: 2, unit: Some(200_000), ..Weather::default() }
}

/// What ZooKeeper's example of a `zoo.cfg` sets up, so that leases, and how long a crash keeps a lock, are as in production.
fn usual(servers: usize) -> Options {
    let tick = 2_000_000;
    let (min_timeout, max_timeout) = (2 * tick, 20 * tick);
    let (sync_limit, weather) = (5, fair());
    Options { servers, tick, min_timeout, max_timeout, sync_limit, weather, ..Options::default() }
}

impl World {
    fn new(servers: usize, seed: u64) -> Self {
        let inner = executor::World::new(Chooser::random(seed), true);
        let ensemble = Ensemble::new(&inner, usual(servers));
        World(Arc::new(Inner { inner, ensemble, state: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn panicked(&self, panic: Payload) -> Panicked {
        let panicked = Panicked(Arc::new(Mutex::new(Some(panic))));
        self.lock().panics.push(panicked.clone());
        panicked
    }

    /// The first panic of a handler that nobody was told of.
    fn untold(&self) -> Option<Payload> {
        self.lock().panics.iter().find_map(Panicked::take)
    }

    /// Starts a process with a session of its own.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     let guard = process.session().mutex("orders")?.acquire().await?;
    ///     assert!(guard.is_valid());
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn process(&self) -> Process {
        self.process_with(|session| session)
    }

    /// Starts a process whose session has other options.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// use zklock::LockOptions;
    ///
    /// sim(7, async |world| {
    ///     let once = LockOptions::new().retries(1);
    ///     let process = world.process_with(|session| session.defaults(once));
    ///     assert_eq!(process.session().defaults().retries, Some(1));
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if an option is not accepted.
    #[track_caller]
    #[allow(clippy::panic)]
    pub fn process_with(&self, options: impl FnOnce(SessionBuilder) -> SessionBuilder) -> Process {
        let process = self.0.inner.process();
        let (ensemble, by) = (self.0.ensemble.clone(), process.clone());
        let connector = move |session_timeout, connect_timeout| {
            let connecting = Connecting { connect_timeout, ..Connecting::new(session_timeout) };
            ensemble.connector(&by, connecting)
        };
        let session = Session::simulated_builder_by(connector, Host::of(&process));
        let session = options(session).open().unwrap_or_else(|error| panic!("{error:#}"));
        let mut state = self.lock();
        state.processes.push((process.clone(), false));
        let away = state.away;
        drop(state);
        if away {
            self.block(&process, true);
        }
        Process { world: self.clone(), process, session }
    }

    /// Waits for a time of the world.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// # use std::time::Duration;
    /// sim(7, async |world| world.sleep(Duration::from_secs(3600)).await);
    /// ```
    pub async fn sleep(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let until = self.0.inner.now().saturating_add(micros);
        self.0.inner.sleep_until(until).await;
    }

    /// Returns the time since the world began.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// # use std::time::Duration;
    /// sim(7, async |world| {
    ///     let start = world.elapsed();
    ///     world.sleep(Duration::from_millis(5)).await;
    ///     assert!(world.elapsed() - start >= Duration::from_millis(5));
    /// });
    /// ```
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(self.0.inner.now())
    }

    /// Returns a number below `of`, which depends on the seed: for choices of the test.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// assert!(sim(7, async |world| world.choose(10)) < 10);
    /// ```
    pub fn choose(&self, of: u32) -> u32 {
        self.0.inner.choose(of)
    }

    /// Makes ZooKeeper unreachable for all processes, until [`end_outage`](World::end_outage). The
    /// server goes on meanwhile: it ends the sessions that it does not hear from.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// # use std::time::Duration;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     world.begin_outage();
    ///     let orders = process.session().mutex("orders")?;
    ///     let error = orders.acquire_timeout(Duration::from_secs(1)).await.unwrap_err();
    ///     assert!(error.is_unavailable());
    ///     world.end_outage();
    ///     assert!(orders.acquire().await?.is_valid());
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn begin_outage(&self) {
        self.outage(true);
    }

    /// Makes ZooKeeper reachable again, for all processes that are not [cut off](Process::cut_off).
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// # use std::time::Duration;
    /// sim(7, async |world| {
    ///     let guard = world.process().session().mutex("orders")?.acquire().await?;
    ///     world.begin_outage();
    ///     world.sleep(Duration::from_secs(3)).await;
    ///     world.end_outage();
    ///     assert!(guard.is_valid()); // The outage was shorter than its lease.
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn end_outage(&self) {
        self.outage(false);
    }

    fn outage(&self, away: bool) {
        let mut state = self.lock();
        state.away = away;
        let processes = state.processes.clone();
        drop(state);
        for (process, is_cut_off) in processes {
            self.block(&process, away || is_cut_off);
        }
    }

    fn cut_off(&self, process: &executor::Process, out: bool) {
        let mut state = self.lock();
        let known = state.processes.iter_mut().find(|(known, _)| known.id() == process.id());
        if let Some((_, is_cut_off)) = known {
            *is_cut_off = out;
        }
        let away = state.away;
        drop(state);
        self.block(process, away || out);
    }

    fn block(&self, process: &executor::Process, out: bool) {
        for server in 0..self.0.ensemble.size() {
            self.0.ensemble.block(process, server, out, out);
        }
    }

    /// Kills a server, by its number, until it is [started again](World::restart). What a majority has written
    /// is not lost.
    ///
    /// ```
    /// # use zklock::testing::sim_with_servers;
    /// # use std::time::Duration;
    /// sim_with_servers(3, 7, async |world| {
    ///     let orders = world.process().session().mutex("orders")?;
    ///     world.crash(0);
    ///     world.crash(1); // One of three is not enough.
    ///     let error = orders.acquire_timeout(Duration::from_secs(5)).await.unwrap_err();
    ///     assert!(error.is_unavailable());
    ///     world.restart(1);
    ///     assert!(orders.acquire().await?.is_valid());
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such server: the first one is 0.
    #[track_caller]
    pub fn crash(&self, server: usize) {
        self.check(server);
        self.0.ensemble.crash(server, 0);
    }

    /// Starts a server again that was [killed](World::crash), with what it had written.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// # use std::time::Duration;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     let guard = process.session().mutex("orders")?.acquire().await?;
    ///     world.crash(0);
    ///     world.sleep(Duration::from_secs(2)).await;
    ///     world.restart(0); // It gives all sessions their time once more.
    ///     world.sleep(Duration::from_secs(60)).await;
    ///     assert!(guard.is_valid());
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such server.
    #[track_caller]
    pub fn restart(&self, server: usize) {
        self.check(server);
        self.0.ensemble.restart(server);
    }

    /// Lets two servers not hear each other, until [`heal`](World::heal). Processes reach both. Servers notice after ten
    /// seconds (`syncLimit`) that nobody hears them: where that is the leader, locks are lost meanwhile. At first, the last
    /// server leads.
    ///
    /// ```
    /// # use zklock::testing::sim_with_servers;
    /// # use std::time::Duration;
    /// sim_with_servers(3, 7, async |world| {
    ///     let process = world.process();
    ///     let guard = process.session().mutex("orders")?.acquire().await?;
    ///     world.part(0, 1);
    ///     world.part(0, 2); // Server 0 is alone, and serves nobody.
    ///     world.sleep(Duration::from_secs(60)).await;
    ///     assert!(guard.is_valid());
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such server.
    #[track_caller]
    pub fn part(&self, one: usize, other: usize) {
        self.hear(one, other, false);
    }

    /// Lets two servers hear each other again.
    ///
    /// ```
    /// # use zklock::testing::sim_with_servers;
    /// # use std::time::Duration;
    /// sim_with_servers(2, 7, async |world| {
    ///     let orders = world.process().session().mutex("orders")?;
    ///     world.part(0, 1); // Neither of them is a majority.
    ///     let error = orders.acquire_timeout(Duration::from_secs(5)).await.unwrap_err();
    ///     assert!(error.is_unavailable());
    ///     world.heal(0, 1);
    ///     assert!(orders.acquire().await?.is_valid());
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such server.
    #[track_caller]
    pub fn heal(&self, one: usize, other: usize) {
        self.hear(one, other, true);
    }

    #[track_caller]
    fn hear(&self, one: usize, other: usize, heard: bool) {
        self.check(one);
        self.check(other);
        self.0.ensemble.part(one, other, !heard);
        self.0.ensemble.part(other, one, !heard);
    }

    #[track_caller]
    fn check(&self, server: usize) {
        let servers = self.0.ensemble.size();
        assert!(server < servers, "there is no server {server} of {servers}");
    }

    /// Lets so many of 1,000 requests go wrong from now on: they are lost, or their replies are, or
    /// the connection breaks before or after, or falls silent for a while. Which ones depends on the
    /// seed. 0 ends it.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// for seed in 0..10 {
    ///     sim(seed, async |world| {
    ///         let process = world.process();
    ///         world.trouble(100);
    ///         let orders = process.session().mutex("orders")?;
    ///         let guard = orders.acquire().await?; // It waits as long as it takes.
    ///         # drop(guard);
    ///         Ok::<(), zklock::LockError>(())
    ///     })
    ///     .unwrap();
    /// }
    /// ```
    pub fn trouble(&self, per_mille: u32) {
        let strikes = per_mille.min(1_000);
        self.0.ensemble.set_weather(Weather { strikes, ..fair() });
    }
}

/// A simulated process: a session, and the handlers that it runs. Clones are the same one.
///
/// ```
/// # use zklock::testing::sim;
/// sim(7, async |world| {
///     let process = world.process();
///     let ran = process.run(zklock::execute("orders", || async { 7 })).await;
///     assert_eq!(ran.unwrap()?, 7);
///     # Ok::<(), zklock::LockError>(())
/// }).unwrap();
/// ```
#[derive(Clone)]
pub struct Process {
    world: World,
    process: executor::Process,
    session: Session,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.process.id().0).finish()
    }
}

impl Process {
    /// Returns its session.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     let guard = process.session().mutex("orders")?.acquire().await?;
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Runs a handler as a task of this process, which begins at once. Its session is the default
    /// session there, for annotated functions and `zklock::execute`.
    /// The result is `None` if the process crashed before.
    ///
    /// What a handler spawns with `tokio::spawn` belongs to no process: there it finds no session, or one outside of the
    /// world, which the test binary has registered (`zklock::init`) or the environment names (`ZKLOCK_CONNECT`).
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// use zklock::{LockError, zk_locked};
    ///
    /// #[zk_locked("createOrder")]
    /// async fn create_order() -> Result<u64, LockError> {
    ///     Ok(1)
    /// }
    ///
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     assert_eq!(process.run(create_order()).await.unwrap()?, 1);
    ///     # Ok::<(), LockError>(())
    /// }).unwrap();
    /// ```
    pub fn run<T: Send + 'static>(
        &self,
        handler: impl Future<Output = T> + Send + 'static,
    ) -> Running<T> {
        let (tell, told) = oneshot::channel();
        let task = InProcess { session: self.session.clone(), handler: Box::pin(handler) };
        let world = self.world.clone();
        self.process.spawn(async move {
            let ended = task.await.map_err(|panic| world.panicked(panic));
            drop(tell.send(ended));
        });
        Running(told)
    }

    /// Stops the process where it is, as a long garbage collection or a suspended machine does; the
    /// clock goes on.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// # use std::time::Duration;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     let guard = process.session().mutex("orders")?.acquire().await?;
    ///     process.pause();
    ///     world.sleep(Duration::from_secs(60)).await;
    ///     assert!(!guard.is_valid()); // Whoever asks knows it without a message.
    ///     process.resume();
    ///     guard.lost().await;
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn pause(&self) {
        self.process.pause();
    }

    /// Lets the process continue.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     process.pause();
    ///     process.resume();
    ///     assert_eq!(process.run(async { 7 }).await, Some(7));
    /// });
    /// ```
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Ends the process for good, without a word to ZooKeeper.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     let handler = process.run(std::future::pending::<()>());
    ///     process.crash();
    ///     assert_eq!(handler.await, None);
    /// });
    /// ```
    pub fn crash(&self) {
        self.process.crash();
    }

    /// Makes ZooKeeper unreachable for this process alone, until [`reconnect`](Process::reconnect).
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// sim(7, async |world| {
    ///     let [one, other] = [world.process(), world.process()];
    ///     let held = one.session().mutex("orders")?.acquire().await?;
    ///     one.cut_off();
    ///     other.session().mutex("orders")?.acquire().await?;
    ///     assert!(!held.is_valid()); // It ended before the other one got the lock.
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn cut_off(&self) {
        self.world.cut_off(&self.process, true);
    }

    /// Makes ZooKeeper reachable for this process again, unless there is an [outage](World::begin_outage).
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// # use std::time::Duration;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     process.cut_off();
    ///     world.sleep(Duration::from_secs(60)).await;
    ///     process.reconnect();
    ///     assert!(process.session().mutex("orders")?.acquire().await?.is_valid());
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn reconnect(&self) {
        self.world.cut_off(&self.process, false);
    }

    /// Makes its clock run fast by so many millionths from now on, or slow where it is negative. Up to 1,000 are
    /// allowed, in both directions: beyond that, a lock may be held by two.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// # use std::time::Duration;
    /// sim(7, async |world| {
    ///     let [slow, other] = [world.process(), world.process()];
    ///     slow.drift(-1_000);
    ///     let held = slow.session().mutex("orders")?.acquire().await?;
    ///     slow.cut_off();
    ///     other.session().mutex("orders")?.acquire().await?;
    ///     assert!(!held.is_valid()); // It ended before the other one got the lock, all the same.
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn drift(&self, millionths: i32) {
        self.process.set_drift(millionths.max(-999_999));
    }

    /// Ends its ZooKeeper sessions on the server, as an administrator does: held locks are lost.
    ///
    /// ```
    /// # use zklock::testing::sim;
    /// sim(7, async |world| {
    ///     let process = world.process();
    ///     let guard = process.session().mutex("orders")?.acquire().await?;
    ///     process.lose();
    ///     guard.lost().await;
    ///     # Ok::<(), zklock::LockError>(())
    /// }).unwrap();
    /// ```
    pub fn lose(&self) {
        let ensemble = &self.world.0.ensemble;
        for session in ensemble.sessions_of(&self.process) {
            ensemble.expire(session);
        }
    }
}

/// A handler that runs in a [`Process`]. Dropping it does not stop the handler. Where the handler panics, so
/// does whoever waits for it; if nobody does, the world fails at its end.
///
/// ```
/// # use zklock::testing::sim;
/// sim(7, async |world| {
///     let running = world.process().run(async { 7 });
///     assert_eq!(running.await, Some(7));
/// });
/// ```
#[must_use = "the handler goes on, but nobody learns of its result"]
pub struct Running<T>(oneshot::Receiver<Result<T, Panicked>>);

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Running")
    }
}

impl<T> Future for Running<T> {
    /// `None` if the process crashed.
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(cx).map(|told| match told.ok()? {
            Ok(result) => Some(result),
            Err(panicked) => panicked.take().and_then(|panic| resume_unwind(panic)),
        })
    }
}

/// A handler, with the session of its process.
struct InProcess<T> {
    session: Session,
    handler: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> Future for InProcess<T> {
    type Output = std::thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _here = SessionRegistry::global().install_here(None, self.session.clone());
        let polled = catch_unwind(AssertUnwindSafe(|| self.handler.as_mut().poll(cx)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

#[cfg(test)]
mod tests;
