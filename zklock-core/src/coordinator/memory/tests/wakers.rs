use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use futures_lite::future::block_on;

use super::{Embedded, connect, create, poll};
use crate::coordinator::link::Link;
use crate::coordinator::node::NodeKind;
use crate::coordinator::watch::{Watch, WatchEvent};

/// Polls its future from inside `wake`, as an inline executor does.
struct Inline {
    store: Embedded,
    woken: AtomicUsize,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        drop(connect(&self.store));
    }
}

#[test]
fn wakers_run_without_the_lock() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    create(&other, "/a", NodeKind::Ephemeral);
    let inline = Arc::new(Inline { store: store.clone(), woken: AtomicUsize::new(0) });
    let waker = Waker::from(inline.clone());
    let (_, _, mut watch) = block_on(session.get_watched("/a")).unwrap();
    let mut link = session.link_changed(Link::Up);
    let mut cx = Context::from_waker(&waker);
    assert!(watch.as_mut().poll(&mut cx).is_pending());
    assert!(link.as_mut().poll(&mut cx).is_pending());
    drop(other);
    assert_eq!(inline.woken.load(Ordering::SeqCst), 1);
    store.faults(session.session_id()).expire();
    assert_eq!(inline.woken.load(Ordering::SeqCst), 2);
}

/// Panics, as a waker of the application may.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any("a waker");
    }
}

#[test]
fn a_waker_that_panics_harms_neither_who_changes_something_nor_who_is_woken_after_it() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    let node = create(&other, "/a", NodeKind::Ephemeral);
    let mut watches = [(); 3].map(|()| block_on(session.get_watched(&node)).unwrap().2);
    let inline = Arc::new(Inline { store: store.clone(), woken: AtomicUsize::new(0) });
    let [sound, broken] = [Waker::from(inline.clone()), Waker::from(Arc::new(Broken))];
    for (watch, waker) in watches.iter_mut().zip([&sound, &broken, &sound]) {
        assert!(watch.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    block_on(other.delete(&node)).unwrap();
    assert_eq!(inline.woken.load(Ordering::SeqCst), 2);
}

/// Holds a watch, so that dropping the waker drops the watch.
struct Owner(#[allow(dead_code, reason = "only its drop matters")] Mutex<Option<Watch>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_owns_a_watch_is_dropped_without_the_lock() {
    let store = Embedded::new();
    let (session, other) = (connect(&store), connect(&store));
    create(&other, "/a", NodeKind::Ephemeral);
    let (_, _, owned) = block_on(session.get_watched("/a")).unwrap();
    let (_, _, mut watch) = block_on(session.get_watched("/a")).unwrap();
    let waker = Waker::from(Arc::new(Owner(Mutex::new(Some(owned)))));
    assert!(watch.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert!(poll(&mut watch).is_pending());
    assert_eq!(store.faults(session.session_id()).pending_watches(), 1);
}

#[test]
fn many_threads_share_one_store() {
    let store = Embedded::new();
    let session = connect(&store);
    create(&session, "/q", NodeKind::Persistent);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let session = connect(&store);
                for _ in 0..200 {
                    let node = create(&session, "/q/n-", NodeKind::EphemeralSequential);
                    let (_, _, watch) = block_on(session.get_watched(&node)).unwrap();
                    block_on(session.delete(&node)).unwrap();
                    assert_eq!(block_on(watch), WatchEvent::Deleted);
                }
            });
        }
    });
    assert_eq!(create(&session, "/q/n-", NodeKind::EphemeralSequential), "/q/n-0000001600");
}
