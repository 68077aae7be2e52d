//! The tasks, the timers and the time of a simulated world.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Wake, Waker};

use crate::chooser::{Choice, Chooser};
use crate::executor::alarms::{Alarm, AlarmId, Alarms};
use crate::executor::process::{Process, ProcessId, current_task, set_current};
use crate::executor::standing::Standing;
use crate::executor::timer::Timer;
use crate::executor::trace::Trace;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A moment this close may come while tasks are ready, in microseconds: the machine is slow.
const SOON: u64 = 2_000;

/// How often, of 1,000 polls, a moment that is due or close comes first.
const LATE: u32 = 80;

/// How often the clocks are looked at in one step at most: whoever waits for a time lets others run.
const LOOKS: u32 = 100_000;

/// The stream of the choices who goes first.
const ORDER: u32 = 1;

/// Everything that a schedule consists of, except for what the tasks themselves know.
///
/// It must be shared between threads to satisfy the bounds of wakers, but one thread uses it. Its
/// lock is never held while anything is polled, woken, called or dropped.
pub struct World {
    core: Mutex<Core>,
    /// Which world it is.
    number: u64,
    /// Whether somebody reads the timeline.
    has_lines: bool,
    /// In microseconds. It changes under the lock, and everybody looks at it.
    now: AtomicU64,
    /// How often clocks were looked at in this step.
    looks: AtomicU32,
    /// The task that looked at its clock again and again, and let nobody else run.
    spins: OnceLock<&'static str>,
    ended: AtomicBool,
}

/// How many worlds there were. Nothing in a world depends on its number.
static WORLDS: AtomicU64 = AtomicU64::new(0);

struct Core {
    chooser: Chooser,
    tasks: Vec<Option<Task>>,
    /// What is to be polled: the round, and the task. Who is woken is ready in the next round; within
    /// a round the tasks are in their own order, not in that of their wakers, which is chosen by
    /// tokio for some.
    ready: Vec<(u64, u32)>,
    round: u64,
    processes: Vec<Group>,
    alarms: Alarms,
    unique: u64,
    polls: u64,
    panics: u32,
    trace: Trace,
    /// Who waits until something is ready.
    idle: Option<Waker>,
}

struct Group {
    standing: Arc<Standing>,
    pauses: u32,
    parked: Vec<u32>,
    tasks: usize,
    /// How far its wall clock is ahead, in microseconds.
    ahead: i64,
    /// Those of its tasks that have chosen something, in the order in which they began to.
    choosing: Vec<u32>,
}

struct Task {
    /// Not there while it is polled.
    work: Option<Work>,
    name: &'static str,
    process: ProcessId,
    queued: bool,
    waker: Waker,
}

struct TaskWaker {
    world: Arc<World>,
    task: u32,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut core = self.world.lock();
        core.queue(self.task);
        let idle = if core.ready.is_empty() { None } else { core.idle.take() };
        drop(core);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl Core {
    fn queue(&mut self, id: u32) {
        let Some(Some(task)) = self.tasks.get_mut(id as usize) else { return };
        if std::mem::replace(&mut task.queued, true) {
            return;
        }
        let process = &mut self.processes[task.process.0 as usize];
        if process.standing.is_paused() {
            process.parked.push(id);
            return;
        }
        let entry = (self.round + 1, id);
        let at = self.ready.partition_point(|other| *other < entry);
        self.ready.insert(at, entry);
    }

    /// Whose the next choice is. A number of its own for each task of a process, and 0 for the world.
    fn stream(&mut self) -> u32 {
        let Some((process, task)) = current_task() else { return 0 };
        let Some(group) = self.processes.get_mut(process.0 as usize) else { return 0 };
        let known = group.choosing.iter().position(|other| *other == task);
        let place = known.unwrap_or_else(|| {
            group.choosing.push(task);
            group.choosing.len() - 1
        });
        (process.0 + 1) * 100 + place.min(99) as u32
    }

    /// The name of the task that is polled, which looks at its clock without end.
    fn name_of_current(&self) -> &'static str {
        let task = current_task().and_then(|(_, task)| self.tasks.get(task as usize)?.as_ref());
        task.map_or("no task", |task| task.name)
    }

