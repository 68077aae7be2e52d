//! Promised bounds, and what the machine itself adds to them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use crate::{RawClient, ZooKeeper};

/// How much later than promised a call may come back, and the meaning of "at once".
pub const BOUND: Duration = Duration::from_millis(100);

/// How often the machine is asked who had to wait for a processor.
const LOOK: Duration = Duration::from_millis(100);

/// Measures beside a test by how much the machine is late with what nobody promises: a timer that
/// fires and wakes another thread, a thread that is ready and has no processor, and a request that a
/// server answers.
#[derive(Debug)]
pub struct Control {
    stop: Arc<AtomicBool>,
    worst: Arc<[AtomicU64; 2]>,
    threads: Vec<JoinHandle<()>>,
}

impl Control {
    /// Measures timers only, for calls that no server answers.
    pub fn timers() -> Self {
        let mut control =
            Control { stop: Arc::default(), worst: Arc::default(), threads: Vec::new() };
        // From the thread whose timer it is to the one that waits, as in the library.
        let (fires, fired) = mpsc::channel::<mpsc::Sender<()>>();
        thread::spawn(move || {
            for waiting in fired {
                let _ = waiting.send(());
            }
        });
        control.measure(0, move || {
            const STEP: Duration = Duration::from_millis(5);
            let (woken, waiting) = mpsc::channel();
            let start = Instant::now();
            thread::sleep(STEP);
            let _ = fires.send(woken).map(|()| waiting.recv());
            start.elapsed().saturating_sub(STEP)
        });
        // A thread that has just worked is made to wait for longer than one that has slept.
        let mut waited = HashMap::new();
        control.measure(0, move || {
            thread::sleep(LOOK);
            waits_for_processors(&mut waited)
        });
        control
    }

    /// Measures timers, and the answers to another client's commits.
    ///
    /// # Panics
    ///
    /// If the server does not let a client in.
    pub fn of(server: &ZooKeeper) -> Self {
        Control::at(&server.addr())
    }

    /// The same where a proxy forwards the answers, late or not.
    ///
    /// # Panics
    ///
    /// If the server does not let a client in.
    pub fn at(addr: &str) -> Self {
        let mut control = Control::timers();
        let raw = RawClient::connect(addr, Duration::from_secs(60));
        let mut raw = raw.unwrap_or_else(|error| panic!("{error:?}"));
        control.measure(1, move || {
            thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            // It is refused in the order of commits, and leaves nothing.
            let _ = raw.delete("/there/is/no/such/node");
            start.elapsed()
        });
        control
    }

    fn measure(&mut self, what: usize, mut once: impl FnMut() -> Duration + Send + 'static) {
        let (stop, worst) = (self.stop.clone(), self.worst.clone());
        self.threads.push(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let took = u64::try_from(once().as_nanos()).unwrap_or(u64::MAX);
                worst[what].fetch_max(took, Ordering::Relaxed);
            }
        }));
    }

    /// The worst timer and the worst answer so far.
    fn worst(&self) -> [Duration; 2] {
        [0, 1].map(|what| Duration::from_nanos(self.worst[what].load(Ordering::Relaxed)))
    }

    /// Asserts that something took no longer than promised, [`BOUND`] included.
    ///
    /// # Panics
    ///
    /// If it took longer.
    #[track_caller]
    pub fn within(&self, what: &str, took: Duration, promised: Duration) {
        self.within_answers(what, took, promised, 1);
    }

    /// The same of something that needs so many answers, one after the other.
    ///
    /// # Panics
    ///
    /// If it took longer.
    #[track_caller]
    pub fn within_answers(&self, what: &str, took: Duration, promised: Duration, answers: u32) {
        if let Some(late) = self.late(what, took, promised, answers) {
            panic!("{late}");
        }
    }

    /// Returns what is wrong if it took longer, for [`measured`](crate::measured).
    pub fn late(
        &self,
        what: &str,
        took: Duration,
        promised: Duration,
        answers: u32,
    ) -> Option<Late> {
        let is_late =
            |[timer, answer]: [Duration; 2]| took > promised + BOUND + timer + answer * answers;
        if is_late(self.worst()) {
            // What happened just now is not measured yet.
            thread::sleep(2 * LOOK);
        }
        let what = format!("{what}: {took:?}, promised {promised:?}");
        let [timer, answer] = self.worst();
        println!("{what}; beside it {timer:?} and {answer:?}");
        is_late([timer, answer]).then(|| self.too_late(&what))
    }

    /// The same of something that is known to have come too late.
    pub fn too_late(&self, what: &str) -> Late {
        let [waited, answer] = self.worst();
        let says = format!(
            "{what}; beside it threads waited for up to {waited:?}, and an answer took {answer:?}"
        );
        Late { says, waited }
    }
}

/// Something that took longer than promised, on a machine that may be too busy to tell.
#[derive(Debug)]
pub struct Late {
    says: String,
    waited: Duration,
}

impl Late {
    /// Whether a thread that nobody promises anything was late by more than [`BOUND`]. The same delay can have
    /// been anywhere in what was measured, several times.
    pub(crate) fn is_on_a_busy_machine(&self) -> bool {
        self.waited > BOUND
    }

    #[cfg(test)]
    pub(crate) fn beside(waited: Duration) -> Self {
        Late { says: "late".to_owned(), waited }
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How long a thread of this process was ready and had no processor, the worst of them, since the look
/// before the last. Nothing where the system does not tell.
fn waits_for_processors(before: &mut HashMap<String, (u64, u64)>) -> Duration {
    let mut now = HashMap::new();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = |task: &Path| {
        let told = fs::read_to_string(task.join("schedstat")).ok()?;
        told.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    for task in tasks {
        let Some(total) = waited(&task.path()) else { continue };
        let name = task.file_name().to_string_lossy().into_owned();
        let (earlier, _) = before.get(&name).copied().unwrap_or((total, 0));
        now.insert(name, (total, total.saturating_sub(earlier)));
    }
    let both = |(name, (_, here)): (&String, &(u64, u64))| {
        here + before.get(name).map_or(0, |(_, earlier)| *earlier)
    };
    let worst = now.iter().map(both).max().unwrap_or_default();
    *before = now;
    Duration::from_nanos(worst)
}
