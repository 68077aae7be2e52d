//! One schedule, from its first choice to its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zklock_core::observe::observer::{Event, Observer};
use zklock_core::session::Session;

use crate::chooser::{Choice, Chooser};
use crate::ending;
use crate::ensemble::{Access, Connecting, Ensemble, Options, Weather};
use crate::executor::{Process, ProcessId, World};
use crate::faults;
use crate::host::Host;
use crate::log;
use crate::profile::{Faults, Profile, Shape};
use crate::rules::{self, Account, Ledger, Violation};
use crate::store::Store;
use crate::workload::{self, Corner, Crew, Frightened, LockPlan, RIGHTS};

/// Session timeouts, ticks, and after how many ticks servers miss each other. In microseconds. The last is what
/// is usual, and longer than everything for which the library waits however long sessions are.
const TIMES: [(u64, u64, u64); 4] = [
    (3_000_000, 200_000, 10),
    (1_200_000, 400_000, 5),
    (2_000_000, 200_000, 20),
    (10_000_000, 2_000_000, 5),
];

/// After how many session timeouts without faults everybody was served.
const PATIENCE: u64 = 10;

/// After so long in a queue, a waiter asks the leader about the node at its head.
const LONG_WAIT: u64 = 5_000_000;

/// How far the wall clocks of the processes are ahead of those of the servers, by turns, in microseconds: so those of
/// any two differ. What a corner shows of marks is by a clock that agrees.
const AHEAD: [i64; 3] = [3_600_000_000, -3_600_000_000, 0];

/// What a schedule showed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rule that does not hold.
    pub violation: Option<Violation>,
    /// What was chosen.
    pub record: Vec<Choice>,
    /// A digest of all that happened.
    pub digest: u64,
    /// The timeline, if it was asked for.
    pub lines: Vec<String>,
    /// How many grants there were.
    pub grants: u64,
    /// How many errors.
    pub refusals: u64,
    /// How many requests.
    pub requests: u64,
    /// How many faults.
    pub faults: u64,
    /// How many polls.
    pub polls: u64,
    /// How long it took, in microseconds of the world.
    pub took: u64,
}

/// Everything that is there in a schedule.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) world: Arc<World>,
    pub(crate) store: Arc<Store>,
    pub(crate) crew: Arc<Crew>,
    running: Mutex<Vec<Running>>,
    /// What the observers of all sessions were told.
    told: Mutex<Vec<(ProcessId, Arc<Account>)>>,
    strikes: u32,
    tick: u64,
    /// How long a message takes at least.
    latency: u64,
    /// Until when something befalls each server.
    struck: Mutex<BTreeMap<usize, u64>>,
}

/// A process with its session.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) session: Session,
    /// Under which its session was opened.
    pub(crate) label: u64,
}

/// Notes when a process leaves a server that differs.
#[derive(Debug)]
struct Leaving(Arc<Store>, Process);

impl Observer for Leaving {
    fn event(&self, event: &Event) {
        if let Event::Diverged { .. } = event {
            self.0.ensemble().leaves(&self.1);
        }
    }
}

impl Scene {
    /// The process that runs in a place: the last one, where others crashed.
    pub(crate) fn process(&self, place: usize) -> Process {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running[place].process.clone()
    }