    fn process(&self, id: ProcessId) -> &Group {
        &self.processes[id.0 as usize]
    }

    fn process_mut(&mut self, id: ProcessId) -> &mut Group {
        &mut self.processes[id.0 as usize]
    }
}

/// Wakes somebody, as a client or a timer does that goes on whoever panics.
pub(crate) fn wake_up(waker: Waker) {
    drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// An empty world, at the moment 0. It keeps lines for a timeline if it is told to.
    pub fn new(chooser: Chooser, lines: bool) -> Arc<Self> {
        let core = Mutex::new(Core {
            chooser,
            tasks: Vec::with_capacity(256),
            ready: Vec::new(),
            round: 0,
            processes: Vec::new(),
            alarms: Alarms::default(),
            unique: 0,
            polls: 0,
            panics: 0,
            trace: Trace::new(lines),
            idle: None,
        });
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let (now, looks, spins) = (AtomicU64::new(0), AtomicU32::new(0), OnceLock::new());
        let ended = AtomicBool::new(false);
        Arc::new(World { core, number, has_lines: lines, now, looks, spins, ended })
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which world it is.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The moment, in microseconds since the world began.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Picks one of so many alternatives, of which 0 is the harmless one.
    pub fn choose(&self, of: u32) -> u32 {
        let mut core = self.lock();
        let by = core.stream();
        core.chooser.choose(by, of)
    }

    /// Picks one of so many alternatives, another one than 0 in so many of 1,000 cases.
    pub fn seldom(&self, of: u32, per_mille: u32) -> u32 {
        let mut core = self.lock();
        let by = core.stream();
        core.chooser.seldom(by, of, per_mille)
    }

    /// A number that was not given before. It is counted and not chosen: nothing may depend on it.
    pub fn unique(&self) -> u64 {
        let mut core = self.lock();
        core.unique += 1;
        core.unique
    }

    /// Adds to the digest of what happened.
    pub fn note(&self, words: &[u64]) {
        self.lock().trace.note(words);
    }

    /// Adds a line to the timeline, if somebody reads it.
    pub fn say(&self, line: impl FnOnce() -> String) {
        if self.has_lines {
            let line = line();
            let now = self.now();
            self.lock().trace.say(now, &line);
        }
    }

    /// Starts a process.
    pub fn process(self: &Arc<Self>) -> Process {
        let mut core = self.lock();
        let id = ProcessId(core.processes.len() as u32);
        // No clock begins at its origin.
        let standing = Arc::new(Standing::new(1_000_000_000_000));
        core.processes.push(Group {
            standing: standing.clone(),
            pauses: 0,
            parked: Vec::new(),
            tasks: 0,
            ahead: 0,
            choosing: Vec::new(),
        });
        Process::new(self.clone(), id, standing)
    }

    pub(super) fn spawn(self: &Arc<Self>, process: ProcessId, name: &'static str, work: Work) {
        let mut core = self.lock();
        if self.has_ended() || core.process(process).standing.is_crashed() {
            drop(core);
            drop(work);
            return;
        }
        let id = core.tasks.len() as u32;
        let waker = Waker::from(Arc::new(TaskWaker { world: self.clone(), task: id }));
        core.tasks.push(Some(Task { work: Some(work), name, process, queued: false, waker }));
        core.process_mut(process).tasks += 1;
        core.queue(id);
    }

    pub(super) fn pause(&self, id: ProcessId) {
        let mut core = self.lock();
        let core = &mut *core;
        core.processes[id.0 as usize].standing.set_paused(true);
        core.processes[id.0 as usize].pauses += 1;
        let tasks = &core.tasks;
        let runs = |task: u32| tasks[task as usize].as_ref().is_some_and(|task| task.process == id);
        let parked: Vec<u32> =
            core.ready.iter().map(|(_, task)| *task).filter(|task| runs(*task)).collect();
        core.ready.retain(|(_, task)| !runs(*task));
        core.processes[id.0 as usize].parked.extend(parked);
    }

    pub(super) fn resume(&self, id: ProcessId) {
        let mut core = self.lock();
        let process = core.process_mut(id);
        process.standing.set_paused(false);
        for task in std::mem::take(&mut process.parked) {
            if let Some(Some(slot)) = core.tasks.get_mut(task as usize) {
                slot.queued = false;
            }
            core.queue(task);
        }
    }

    pub(super) fn pauses(&self, id: ProcessId) -> u32 {
        self.lock().process(id).pauses
    }

    pub(super) fn crash(&self, id: ProcessId) {
        let mut dropped = Vec::new();
        let mut core = self.lock();
        core.process(id).standing.crash();
        core.process_mut(id).tasks = 0;
        for slot in &mut core.tasks {
            if slot.as_ref().is_some_and(|task| task.process == id) {
                dropped.extend(slot.take());
            }
        }
        drop(core);
        drop(dropped);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn tasks_of(&self, id: ProcessId) -> usize {
        self.lock().process(id).tasks
    }

    pub(super) fn task_names(&self, id: ProcessId) -> Vec<&'static str> {
        let core = self.lock();
        let tasks = core.tasks.iter().flatten();
        tasks.filter(|task| task.process == id).map(|task| task.name).collect()
    }

    pub(super) fn set_ahead(&self, id: ProcessId, micros: i64) {
        self.lock().process_mut(id).ahead = micros;
    }

    pub(super) fn wall(&self, id: ProcessId) -> i64 {
        let now = i64::try_from(self.now()).unwrap_or(i64::MAX);
        now.saturating_add(self.lock().process(id).ahead)
    }

    /// Somebody looks at a clock.
    pub(super) fn look(&self) {
        let looks = self.looks.load(Ordering::Relaxed) + 1;
        self.looks.store(looks, Ordering::Relaxed);
        if looks > LOOKS {
            self.looks.store(0, Ordering::Relaxed);
            self.spins.get_or_init(|| self.lock().name_of_current());
        }
        // No time passes within a poll, so it would go on for ever.
        assert!(looks <= LOOKS, "a task looks at the clock again and again");
    }

    /// Waits for a moment, in microseconds since the world began.
    pub fn sleep_until(self: &Arc<Self>, at: u64) -> Timer {
        Timer::new(self.clone(), at)
    }

    /// Calls at a moment. Those of the same moment are called in the order in which they were set.
    pub fn at(&self, at: u64, call: impl FnOnce() + Send + 'static) {
        let (at, call) = (at.max(self.now()), Alarm::Call(Box::new(call)));
        self.lock().alarms.set(at, call);
    }

    pub(super) fn set_waker(&self, set: Option<AlarmId>, at: u64, waker: &Waker) -> AlarmId {
        let mut core = self.lock();
        if let Some(id) = set
            && let Some(Alarm::Wake(kept)) = core.alarms.get_mut(id)
        {
            let old = (!kept.will_wake(waker)).then(|| std::mem::replace(kept, waker.clone()));
            drop(core);
            drop(old);
            return id;
        }
        core.alarms.set(at.max(self.now()), Alarm::Wake(waker.clone()))
    }

    /// Takes back what was to be woken.
    pub(super) fn cancel(&self, id: AlarmId) {
        let alarm = self.lock().alarms.remove(id);
        drop(alarm);
    }

    /// The next moment at which something happens, if no task is ready now; the end of time, if there
    /// is none.
    pub fn idle_until(&self) -> Option<u64> {
        let mut core = self.lock();
        core.ready.is_empty().then(|| core.alarms.next().unwrap_or(u64::MAX))
    }

    /// Whether a task is ready. If not, this waker is told when one is.
    pub fn is_ready(&self, waker: &Waker) -> bool {
        let mut core = self.lock();
        let old = core.idle.replace(waker.clone());
        let ready = !core.ready.is_empty();
        drop(core);
        drop(old);
        ready
    }

    /// Lets time go by in which nothing happens: up to a moment, or to the next at which something does.
    pub fn advance(&self, to: u64) {
        let mut core = self.lock();
        let next = core.alarms.next().unwrap_or(u64::MAX);
        self.now.fetch_max(to.min(next), Ordering::Relaxed);
    }

    /// Polls one task, or lets the next moment come. False where there is nothing to come.
    pub fn step(&self) -> bool {
        let mut core = self.lock();
        self.looks.store(0, Ordering::Relaxed);
        if !core.ready.is_empty() {
            let soon = core.alarms.next().is_some_and(|at| at <= self.now() + SOON);
            let late = soon && core.chooser.seldom(ORDER, 2, LATE) == 1;
            if !late {
                self.poll_one(core);
                return true;
            }
        }
        let Some((at, alarm)) = core.alarms.pop() else { return false };
        self.now.store(self.now().max(at), Ordering::Relaxed);
        drop(core);
        match alarm {
            Alarm::Wake(waker) => wake_up(waker),
            Alarm::Call(call) => call(),
        }
        true
    }

    fn poll_one(&self, mut core: MutexGuard<'_, Core>) {
        let among = core.ready.len() as u32;
        let at = core.chooser.choose(ORDER, among) as usize;
        let (round, id) = core.ready.remove(at);
        core.round = round;
        let Some(Some(task)) = core.tasks.get_mut(id as usize) else { return };
        task.queued = false;
        let process = task.process;
        let (Some(mut work), waker) = (task.work.take(), task.waker.clone()) else { return };
        let now = self.now() + 1;
        self.now.store(now, Ordering::Relaxed);
        core.polls += 1;
        core.trace.note(&[u64::from(id), now]);
        drop(core);
        set_current(Some((process, id)));
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context)));
        let goes_on = matches!(&polled, Ok(poll) if poll.is_pending());
        let mut core = self.lock();
        core.panics += u32::from(polled.is_err());
        let slot = core.tasks.get_mut(id as usize);
        let rest = match slot {
            Some(Some(task)) if goes_on => {
                task.work = Some(work);
                None
            }
            // It crashed while it was polled, or the world ended.
            Some(None) | None => Some((work, None)),
            Some(slot) => {
                let slot = slot.take();
                core.process_mut(process).tasks -= 1;
                Some((work, slot))
            }
        };
        drop(core);
        drop((rest, polled));
        set_current(None);
    }

    /// The names of all tasks that are left, and how many timers somebody waits for.
    pub fn left(&self) -> (Vec<&'static str>, usize) {
        let core = self.lock();
        let tasks = core.tasks.iter().flatten().map(|task| task.name);
        (tasks.collect(), core.alarms.wakes())
    }

    /// How many tasks were polled.
    pub fn polls(&self) -> u64 {
        self.lock().polls
    }

    /// How many tasks panicked.
    pub fn panics(&self) -> u32 {
        self.lock().panics
    }

    /// The name of the task, if there is one, that looked at its clock again and again within one poll. It panicked
    /// there.
    pub fn spins(&self) -> Option<&'static str> {
        self.spins.get().copied()
    }

    /// A digest of all that happened so far.
    pub fn digest(&self) -> u64 {
        self.lock().trace.digest()
    }

    /// Takes the timeline.
    pub fn take_lines(&self) -> Vec<String> {
        self.lock().trace.take_lines()
    }

    /// Takes what was chosen.
    pub fn take_record(&self) -> Vec<Choice> {
        self.lock().chooser.take_record()
    }

    /// Ends it: drops all tasks and timers. It stands still after that.
    pub fn end(&self) {
        let mut core = self.lock();
        self.ended.store(true, Ordering::Relaxed);
        core.ready.clear();
        drop(core);
        loop {
            let mut core = self.lock();
            let rest = (std::mem::take(&mut core.tasks), std::mem::take(&mut core.alarms));
            drop(core);
            if rest.0.is_empty() && rest.1.is_empty() {
                return;
            }
            drop(rest);
        }
    }
}
