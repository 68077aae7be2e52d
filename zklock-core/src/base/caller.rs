//! The callers in this process, and whom a blocked thread keeps from continuing.

use std::cell::Cell;
use std::fmt;
use std::task::{Context, Waker};
use std::thread::{self, ThreadId};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{self, coop};

thread_local! {
    /// `thread::current()` counts references, and this is read at every acquire.
    static THREAD: ThreadId = thread::current().id();

    /// Whether a runtime has polled something on this thread that is not a task. Then somebody
    /// called `block_on` here, and the thread is not a worker of a runtime, because workers run
    /// only tasks.
    static RUNS_BLOCK_ON: Cell<bool> = const { Cell::new(false) };

    /// Which task of a simulation this thread polls; 0 for none.
    static SIMULATED: Cell<u16> = const { Cell::new(0) };
}

/// Says which task of a simulation this thread polls from now on, if any: all of them run on one thread, and
/// are no tasks of a runtime.
pub fn polls(task: Option<u32>) {
    // Tasks that are so many apart are the same caller, which decides what is told, and is rare.
    SIMULATED.set(task.map_or(0, |task| (task % u32::from(u16::MAX)) as u16 + 1));
}

/// The task that a thread polls, of a runtime or of a simulation; none of them on a plain thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolledTask(Option<task::Id>, u16);

impl PolledTask {
    /// The one that this thread polls.
    pub fn here() -> Self {
        PolledTask(task::try_id(), SIMULATED.get())
    }
}

/// The calling task or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    task: Option<task::Id>,
    thread: ThreadId,
    scope: u32,
    /// The task of a simulation, or 0.
    simulated: u16,
    /// What it stops, if it blocks its thread.
    blocking: Option<Stops>,
    /// Whether a runtime runs it. The work of a plain thread goes wherever its guard is moved.
    in_runtime: bool,
}

/// What cannot continue while the thread is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stops {
    /// Nothing that is known: it is a plain thread, one of a pool, or a worker whose tasks other
    /// workers take over.
    Nothing,
    /// The tasks of a runtime with a single thread.
    Thread,
    /// The tasks of a `LocalSet` that a multi-threaded runtime runs on it.
    LocalSet,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) if self.is_blocking() => write!(f, "blocking task {task}"),
            Some(task) => write!(f, "task {task}"),
            None if self.simulated > 0 => write!(f, "task {}", self.simulated),
            None => write!(f, "thread {:?}", self.thread),
        }
    }
}

impl Caller {
    /// The caller, which waits as a future.
    pub fn task() -> Self {
        let task = task::try_id();
        let thread = THREAD.try_with(|id| *id).unwrap_or_else(|_| thread::current().id());
        let in_runtime = task.is_some() || Handle::try_current().is_ok();
        if in_runtime && task.is_none() {
            RUNS_BLOCK_ON.set(true);
        }
        Caller { task, thread, scope: 0, simulated: SIMULATED.get(), blocking: None, in_runtime }
    }

    /// The caller, which blocks its thread.
    pub fn thread() -> Self {
        let task = task::try_id();
        let thread = THREAD.try_with(|id| *id).unwrap_or_else(|_| thread::current().id());
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor()).ok();
        let stops = match flavor {
            Some(RuntimeFlavor::CurrentThread) if is_polled() => Stops::Thread,
            Some(RuntimeFlavor::MultiThread) if RUNS_BLOCK_ON.get() && is_polled() => {
                Stops::LocalSet
            }
            _ => Stops::Nothing,
        };
        let (blocking, in_runtime) = (Some(stops), flavor.is_some());
        Caller { task, thread, scope: 0, simulated: SIMULATED.get(), blocking, in_runtime }
    }

    /// Sets the scope of the call: a number that is almost certainly unique, and never zero.
    pub fn inside(self, scope: u32) -> Self {
        Caller { scope, ..self }
    }

    /// The scope of the call, or zero.
    pub fn scope(&self) -> u32 {
        self.scope
    }

    /// Whether it blocks its thread.
    pub fn is_blocking(&self) -> bool {
        self.blocking.is_some()
    }

    /// Whether both are the same task, or the same thread outside of tasks. This does not prove
    /// that one waits for the other in vain: a task may run several futures concurrently, and a
    /// guard may be moved.
    pub fn is_same(&self, other: &Caller) -> bool {
        match (self.task, other.task) {
            (Some(mine), Some(theirs)) => mine == theirs,
            (None, None) => self.thread == other.thread && self.simulated == other.simulated,
            _ => false,
        }
    }

    /// Whether both are the same task.
    pub fn is_same_task(&self, other: &Caller) -> bool {
        let is_task = self.task.is_some() || self.simulated > 0;
        is_task && (self.task, self.simulated) == (other.task, other.simulated)
    }

    /// Whether blocking the present thread keeps the other one from ever continuing: it lives on
    /// this thread, and no other thread takes over what this one runs.
    ///
    /// A `LocalSet` inside a multi-threaded runtime looks like one of its workers. It is recognised
    /// only if something that is not a task has acquired a lock on this thread.
    pub fn stops(&self, other: &Caller) -> bool {
        let here = self.thread == other.thread && other.in_runtime;
        here && match self.blocking {
            None | Some(Stops::Nothing) => false,
            Some(Stops::Thread) => true,
            Some(Stops::LocalSet) => self.task.is_some() || other.task.is_some(),
        }
    }
}

