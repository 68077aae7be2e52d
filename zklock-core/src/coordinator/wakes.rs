//! Waking callers: an I/O thread does it when it has done what is ready, for all of them together.
//!
//! To wake a thread that sleeps takes longer than most of what an I/O thread does. If it wakes a
//! runtime for one caller after the other, the runtime's threads are asleep again each time.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::mem::swap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::base::unharmed::unharmed;

thread_local! {
    /// Whether this is an I/O thread. Everywhere else this is all that waking a caller costs more.
    static COLLECTS: Cell<bool> = const { Cell::new(false) };

    static LATER: RefCell<Option<Later>> = const { RefCell::new(None) };
}

/// The callers that an I/O thread is about to wake.
#[derive(Default)]
struct Later {
    callers: Vec<Waker>,
    /// Wakes the task that wakes them.
    task: Option<Waker>,
}

/// Wakes a caller: at once, or on an I/O thread after what is ready there. A waker of the application that panics
/// does not keep whoever wakes from what else it has to do.
pub(crate) fn wake(caller: Waker) {
    if !COLLECTS.get() {
        return unharmed(|| caller.wake());
    }
    let mut caller = Some(caller);
    // There is no list on a thread that is ending, where whatever holds a guard may be dropped later.
    let task = LATER.try_with(|later| {
        let mut later = later.borrow_mut();
        let later = later.as_mut()?;
        later.callers.extend(caller.take());
        later.task.take()
    });
    for now in task.ok().flatten().into_iter().chain(caller) {
        unharmed(|| now.wake());
    }
}

/// The task of an I/O thread that wakes the callers. It never ends; while it is there, [`wake`] leaves
/// them to it.
pub(crate) async fn wake_callers() {
    let mut callers = Vec::new();
    poll_fn(|cx| {
        COLLECTS.set(true);
        LATER.with_borrow_mut(|later| {
            let later = later.get_or_insert_default();
            later.task = Some(cx.waker().clone());
            swap(&mut later.callers, &mut callers);
        });
        wake_all(&mut callers);
        Poll::Pending
    })
    .await
}

/// A waker of the application that panics must not keep the others asleep.
fn wake_all(callers: &mut Vec<Waker>) {
    for caller in callers.drain(..) {
        unharmed(|| caller.wake());
    }
}

/// Wakes the callers that an I/O thread was about to wake: it ends. From here on, it wakes them at once.
pub(crate) fn end() {
    COLLECTS.set(false);
    if let Ok(Some(mut later)) = LATER.try_with(RefCell::take) {
        wake_all(&mut later.callers);
    }
}

/// Lets what wakes a caller do it by [`wake`].
#[derive(Debug, Default)]
pub(crate) struct Together(Option<(Waker, Waker)>);

impl Together {
    /// The context with which to poll what the caller waits for.
    pub(crate) fn context<'a>(&'a mut self, cx: &mut Context<'_>) -> Context<'a> {
        let caller = self.0.take().filter(|(caller, _)| caller.will_wake(cx.waker()));
        let new = || (cx.waker().clone(), Waker::from(Arc::new(Caller(cx.waker().clone()))));
        Context::from_waker(&self.0.insert(caller.unwrap_or_else(new)).1)
    }
}

struct Caller(Waker);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        wake(self.0.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, pending};
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::coordinator::io_thread::IoThread;

    const SOON: Duration = Duration::from_secs(10);

    /// Records each wake-up by its number.
    struct Noted(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Noted {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
            assert!(self.0 != 2, "the application's waker panics");
        }
    }

    #[test]
    fn an_io_thread_wakes_callers_after_what_is_ready_and_whoever_panics() {
        let (io, noted) = (IoThread::start().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (tell, told) = channel();
        let (noting, handle) = (noted.clone(), io.handle().clone());
        io.handle().spawn(Box::pin(async move {
            let (note, tell_later) = (noting.clone(), tell.clone());
            // Ready before anybody is woken.
            handle.spawn(Box::pin(async move {
                tell_later.send(note.lock().unwrap().clone()).unwrap();
            }));
            for number in 1..=3 {
                let waker = Waker::from(Arc::new(Noted(number, noting.clone())));
                let mut together = Together::default();
                together.context(&mut Context::from_waker(&waker)).waker().wake_by_ref();
            }
        }));
        assert_eq!(told.recv_timeout(SOON).unwrap(), [0; 0]);
        // Again, also after that panic.
        for number in 4..=5 {
            let (tell, told) = channel();
            let noting = noted.clone();
            io.handle().spawn(Box::pin(async move {
                wake(Waker::from(Arc::new(Noted(number, noting))));
                tell.send(()).unwrap();
            }));
            told.recv_timeout(SOON).unwrap();
        }
        drop(io);
        let end = std::time::Instant::now() + SOON;
        while noted.lock().unwrap().len() < 5 && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(*noted.lock().unwrap(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn elsewhere_callers_are_woken_at_once() {
        let noted = Arc::new(Mutex::new(Vec::new()));
        wake(Waker::from(Arc::new(Noted(1, noted.clone()))));
        assert_eq!(*noted.lock().unwrap(), [1]);
    }

    #[test]
    fn nobody_is_left_asleep_when_the_thread_ends() {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let waker = |number| Waker::from(Arc::new(Noted(number, noted.clone())));
        let mut task = Box::pin(wake_callers());
        assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wake(waker(1));
        assert_eq!(*noted.lock().unwrap(), [0; 0]);
        end();
        wake(waker(3));
        assert_eq!(*noted.lock().unwrap(), [1, 3]);
    }

    #[test]
    fn what_is_dropped_with_an_io_thread_is_told() {
        let (tell, told) = channel();
        let io = IoThread::start().unwrap();
        let noted = Arc::new(Mutex::new(Vec::new()));
        let noting = noted.clone();
        io.handle().spawn(Box::pin(async move {
            let _last = Last(noting);
            tell.send(()).unwrap();
            pending::<()>().await
        }));
        told.recv_timeout(SOON).unwrap();
        drop(io);
        let end = std::time::Instant::now() + SOON;
        while noted.lock().unwrap().is_empty() && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(*noted.lock().unwrap(), [1]);
    }

    /// As a guard in a thread-local does, which is older than the list and is dropped after it.
    #[test]
    fn whoever_lets_go_at_the_end_of_its_thread_wakes_the_next() {
        thread_local! {
            static KEPT: RefCell<Option<Last>> = const { RefCell::new(None) };
        }
        let noted = Arc::new(Mutex::new(Vec::new()));
        let noting = noted.clone();
        let thread = std::thread::spawn(move || {
            KEPT.with_borrow_mut(|kept| *kept = None);
            wake(Waker::noop().clone());
            KEPT.set(Some(Last(noting)));
        });
        thread.join().unwrap();
        assert_eq!(*noted.lock().unwrap(), [1]);
    }

    /// Wakes a caller when it is dropped.
    struct Last(Arc<Mutex<Vec<u32>>>);

    impl Drop for Last {
        fn drop(&mut self) {
            wake(Waker::from(Arc::new(Noted(1, self.0.clone()))));
        }
    }
}
