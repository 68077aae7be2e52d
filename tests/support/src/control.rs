//! Promised bounds, and what the machine itself adds to them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::{RawClient, ZooKeeper};

/// How much later than promised a call may come back, and the meaning of "at once".
pub const BOUND: Duration = Duration::from_millis(100);

/// Measures beside a test by how much the machine is late with what nobody promises: a timer that
/// fires and wakes another thread, and a request that a server answers.
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
        control
    }

    /// Measures timers, and the answers to another client's commits.
    ///
    /// # Panics
    ///
    /// If the server does not let a client in.
    pub fn of(server: &ZooKeeper) -> Self {
        let mut control = Control::timers();
        let raw = RawClient::connect(&server.addr(), Duration::from_secs(60));
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
        let [timer, answer] = self.worst();
        println!("{what}: {took:?}, promised {promised:?}; beside it {timer:?} and {answer:?}");
        assert!(
            took <= promised + BOUND + timer + answer * answers,
            "{what}: {took:?}, promised {promised:?}; beside it timers were {timer:?} late, and \
             an answer took {answer:?}"
        );
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
