//! Options that only a real lock can show.

use std::time::Duration;

use tokio::time::Instant;
use zklock::testing::TestLocks;
use zklock::{ErrorKind, LockError, LockOptions, Session, current, is_held_in_scope, zk_locked};

#[zk_locked("job", try_once, on_busy = skip)]
async fn job() -> Result<Option<u32>, LockError> {
    assert!(is_held_in_scope("job") && !is_held_in_scope("other"));
    Ok(Some(1))
}

#[zk_locked("job", try_once, on_busy = skip)]
fn plain_job() {
    assert!(is_held_in_scope("job"));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_runs_elsewhere_is_skipped_without_waiting() {
    let locks = TestLocks::install();
    assert_eq!(job().await.unwrap(), Some(1));
    let held = locks.hold("job").unwrap();
    let before = Instant::now();
    assert_eq!(job().await.unwrap(), None);
    plain_job();
    assert!(before.elapsed() < Duration::from_secs(1));
    drop(held);
    assert_eq!(job().await.unwrap(), Some(1));
    assert_eq!(locks.taken(), ["job", "job"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_reached_is_not_busy() {
    let locks = TestLocks::install();
    locks.begin_outage();
    let error = job().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    locks.end_outage();
    assert_eq!(job().await.unwrap(), Some(1));
}

#[zk_locked("outer")]
async fn outer(again: bool) -> Result<bool, LockError> {
    if again { once().await } else { nested().await }
}

#[zk_locked("outer")]
async fn nested() -> Result<bool, LockError> {
    Ok(is_held_in_scope("outer"))
}

#[zk_locked("outer", reentrant = false)]
async fn once() -> Result<bool, LockError> {
    Ok(is_held_in_scope("outer"))
}

#[tokio::test]
async fn reentrancy_can_be_refused() {
    let _locks = TestLocks::install();
    assert!(outer(false).await.unwrap());
    assert_eq!(outer(true).await.unwrap_err().kind(), ErrorKind::Deadlock);
    assert!(once().await.unwrap());
}

#[tokio::test]
async fn defaults_of_the_session_are_those_of_the_attribute() {
    let _locks = TestLocks::with_defaults(LockOptions::default().reentrant(false));
    assert_eq!(outer(false).await.unwrap_err().kind(), ErrorKind::Deadlock);
}

#[zk_locked("defaults")]
async fn by_defaults() -> Result<String, LockError> {
    Ok(current().view().unwrap().node_path().to_owned())
}

#[zk_locked("defaults", timeout = "3s", retries = 3)]
async fn patient() -> Result<String, LockError> {
    Ok(String::new())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_as_long_as_the_session_says_unless_it_says_so_itself() {
    let quick = LockOptions::default().timeout(Duration::from_secs(1)).retries(5);
    let locks = TestLocks::with_defaults(quick);
    let _held = locks.hold("defaults").unwrap();
    let waited = async |call: Result<String, LockError>, before: Instant| {
        assert!(call.unwrap_err().is_busy());
        before.elapsed().as_secs()
    };
    let before = Instant::now();
    assert_eq!(waited(by_defaults().await, before).await, 5);
    let before = Instant::now();
    assert_eq!(waited(patient().await, before).await, 9);
}

#[tokio::test]
async fn habits_and_layouts_of_the_session_are_those_of_the_attribute() {
    let node = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    for (defaults, stays) in [
        (LockOptions::default(), false),
        (LockOptions::default().fair(true), false),
        (LockOptions::default().linger(Duration::from_secs(60)), true),
    ] {
        let _locks = TestLocks::with_defaults(defaults);
        let (one, other) = (by_defaults().await.unwrap(), by_defaults().await.unwrap());
        assert_eq!(one == other, stays, "{defaults:?}");
        assert!(node(&one).starts_with("_c_"));
    }
    let builder = Session::embedded_builder(&zklock::Embedded::new());
    let session = builder.driver(zklock::layout::Kazoo::default()).open().unwrap();
    let _installed = zklock::SessionRegistry::global().install_here(None, session);
    assert!(node(&by_defaults().await.unwrap()).contains("__lock__"));
}

#[zk_locked("habits", fair)]
async fn fair() -> Result<String, LockError> {
    Ok(current().view().unwrap().node_path().to_owned())
}

#[zk_locked("lingers", linger = "1h")]
async fn lingers() -> Result<String, LockError> {
    Ok(current().view().unwrap().node_path().to_owned())
}

#[zk_locked("lingers", linger = Duration::from_secs(1), try_once = true)]
async fn lingers_and_tries() -> Result<String, LockError> {
    Ok(String::new())
}

#[tokio::test]
async fn habits_reach_the_lock() {
    let _locks = TestLocks::install();
    assert_ne!(fair().await.unwrap(), fair().await.unwrap());
    assert_eq!(lingers().await.unwrap(), lingers().await.unwrap());
    let error = lingers_and_tries().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

#[zk_locked("names", namespace = namespace, key = key)]
async fn named(namespace: &str, key: &str) -> Result<String, LockError> {
    Ok(current().lock_name().unwrap().to_owned())
}

#[tokio::test]
async fn names_are_put_together_and_checked() {
    let _locks = TestLocks::install();
    assert_eq!(named("eu/shop", "a/b").await.unwrap(), "eu/shop/names/a~2Fb");
    for (namespace, key) in [("eu//shop", "a"), ("", "a"), ("eu", ""), ("eu/", "a"), ("..", "a")] {
        let error = named(namespace, key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{namespace:?} {key:?}");
    }
}

struct Service {
    session: Session,
    tenant: &'static str,
}

impl Service {
    #[zk_locked("a", session = self.session)]
    async fn own(&self) -> Result<(), LockError> {
        assert!(is_held_in_scope("a"));
        Ok(())
    }

    #[zk_locked("a", session = self.tenant)]
    fn of_tenant(&self) -> Result<(), LockError> {
        assert!(is_held_in_scope("a"));
        Ok(())
    }
}

#[tokio::test]
async fn a_session_needs_no_registry() {
    let service = Service { session: Session::embedded(), tenant: "billing" };
    service.own().await.unwrap();
    assert_eq!(service.of_tenant().unwrap_err().kind(), ErrorKind::NotConfigured);
    let locks = TestLocks::install().and_session("billing");
    service.of_tenant().unwrap();
    assert_eq!(locks.taken(), ["a"]);
}

#[zk_locked("guest/{id}", condition = id != 0)]
async fn unless_guest(id: u32) -> Result<bool, LockError> {
    Ok(current().is_valid())
}

#[tokio::test]
async fn without_its_condition_a_body_runs_without_the_lock_and_knows_it() {
    let locks = TestLocks::install();
    assert!(unless_guest(1).await.unwrap());
    assert!(!unless_guest(0).await.unwrap());
    assert_eq!(locks.taken(), ["guest/1"]);
}