    /// What runs in a place.
    pub(crate) fn running(&self, place: usize) -> Option<Running> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(place).cloned()
    }

    /// Closes the session of a process, in a task of it.
    pub(crate) fn close(&self, running: Running) {
        let Running { process, session, label } = running;
        self.crew.ledger.closes(&process);
        let (crew, of, begun) = (self.crew.clone(), process.clone(), self.world.now());
        process.spawn(async move { workload::close(&crew, (&of, label), &session, begun).await });
    }

    pub(crate) fn take_running(&self) -> Vec<Running> {
        std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a process in a place.
    pub(crate) fn start(self: &Arc<Self>, place: usize) {
        let (process, profile) = (self.world.process(), &self.crew.profile);
        if profile.drift > 0 {
            let most = i32::try_from(profile.drift).unwrap_or(i32::MAX);
            let drift = [0, most, -most, most / 4, -most / 4][self.world.choose(5) as usize];
            process.set_drift(drift);
        }
        if profile.corner != Some(Corner::Shown) {
            process.set_ahead(AHEAD[process.id().0 as usize % AHEAD.len()]);
        }
        let (label, timeout) = (self.world.unique(), Duration::from_micros(self.crew.timeout));
        let mut connecting = Connecting { label, ..Connecting::new(timeout) };
        let administered = self.crew.locks.iter().any(|plan| plan.administered);
        if administered && self.world.seldom(2, profile.rights) == 1 {
            connecting.credentials = Some(RIGHTS);
            // What it makes is then not for others to read, perhaps.
            if self.world.choose(2) == 1 {
                connecting.access = Access::Private(RIGHTS);
            }
            let (who, access) = (process.id(), connecting.access);
            self.world.say(|| format!("{who}: may do everything, its nodes are {access:?}"));
        }
        let connector = self.store.ensemble().connector(&process, connecting);
        let mut builder = Session::simulated_builder(connector, Host::of(&process))
            .tick_time(Duration::from_micros(self.tick))
            .app("simulation");
        if profile.kinds_of_faults == Faults::Strays {
            builder = builder.observer(Arc::new(Leaving(self.store.clone(), process.clone())));
        }
        if profile.logs > 0 {
            builder = builder.observer(Arc::new(Frightened));
        }
        if is_observed(profile) {
            let account = Arc::new(Account::default());
            builder = builder.observer(account.listener());
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.push((process.id(), account));
        }
        let session = match builder.open() {
            Ok(session) => session,
            Err(error) => return self.crew.ledger.fail(rules::ERROR, format!("{error:#}")),
        };
        for number in 0..profile.tasks {
            let task = workload::run(&self.crew, process.clone(), session.clone(), number);
            process.spawn(task);
        }
        if profile.kinds_of_faults == Faults::Full {
            process.spawn(workload::looks(&self.crew, process.clone(), session.clone()));
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Running { process, session, label };
        let old = if place < running.len() {
            Some(std::mem::replace(&mut running[place], new))
        } else {
            running.push(new);
            None
        };
        drop(running);
        drop(old);
    }

    /// What observers were told, when all sessions are closed. Who crashes drops its calls as well.
    fn check_told(&self) {
        let accounts =
            std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner));
        let profile = &self.crew.profile;
        let crashed = accounts.len() > profile.processes as usize;
        // One of two that go on side by side is dropped with the other.
        let beside = profile.deep || profile.doors || profile.rare;
        let all = profile.corner == Some(Corner::Told);
        for (process, account) in &accounts {
            let dropped = (!crashed && !beside).then(|| workload::dropped(*process));
            self.crew.ledger.check_told(account, dropped, all, crashed);
        }
        if is_observed(profile) && !crashed {
            let accounts = accounts.iter().map(|(_, account)| &**account);
            self.crew.ledger.check_losses_told(accounts);
        }
    }

    /// Whether something befalls one of these servers already; if not, something does until then.
    pub(crate) fn are_struck(&self, servers: &[usize], until: u64) -> bool {
        let mut struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        // What ends now may end after what begins now.
        let is_struck = |over: &u64| *over >= self.world.now() && *over > 0;
        let are_struck = servers.iter().any(|server| struck.get(server).is_some_and(is_struck));
        if !are_struck {
            struck.extend(servers.iter().map(|server| (*server, until)));
        }
        are_struck
    }

    /// The nodes of a lock that contend for it.
    pub(crate) fn nodes(&self, lock: usize) -> Vec<String> {
        let below = format!("/zklock/{}/", self.crew.locks[lock].name);
        self.store.ensemble().ephemerals(&below)
    }

    /// Everything below a lock's directory.
    pub(crate) fn below(&self, lock: usize) -> Vec<String> {
        let directory = format!("/zklock/{}", self.crew.locks[lock].name);
        self.store.ensemble().nodes(&format!("{directory}/"))
    }

    pub(crate) fn weather(&self, faults: bool) -> Weather {
        let usual = weather(faults.then_some((&self.crew.profile, self.strikes)));
        at_a_distance(usual, &self.crew.profile, self.latency)
    }
}

/// How many thousandths of a session timeout a message takes to servers that are far away: up to 0.22 there
/// and back. Guards are valid where it is less than 0.23 (`docs/failures.md`).
const FAR: [u64; 5] = [20, 60, 90, 98, 108];

