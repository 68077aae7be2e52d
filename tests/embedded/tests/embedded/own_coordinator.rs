//! A connector of the user's own: here one around the embedded one, which counts the sessions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use zklock::blocking::block_on;
use zklock::driver::{Connector, Coordinator, Reply};
use zklock::{Embedded, ErrorKind, Event, Observer, Session};

#[derive(Clone, Debug)]
struct Counting<C>(C, Arc<AtomicUsize>);

impl<C: Connector> Connector for Counting<C> {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.connect()
    }
}

/// Passes heartbeats on.
#[derive(Debug)]
struct Beats(mpsc::Sender<usize>);

impl Observer for Beats {
    fn event(&self, event: &Event) {
        if let Event::Heartbeat { nodes, .. } = event {
            let _ = self.0.send(*nodes);
        }
    }
}

#[tokio::test]
async fn sessions_on_a_connector_of_ones_own_exclude_each_other() {
    let opened = Arc::new(AtomicUsize::new(0));
    let connector = Embedded::new().connector(Duration::from_secs(10));
    let builder = Session::builder_on(Counting(connector, opened.clone()));
    let one = builder.clone().connect().await.unwrap();
    let other = builder.connect().await.unwrap();
    assert_eq!(opened.load(Ordering::Relaxed), 2);
    let guard = one.mutex("orders").unwrap().acquire().await.unwrap();
    let mutex = other.mutex("orders").unwrap();
    assert!(mutex.try_acquire().await.unwrap_err().is_busy());
    let waiting = crate::spawn(async move { mutex.acquire().await.map(|guard| guard.is_valid()) });
    guard.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap());
}

#[test]
fn a_session_that_has_connected_is_ready() {
    for round in 0..300 {
        let connector = Embedded::new().connector(Duration::from_secs(10));
        let session = block_on(Session::builder_on(connector).connect()).unwrap();
        assert!(session.is_ready(), "round {round}: {}", session.state());
    }
}

/// Panics where it connects, as one that needs a runtime which is not there.
#[derive(Debug)]
struct Panics;

impl Connector for Panics {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        panic!("no reactor")
    }
}

#[test]
fn a_connector_that_cannot_be_used_is_an_error() {
    let error = block_on(Session::builder_on(Panics).connect()).unwrap_err();
    assert!(error.is_unavailable() && format!("{error:#}").contains("panicked"), "{error:#}");
    for timeout in [Duration::ZERO, Duration::MAX] {
        let connector = Embedded::new().connector(timeout);
        let error = block_on(Session::builder_on(connector).connect()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("between 1 ms and 24 days"), "{error}");
    }
}

/// The embedded coordinator says of itself when it was last in contact, by a clock that is not the
/// session's.
#[test]
fn a_session_on_a_connector_of_ones_own_has_heartbeats() {
    let (beats, beaten) = mpsc::channel();
    let connector = Embedded::new().connector(Duration::from_secs(2));
    let builder = Session::builder_on(connector).observer(Arc::new(Beats(beats)));
    let session = builder.open().unwrap();
    let _guard = session.mutex("orders").unwrap().blocking_acquire().unwrap();
    let held = std::iter::from_fn(|| beaten.recv_timeout(Duration::from_secs(60)).ok());
    assert!(held.take_while(|nodes| *nodes <= 1).any(|nodes| nodes == 1));
}
