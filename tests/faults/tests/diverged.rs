//! A server whose data differ from its leader's: it shows a node that nobody will ever delete.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use zklock::{Event, Observer, Session};
use zklock_test_support::{Proxy, ZooKeeper};

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

const STRAY: &str = "/diverged/a/_c_00000000-0000-4000-8000-000000000000-lock-0000000000";

#[derive(Debug)]
struct Diverged(Mutex<mpsc::Sender<String>>);

impl Observer for Diverged {
    fn event(&self, event: &Event) {
        if let Event::Diverged { path, .. } = event {
            _ = self.0.lock().unwrap().send(path.clone());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_stray_goes_on_by_another_server() {
    let hour = Duration::from_secs(3600);
    let ensemble = ZooKeeper::builder().direct().container_check(hour).ensemble(3);
    let [leader, follower] = [ensemble.leader(), ensemble.followers()[0]];
    let elsewhere = Session::builder(ensemble.server(leader).addr()).root("/diverged");
    let elsewhere = elsewhere.session_timeout(SESSION_TIMEOUT).connect().await.unwrap();
    // So that the directory is there, and its first number is given.
    elsewhere.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();

    ensemble.server(follower).kill();
    ensemble.server(follower).plant(STRAY);
    ensemble.restart(follower);
    for index in 0..ensemble.servers().len() {
        let shown = ensemble.children(index, "/diverged/a");
        assert_eq!(shown.len(), usize::from(index == follower), "{shown:?}");
    }
    let [only_here, only_there] =
        [follower, leader].map(|index| ensemble.unknown_elsewhere(index, "/diverged/a"));
    assert!(
        only_here.iter().all(|node| STRAY.ends_with(node)) && only_here.len() == 1,
        "{only_here:?}"
    );
    assert!(only_there.is_empty(), "{only_there:?}");

    // The first connection goes to the one server that shows it.
    let proxy = Proxy::start(ensemble.server(leader).socket_addr());
    proxy.refuse(true);
    let (sender, told) = channel();
    let servers = format!("{},{}", ensemble.server(follower).addr(), proxy.addr());
    let session = Session::builder(servers).root("/diverged").session_timeout(SESSION_TIMEOUT);
    let session = session.observer(Arc::new(Diverged(Mutex::new(sender)))).connect().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    let error = mutex.try_acquire().await.unwrap_err();
    assert!(error.holder().is_some_and(|holder| STRAY.ends_with(&holder.node)), "{error}");
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    let noticed = tokio::task::spawn_blocking(move || told.recv().unwrap());
    assert_eq!(noticed.await.unwrap(), STRAY);
    // Where there is no other server, the error says what to do.
    let error = session.mutex("b").unwrap().acquire_timeout(SESSION_TIMEOUT).await.unwrap_err();
    assert!(error.is_unavailable() && format!("{error:#}").contains(STRAY), "{error}");

    proxy.heal();
    let guard = waiting.await.unwrap().unwrap();
    assert!(elsewhere.mutex("a").unwrap().try_acquire().await.is_err());
    guard.release().await.unwrap();
    for session in [session, elsewhere] {
        session.close().await;
    }
}