fn weather(faults: Option<(&Profile, u32)>) -> Weather {
    let (forgets, swallowed, meddles, strikes) = match faults {
        Some((profile, strikes)) => {
            (profile.forgets, profile.forgets + profile.unheard, profile.meddles, strikes)
        }
        None => (0, 0, 0, 0),
    };
    let unread = faults.map_or(0, |(profile, _)| profile.unread);
    let retakes = faults.map_or(0, |(profile, _)| profile.retakes);
    let stalls = faults.map_or(0, |(profile, _)| profile.stalls);
    let (forbids, sweeps) = faults.map_or((0, 0), |(profile, _)| (profile.forbids, profile.sweeps));
    let last = faults.map_or(0, |(profile, _)| profile.last);
    let usual = Weather { steps: 8, slow: 10, lag: 4, disk: 2, ..Weather::default() };
    let exact = |(profile, _): &(&Profile, u32)| profile.only.is_some();
    if faults.as_ref().is_some_and(exact) {
        return Weather { budget: Some(2), ..Weather::default() };
    }
    let outsiders = Weather { meddles, retakes, forbids, sweeps, last, ..usual };
    Weather { strikes, forgets, unread, swallowed, stalls, ..outsiders }
}

/// Runs a schedule.
pub fn run(chooser: Chooser, profile: &Profile, lines: bool) -> Outcome {
    let world = World::new(chooser, lines);
    let servers = if profile.servers == 3 && world.choose(2) == 1 { 3 } else { 1 };
    let exact = profile.only.is_some();
    let strikes = if !exact && world.choose(2) == 1 { profile.strikes } else { 0 };
    let known = TIMES.len() as u32 - u32::from(!profile.usual_times);
    let times = if exact { 0 } else { world.choose(known) };
    let (timeout, tick, sync_limit) = TIMES[times as usize];
    let odd = profile.kinds_of_faults == Faults::Odd;
    let latency = match profile.far {
        0 => Weather::default().latency,
        far => FAR[world.choose(far) as usize] * timeout / 1_000,
    };
    let options = Options {
        servers,
        tick,
        sync_limit,
        min_timeout: 2 * tick,
        reap_every: if !exact && world.choose(2) == 1 { 700_000 } else { 60_000_000 },
        replaces: odd && world.choose(2) == 1,
        weather: at_a_distance(weather(Some((profile, strikes))), profile, latency),
        ..Options::default()
    };
    let store = Store::new(&world, Ensemble::new(&world, options));
    let locks = LockPlan::draw(&world, profile);
    for lock in locks.iter().filter(|lock| lock.is_fair()) {
        store.ensemble().keeps_order(format!("/zklock/{}/", lock.name));
    }
    for lock in locks.iter().filter(|lock| lock.administered) {
        for (path, access) in lock.directories() {
            store.ensemble().prepare_for(&path, access);
        }
    }
    let lines = rules::Lines::default();
    let log = log::begin(&world, &lines, profile.logs);
    let ledger = Ledger::new(&world, &store, (timeout, tick), locks.clone(), profile, lines);
    let ledger = Arc::new(ledger);
    let crew = Arc::new(Crew {
        ledger: ledger.clone(),
        locks,
        profile: profile.clone(),
        timeout,
        tick,
        calm: AtomicBool::new(false),
        busy: AtomicU32::new(0),
        running: AtomicU32::new(0),
        exhausted: AtomicBool::new(false),
        planted: AtomicU32::new(0),
        together: Arc::default(),
    });
    world.say(|| format!("{servers} servers, {strikes} strikes, locks {:?}", crew.locks));
    let (running, told, struck) = (Mutex::default(), Mutex::default(), Mutex::default());
    let scene = Arc::new(Scene {
        world: world.clone(),
        store,
        crew,
        running,
        told,
        strikes,
        tick,
        latency,
        struck,
    });
    workload::drops_none();
    for place in 0..profile.processes as usize {
        scene.start(place);
    }
    let end = faults::plan(&scene);
    let ending = scene.clone();
    world.at(end, move || faults::end(&ending));
    let holds = crew_holds(&scene.crew);
    let limit = end + PATIENCE * timeout + holds + task_rests(&scene.crew) + ways(&scene);
    while scene.crew.running.load(Ordering::Relaxed) > 0 {
        let goes_on = world.step();
        faults::stall(&scene);
        if let Some(task) = world.spins() {
            ledger.fail(rules::SPINS, format!("a task looks at the clock without end: {task}"));
        }
        ledger.check();
        check_servers(&scene);
        if !ledger.is_kept() {
            break;
        }
        // Each process finds out by itself that its server differs, perhaps one after the other; and who
        // watches the node two ahead leaves it to the next, who may be on another server.
        let planted = u64::from(scene.crew.planted.load(Ordering::Relaxed));
        let finding_out = planted * u64::from(profile.processes) * 2 * LONG_WAIT;
        if !goes_on || world.now() > limit + finding_out {
            let left = scene.crew.running.load(Ordering::Relaxed);
            ledger.fail(rules::SERVED, format!("{left} tasks are not done"));
            break;
        }
    }
    let polls = world.polls();
    if ledger.is_kept() {
        ending::close(&scene);
    }
    if ledger.is_kept() {
        scene.check_told();
    }
    if world.panics() > 0 {
        ledger.fail(rules::PANIC, format!("{} tasks panicked", world.panics()));
    }
    drop(log);
    finish(&scene, polls)
}

