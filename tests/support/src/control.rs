//! Promised bounds, and what the machine itself adds to them.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use crate::lock::lock;
use crate::{RawClient, ZooKeeper};

/// How much later than promised a call may come back, and the meaning of "at once".
pub const BOUND: Duration = Duration::from_millis(100);

/// What is measured: timers and waits for a processor, answers, and how long one thread waited in all.
const TIMER: usize = 0;
const ANSWER: usize = 1;
const WITHHELD: usize = 2;

/// How often the machine is asked who had to wait for a processor.
const LOOK: Duration = Duration::from_millis(100);

/// Measures beside a test by how much the machine is late with what nobody promises: a timer that
/// fires and wakes another thread, a thread that is ready and has no processor, and a request that a
/// server answers.
///
/// What was late at any time since it was made is allowed for. So a test that measures several things, one after
/// the other, makes one for each: a delay at the first excuses none of the others.
#[derive(Debug)]
pub struct Control {
    stop: Arc<AtomicBool>,
    worst: Arc<[AtomicU64; 3]>,
    /// When timers and answers were late by more than [`BOUND`], and by how much.
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
    /// Whether the test itself may make answers late.
    behind_proxy: bool,
    threads: Vec<JoinHandle<()>>,
}

impl Control {
    /// Measures timers only, for calls that no server answers.
    pub fn timers() -> Self {
        let mut control = Control {
            stop: Arc::default(),
            worst: Arc::default(),
            late: Arc::default(),
            behind_proxy: false,
            threads: Vec::new(),
        };
        // From the thread whose timer it is to the one that waits, as in the library.
        let (fires, fired) = mpsc::channel::<mpsc::Sender<()>>();
        thread::spawn(move || {
            for waiting in fired {
                let _ = waiting.send(());
            }
        });
        control.measure(TIMER, move || {
            const STEP: Duration = Duration::from_millis(5);
            let (woken, waiting) = mpsc::channel();
            let start = Instant::now();
            thread::sleep(STEP);
            let _ = fires.send(woken).map(|()| waiting.recv());
            start.elapsed().saturating_sub(STEP)
        });
        // A thread that has just worked is made to wait for longer than one that has slept.
        let (mut waits, worst) = (Waits::default(), control.worst.clone());
        waits.look();
        control.measure(TIMER, move || {
            thread::sleep(LOOK);
            let (lately, in_all) = waits.look();
            worst[WITHHELD].fetch_max(nanos(in_all), Ordering::Relaxed);
            lately
        });
        control
    }

    /// Measures timers, and the answers to another client's commits.
    ///
    /// # Panics
    ///
    /// If the server does not let a client in.
    pub fn of(server: &ZooKeeper) -> Self {
        let mut control = Control::at(&server.addr());
        control.behind_proxy = false;
        control
    }

    /// The same where a proxy forwards the answers, late or not.
    ///
    /// # Panics
    ///
    /// If the server does not let a client in.
    pub fn at(addr: &str) -> Self {
        let mut control = Control::timers();
        control.behind_proxy = true;
        let raw = RawClient::connect(addr, Duration::from_secs(60));
        let mut raw = raw.unwrap_or_else(|error| panic!("{error:?}"));
        control.measure(ANSWER, move || {
            thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            // It is refused in the order of commits, and leaves nothing.
            let _ = raw.delete("/there/is/no/such/node");
            start.elapsed()
        });
        control
    }

