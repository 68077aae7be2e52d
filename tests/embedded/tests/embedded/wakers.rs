//! Wakers that panic, as those of an executor do that has ended while its tasks still wait: the lock goes on, and
//! so does everybody else.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use zklock::{ErrorKind, Handoffs, LockOptions, SessionState, carry};

use crate::support::{Inline, contenders, prompt};

/// A task of such an executor. It is dropped where it is woken, as what cannot be sent is, unless somebody keeps
/// it.
struct Stranded {
    work: Mutex<Option<Work>>,
    is_kept: bool,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Stranded {
    fn start(is_kept: bool, work: impl Future<Output = ()> + Send + 'static) {
        let work: Work = Box::pin(work);
        let task = Arc::new(Stranded { work: Mutex::new(Some(work)), is_kept });
        let waker = Waker::from(task.clone());
        let mut work = task.work.lock().unwrap();
        let polled = work.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
}

impl Wake for Stranded {
    fn wake(self: Arc<Self>) {
        let work = self.work.lock().unwrap().take();
        if self.is_kept {
            std::mem::forget(work);
        }
        panic!("the executor has ended");
    }
}

/// The same, where whatever cannot be sent is dropped in silence.
struct Dropped(Mutex<Option<Work>>);

impl Dropped {
    fn start(work: impl Future<Output = ()> + Send + 'static) {
        let work: Work = Box::pin(work);
        let task = Arc::new(Dropped(Mutex::new(Some(work))));
        let waker = Waker::from(task.clone());
        let mut work = task.0.lock().unwrap();
        let polled = work.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
}

impl Wake for Dropped {
    fn wake(self: Arc<Self>) {
        let work = self.0.lock().unwrap().take();
        drop(work);
    }
}

const BOTH: [bool; 2] = [false, true];

#[tokio::test(start_paused = true)]
async fn a_lock_is_released_and_others_are_told_of_its_end() {
    for is_kept in BOTH {
        let (_store, session) = prompt();
        let mutex = session.mutex("a").unwrap();
        let guard = mutex.acquire().await.unwrap();
        let [first, second] = [guard.view(), guard.view()];
        Stranded::start(is_kept, async move { first.lost().await });
        let second = Inline::start(async move { second.lost().await });
        drop(guard);
        assert!(second.is_done());
        assert!(mutex.try_acquire().await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn others_are_told_that_a_lock_is_lost() {
    for is_kept in BOTH {
        let (store, session) = prompt();
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let [first, second] = [guard.view(), guard.view()];
        Stranded::start(is_kept, async move { first.lost().await });
        let second = Inline::start(async move { second.lost().await });
        store.faults(session.zookeeper_session().unwrap().id).expire();
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(second.is_done());
    }
}

#[tokio::test(start_paused = true)]
async fn readers_that_enter_together_all_know_it() {
    for is_kept in BOTH {
        let (_store, session) = prompt();
        let lock = session.rw_lock("a").unwrap();
        let writing = lock.write().await.unwrap();
        let [first, second] = [lock.clone(), lock.clone()];
        Stranded::start(is_kept, async move { drop(first.read().await) });
        let second = Inline::start(async move { drop(second.read().await.unwrap()) });
        drop(writing);
        assert!(second.is_done());
        // One that is kept, and never polled again, has the lock.
        assert_eq!(lock.try_write().await.is_ok(), !is_kept);
    }
}

/// Each is dropped with its grant, which passes to the next.
#[tokio::test(start_paused = true)]
async fn a_lock_passes_by_all_whom_nobody_polls_any_more() {
    let (_store, session) = prompt();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    for _ in 0..3 {
        let mutex = mutex.clone();
        Stranded::start(false, async move { drop(mutex.acquire().await) });
    }
    let last = Inline::start(async move { drop(mutex.acquire().await.unwrap()) });
    drop(guard);
    assert!(last.is_done());
}

/// One after the other: the thread of a test has two MiB.
#[tokio::test(start_paused = true)]
async fn a_lock_passes_by_however_many_whom_nobody_polls_any_more() {
    let (_store, session) = prompt();
    let mutex = session.mutex("a").unwrap();
    // They are handed it for as long as it takes.
    let handoffs = Handoffs::new().most(u32::MAX).within(Duration::from_secs(3600));
    let mutex = mutex.with_options(LockOptions::new().handoffs(handoffs));
    let guard = mutex.acquire().await.unwrap();
    for _ in 0..20_000 {
        let mutex = mutex.clone();
        Dropped::start(async move { drop(mutex.acquire().await) });
    }
    let last = Inline::start(async move { drop(mutex.acquire().await.unwrap()) });
    drop(guard);
    assert!(last.is_done());
}

#[tokio::test(start_paused = true)]
async fn a_session_closes_and_all_who_wait_are_told() {
    for is_kept in BOTH {
        let (store, session) = prompt();
        let [a, b] = ["a", "b"].map(|name| session.mutex(name).unwrap());
        let _held = (a.acquire().await.unwrap(), b.acquire().await.unwrap());
        Stranded::start(is_kept, async move { drop(a.acquire().await) });
        let told = Inline::start(async move {
            assert_eq!(b.acquire().await.unwrap_err().kind(), ErrorKind::Closing);
        });
        session.close().await;
        assert!(told.is_done() && session.state() == SessionState::Closed);
        assert!(contenders(&store, "/zklock/a").await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_last_holder_is_told() {
    for is_kept in BOTH {
        let (_store, session) = prompt();
        let guard = session.mutex("a").unwrap().acquire().await.unwrap();
        let drain = || {
            let session = session.clone();
            async move { drop(session.drain(Duration::from_secs(60)).await) }
        };
        Stranded::start(is_kept, drain());
        let second = Inline::start(drain());
        drop(guard);
        assert!(second.is_done());
    }
}

#[tokio::test(start_paused = true)]
async fn nested_calls_that_wait_for_their_sibling_are_let_in() {
    for is_kept in BOTH {
        let (_store, session) = prompt();
        let lock = session.rw_lock("a").unwrap();
        let guard = lock.write().await.unwrap();
        let nested = guard.scope(lock.write()).await.unwrap();
        let read = |is_last: bool| {
            let lock = lock.clone();
            guard.scope_sync(|| {
                carry(async move {
                    let _reading = lock.read().await.unwrap();
                    if !is_last {
                        pending::<()>().await;
                    }
                })
            })
        };
        Stranded::start(is_kept, read(false));
        let second = Inline::start(read(true));
        drop(nested);
        assert!(second.is_done());
    }
}