/// Whether what observers are told is compared with what callers did: each of them has a thread of its own.
fn is_observed(profile: &Profile) -> bool {
    let acquires = profile.multi > 80 || profile.steps_down || profile.corner == Some(Corner::Told);
    profile.only.is_none() && (acquires || matches!(profile.shape, Shape::Permits))
}

/// Which of several connections and servers is used.
fn check_servers(scene: &Scene) {
    let (ensemble, profile) = (scene.store.ensemble(), &scene.crew.profile);
    // Where all wait for as long as it takes, whoever asked on a silent connection is still there.
    if profile.patient && ensemble.asked_in_silence() {
        scene.crew.ledger.fail(rules::LANES, "a node is asked for on a silent connection");
    }
    if profile.kinds_of_faults == Faults::Strays && ensemble.came_back() {
        scene.crew.ledger.fail(rules::DIVERGED, "a new session is on the server that was left");
    }
}

/// How long all tasks together keep the locks, where that is long.
fn crew_holds(crew: &Crew) -> u64 {
    let profile = &crew.profile;
    let grants = u64::from(profile.processes * profile.tasks * (profile.rounds + 1));
    let long = u64::from(profile.long) * crew.timeout * 3 / 2_000;
    // Those who ask inside hold for long, too.
    let long = if profile.deep { 4 * long } else { long };
    (crew.locks.iter().map(LockPlan::hold).max().unwrap_or(0) + long) * grants
}

/// How long a task rests between its calls, where most of these rests are long.
fn task_rests(crew: &Crew) -> u64 {
    let profile = &crew.profile;
    if profile.rests > 500 { u64::from(profile.rounds) * crew.timeout * 4 / 3 } else { 0 }
}

/// The weather where a message takes so long at least: then none takes much longer.
fn at_a_distance(usual: Weather, profile: &Profile, latency: u64) -> Weather {
    Weather { latency, slow: if profile.far > 0 { 0 } else { usual.slow }, ..usual }
}

/// How long all tasks together wait for servers that are far away.
fn ways(scene: &Scene) -> u64 {
    let profile = &scene.crew.profile;
    let calls = u64::from(profile.processes * profile.tasks * (profile.rounds + 1));
    if profile.far > 0 { calls * 12 * scene.latency } else { 0 }
}

fn finish(scene: &Arc<Scene>, polls: u64) -> Outcome {
    let (world, ledger) = (&scene.world, &scene.crew.ledger);
    let (grants, refusals) = ledger.counts();
    let outcome = Outcome {
        violation: ledger.violation(),
        record: world.take_record(),
        digest: world.digest(),
        lines: world.take_lines(),
        grants,
        refusals,
        requests: scene.store.ensemble().requests(),
        faults: scene.store.faults(),
        polls,
        took: world.now(),
    };
    ledger.clear();
    drop(scene.take_running());
    world.end();
    outcome
}