    fn measure(&mut self, what: usize, mut once: impl FnMut() -> Duration + Send + 'static) {
        let (stop, worst, late) = (self.stop.clone(), self.worst.clone(), self.late.clone());
        self.threads.push(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let took = once();
                worst[what].fetch_max(nanos(took), Ordering::Relaxed);
                if took > BOUND {
                    lock(&late).push((Instant::now(), took));
                }
            }
        }));
    }

    /// By how much a timer or an answer was late at most since then, if by more than [`BOUND`]. It is known 200 ms
    /// later.
    pub fn late_since(&self, start: Instant) -> Option<Duration> {
        let late = lock(&self.late);
        late.iter().filter(|(at, _)| *at >= start).map(|(_, took)| *took).max()
    }

    /// How late a timer was at most so far.
    pub fn longest_delay(&self) -> Duration {
        self.worst(TIMER)
    }

    /// How long an answer took at most so far.
    pub fn longest_answer(&self) -> Duration {
        self.worst(ANSWER)
    }

    /// The worst so far.
    fn worst(&self, what: usize) -> Duration {
        Duration::from_nanos(self.worst[what].load(Ordering::Relaxed))
    }

    /// Asserts that something took no longer than promised, [`BOUND`] included. What passes only because the
    /// machine was late by more than that once more is said in the output of the tests.
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
        let bound = || promised + BOUND + self.worst(TIMER) + answers * self.worst(ANSWER);
        if took > bound() {
            // What happened just now is not measured yet.
            thread::sleep(2 * LOOK);
        }
        let what = format!("{what}: {took:?}, promised {promised:?}");
        println!("{what}; beside it {:?} and {:?}", self.worst(TIMER), self.worst(ANSWER));
        let over = took.saturating_sub(bound());
        let on_purpose =
            if self.behind_proxy { answers * self.worst(ANSWER) } else { Duration::ZERO };
        if over.is_zero() && took > promised + 2 * BOUND + on_purpose {
            // Of a test that passes, `eprintln!` shows nothing.
            let _ = writeln!(std::io::stderr(), "NOT MEASURED, {}", self.too_late(&what));
        }
        (!over.is_zero()).then(|| Late { over, ..self.too_late(&what) })
    }

    /// The same of something that is known to have come too late, nobody knows by how much.
    pub fn too_late(&self, what: &str) -> Late {
        let [waited, answer, withheld] = [TIMER, ANSWER, WITHHELD].map(|what| self.worst(what));
        let says = format!(
            "{what}; beside it a thread waited for a processor for {waited:?} and for {withheld:?} in all, and \
             an answer took {answer:?}"
        );
        Late { says, waited, withheld, over: Duration::MAX }
    }
}

/// Something that took longer than promised, on a machine that may be too busy to tell.
#[derive(Debug)]
pub struct Late {
    says: String,
    /// By how much.
    over: Duration,
    /// For how long a thread waited for a processor, within two looks and in all.
    waited: Duration,
    withheld: Duration,
}

impl Late {
    /// Whether a thread that nobody promises anything was late by more than [`BOUND`]. The same delay can have
    /// been anywhere in what was measured, several times.
    pub(crate) fn is_on_a_busy_machine(&self) -> bool {
        self.waited > BOUND
    }

    /// Whether a thread waited for a processor, in all, for as long as this was late. A long piece of work is
    /// late by that, be each wait as short as it may.
    pub(crate) fn is_withheld(&self) -> bool {
        self.over <= self.withheld
    }

    #[cfg(test)]
    pub(crate) fn beside(waited: Duration, over: Duration, withheld: Duration) -> Self {
        Late { says: "late".to_owned(), waited, over, withheld }
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

/// How long threads of this process were ready and had no processor. Nothing where the system does not tell.
#[derive(Default)]
struct Waits(HashMap<String, Wait>);

#[derive(Clone, Copy)]
struct Wait {
    /// When it was first seen.
    first: Duration,
    /// At the last look, and between that and the one before.
    total: Duration,
    lately: Duration,
}

impl Waits {
    /// The longest wait since the look before the last, and since the first.
    fn look(&mut self) -> (Duration, Duration) {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let waited = |task: &Path| {
            let told = fs::read_to_string(task.join("schedstat")).ok()?;
            told.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
        };
        let (mut now, mut lately, mut in_all) = (HashMap::new(), Duration::ZERO, Duration::ZERO);
        for task in tasks {
            let Some(total) = waited(&task.path()) else { continue };
            let name = task.file_name().to_string_lossy().into_owned();
            let before = Wait { first: total, total, lately: Duration::ZERO };
            let before = *self.0.get(&name).unwrap_or(&before);
            let since = total.saturating_sub(before.total);
            lately = lately.max(before.lately + since);
            in_all = in_all.max(total.saturating_sub(before.first));
            now.insert(name, Wait { total, lately: since, ..before });
        }
        self.0 = now;
        (lately, in_all)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
