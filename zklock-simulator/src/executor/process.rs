//! Simulated processes: tasks that are paused, and that crash, together.

use std::any::type_name;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use zklock_core::base::caller;

use crate::executor::standing::Standing;
use crate::executor::world::World;

/// The number of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

thread_local! {
    static CURRENT: Cell<Option<(ProcessId, u32)>> = const { Cell::new(None) };
}

/// The process and the number of the task that is polled now.
pub fn current_task() -> Option<(ProcessId, u32)> {
    CURRENT.get()
}

pub(super) fn set_current(task: Option<(ProcessId, u32)>) {
    CURRENT.set(task);
    caller::polls(task.map(|(_, number)| number));
}

/// A simulated process. Clones are the same one.
#[derive(Clone)]
pub struct Process {
    world: Arc<World>,
    id: ProcessId,
    standing: Arc<Standing>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.id, f)
    }
}

impl Process {
    pub(super) fn new(world: Arc<World>, id: ProcessId, standing: Arc<Standing>) -> Self {
        Process { world, id, standing }
    }

    /// Which it is.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// A number that no other process has, in no world.
    pub fn place(&self) -> u64 {
        self.world.number() << 32 | u64::from(self.id.0)
    }

    /// Where it lives.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Starts a task. One of a process that crashed is dropped at once.
    pub fn spawn<W: Future<Output = ()> + Send + 'static>(&self, work: W) {
        self.spawn_named(type_name::<W>(), Box::pin(work));
    }

    /// The same, under a name.
    pub fn spawn_named(&self, name: &'static str, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.world.spawn(self.id, name, work);
    }

    /// Stops all of its tasks where they are, as SIGSTOP does; its clock and its timers go on.
    pub fn pause(&self) {
        self.world.pause(self.id);
    }

    /// Lets its tasks go on.
    pub fn resume(&self) {
        self.world.resume(self.id);
    }

    /// How often it was paused.
    pub fn pauses(&self) -> u32 {
        self.world.pauses(self.id)
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.standing.is_paused()
    }

    /// Ends it for good, as SIGKILL does: it is no more alive, then its tasks are dropped. What they
    /// do while they are dropped must not leave the process: whoever carries a message out of it
    /// asks [`Process::is_alive`].
    pub fn crash(&self) {
        self.world.crash(self.id);
    }

    /// Whether it has not crashed.
    pub fn is_alive(&self) -> bool {
        !self.standing.is_crashed() && !self.world.has_ended()
    }

    /// Whether it has not crashed, and does not stand still.
    pub fn runs(&self) -> bool {
        self.is_alive() && !self.is_paused()
    }

    /// Makes its clock run fast by so many millionths, or slow where it is negative.
    pub fn set_drift(&self, millionths: i32) {
        self.standing.set_drift(self.world.now(), millionths);
    }

    /// Sets its wall clock ahead of those of the servers by so many microseconds, or behind where it is negative.
    pub fn set_ahead(&self, micros: i64) {
        self.world.set_ahead(self.id, micros);
    }

    /// How long ago the world began by its wall clock, in microseconds.
    pub(crate) fn wall(&self) -> i64 {
        self.world.wall(self.id)
    }

    /// What its clock shows, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        self.world.look();
        self.standing.nanos(self.world.now())
    }

    /// The moment of the world at which its clock shows this, in microseconds, rounded up.
    pub fn moment(&self, nanos: u64) -> u64 {
        self.standing.moment(nanos)
    }

    /// How many tasks it has.
    pub fn tasks(&self) -> usize {
        self.world.tasks_of(self.id)
    }

    /// The names of its tasks.
    pub fn task_names(&self) -> Vec<&'static str> {
        self.world.task_names(self.id)
    }
}