/// Whether a runtime polls the caller, which then has a cooperative budget. Plain code on a thread
/// has none, nor has a thread of the runtime's pool for blocking work.
pub(crate) fn is_polled() -> bool {
    let mut context = Context::from_waker(Waker::noop());
    // No budget is larger. What was taken is given back, in reverse order.
    let mut taken = Vec::with_capacity(usize::from(u8::MAX) + 1);
    let ended = (0..=u8::MAX).any(|_| match coop::poll_proceed(&mut context) {
        std::task::Poll::Ready(step) => {
            taken.push(step);
            false
        }
        std::task::Poll::Pending => true,
    });
    while taken.pop().is_some() {}
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_runtime_of_one_thread_stops_with_it() {
        let (root, blocking) = (Caller::task(), Caller::thread());
        assert!(blocking.stops(&root) && blocking.stops(&blocking));
        let task = tokio::spawn(async { Caller::task() }).await.unwrap();
        assert!(blocking.stops(&task) && !root.stops(&task));
        // What is asked for costs the caller nothing.
        assert!(coop::has_budget_remaining());
        let pool = task::spawn_blocking(|| (Caller::thread(), Caller::thread())).await.unwrap();
        assert!(!pool.0.stops(&pool.1) && !pool.0.stops(&root) && pool.0.is_same(&pool.1));
    }

    #[test]
    fn workers_are_taken_over_and_a_local_set_is_not() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        let runtime = runtime.unwrap();
        let on_worker = async {
            let one = tokio::spawn(async { Caller::task() }).await.unwrap();
            (one, Caller::thread())
        };
        let (one, other) = runtime.block_on(runtime.spawn(on_worker)).unwrap();
        assert!(!other.stops(&one));
        let local = task::LocalSet::new();
        let here = async {
            let root = Caller::task();
            let task = task::spawn_local(async { Caller::task() }).await.unwrap();
            let (blocking, within) =
                (Caller::thread(), task::spawn_local(async { Caller::thread() }));
            (root, task, blocking, within.await.unwrap())
        };
        let (root, task, blocking, within) = local.block_on(&runtime, here);
        assert!(blocking.stops(&task) && within.stops(&task) && within.stops(&root));
        assert!(!blocking.stops(&root));
    }

    #[test]
    fn a_plain_thread_stops_nothing() {
        let (one, other) =
            (Caller::thread(), futures_lite::future::block_on(async { Caller::task() }));
        assert!(!one.stops(&one) && !one.stops(&other) && one.is_same(&one));
    }

    #[test]
    fn the_tasks_of_a_simulation_are_callers_of_their_own() {
        let [one, other, again] = [1, 2, 1].map(|task| {
            polls(Some(task));
            Caller::task()
        });
        polls(None);
        assert!(one.is_same(&again) && one.is_same_task(&again));
        assert!(!one.is_same(&other) && !one.is_same_task(&other));
        assert!(!one.is_same(&Caller::task()) && !Caller::task().is_same_task(&Caller::task()));
    }

    #[test]
    fn it_is_small() {
        assert!(size_of::<Caller>() <= 24);
    }
}
