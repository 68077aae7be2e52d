//! The attribute on the real runtime.

use std::time::Duration;

use tokio::time::Instant;
use zklock::testing::TestLocks;
use zklock::{Body, ErrorKind, LockError, Session, SessionRegistry, current, zk_locked};
use zklock_test_support::Warnings;

use crate::support::{contenders, on, prompt, store};

#[derive(Debug)]
enum ApiError {
    Lock(LockError),
    Parse,
}

impl From<LockError> for ApiError {
    fn from(error: LockError) -> Self {
        ApiError::Lock(error)
    }
}

impl From<std::num::ParseIntError> for ApiError {
    fn from(_: std::num::ParseIntError) -> Self {
        ApiError::Parse
    }
}

#[zk_locked("createOrder", timeout = "2s", retries = 2)]
async fn create_order(text: &str) -> Result<u32, ApiError> {
    assert!(current().is_valid());
    tokio::task::yield_now().await;
    Ok(text.parse::<u32>()? + 1)
}

#[zk_locked("orders/{tenant}/{id}")]
fn look_up(tenant: &str, id: u64) -> Result<String, LockError> {
    Ok(current().lock_name().unwrap_or_default().to_owned())
}

#[zk_locked("createOrder", session = "billing")]
async fn bill() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn it_guards_async_functions() {
    let (store, session) = store();
    let _installed = SessionRegistry::global().install_here(None, session);
    assert_eq!(create_order("41").await.unwrap(), 42);
    assert!(matches!(create_order("x").await, Err(ApiError::Parse)));
    assert!(contenders(&store, "/zklock/createOrder").await.is_empty());
    assert_eq!(crate::spawn(create_order("1")).await.unwrap().unwrap(), 2);
}

#[test]
fn it_guards_plain_functions_and_escapes_values() {
    let _installed = SessionRegistry::global().install_here(None, Session::embedded());
    assert_eq!(look_up("a/b", 7).unwrap(), "orders/a~2Fb/7");
    assert_eq!(look_up("..", 0).unwrap(), "orders/~2E./0");
    let error = look_up("", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_1011() {
    let (store, session) = store();
    let _installed = SessionRegistry::global().install_here(None, session);
    let _held = on(&store).mutex("createOrder").unwrap().acquire().await.unwrap();
    let Err(ApiError::Lock(error)) = create_order("1").await else { panic!("not busy") };
    assert_eq!((error.code(), error.lock_name()), ("1011", Some("createOrder")));
}

#[tokio::test]
async fn a_session_that_is_not_configured_is_named() {
    let error = bill().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConfigured);
    assert!(format!("{error:#}").contains("ZKLOCK_BILLING_CONNECT"), "{error}");
    let billing = Session::embedded();
    let _installed = SessionRegistry::global().install_here(Some("billing"), billing);
    bill().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_drops_the_body_and_says_so() {
    let (store, session) = prompt();
    let id = session.zookeeper_session().unwrap().id;
    let _installed = SessionRegistry::global().install_here(None, session);

    #[zk_locked("a")]
    async fn sleep(store: &zklock::Embedded, id: i64) -> Result<(), LockError> {
        store.faults(id).expire();
        tokio::time::sleep(Duration::from_secs(1)).await;
        unreachable!("the body goes on without the lock");
    }
    let error = sleep(&store, id).await.unwrap_err();
    assert_eq!(error.body(), Some(Body::Dropped));

    #[zk_locked("a")]
    fn finish(store: &zklock::Embedded, id: i64) -> Result<(), LockError> {
        store.faults(id).expire();
        if id != 0 {
            return Ok(());
        }
        Err(LockError::new(ErrorKind::Unsupported, ""))
    }
    let id = *store.sessions().last().unwrap();
    let error = finish(&store, id).unwrap_err();
    assert_eq!((error.is_lost(), error.body()), (true, Some(Body::Finished)));
}

fn assert_too_long(error: &LockError, lock: &str, limit: Duration, body: Body) {
    assert_eq!((error.kind(), error.code()), (ErrorKind::HeldTooLong, "1025"));
    assert_eq!((error.lock_name(), error.body()), (Some(lock), Some(body)), "{error}");
    let limit = format!("`hold_at_most` is {}", humantime::format_duration(limit));
    assert!(error.to_string().contains(&limit), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_async_function_that_holds_for_too_long_is_dropped_and_logged() {
    let (warnings, session) = (Warnings::collect(), Session::embedded());
    let _installed = SessionRegistry::global().install_here(None, session.clone());

    #[zk_locked("long", hold_at_most = "1s")]
    async fn sleep(time: Duration) -> Result<(), LockError> {
        tokio::time::sleep(time).await;
        Ok(())
    }
    let (second, start) = (Duration::from_secs(1), Instant::now());
    sleep(second - Duration::from_millis(1)).await.unwrap();
    assert_eq!(warnings.take(), [""; 0]);
    let error = sleep(2 * second).await.unwrap_err();
    assert_too_long(&error, "long", second, Body::Dropped);
    assert!(start.elapsed() < 2 * second && session.local_contenders().is_empty());
    let lines = warnings.take();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("held for longer than `hold_at_most`"), "{line}");
    assert!(line.contains("lock=\"long\" at_most=1s"), "{line}");
}

/// What is skipped is a busy lock: of everything else this line alone tells.
#[tokio::test(start_paused = true)]
async fn what_fails_in_a_function_that_skips_is_logged() {
    #[zk_locked("skipped", timeout = "1s", retries = 1, on_busy = skip)]
    async fn nothing() {}
    #[zk_locked("skipped", timeout = "1s", retries = 1, on_busy = skip)]
    async fn perhaps() -> Option<u32> {
        Some(42)
    }
    let (locks, warnings) = (TestLocks::install(), Warnings::collect());
    let failures = || {
        let lines = warnings.take().into_iter();
        lines.filter(|line| line.contains("a guarded function")).collect::<Vec<_>>()
    };
    nothing().await;
    assert_eq!(perhaps().await, Some(42));
    let held = locks.hold("skipped");
    nothing().await;
    assert_eq!(perhaps().await, None);
    drop(held);
    assert_eq!(failures(), [""; 0]);
    locks.begin_outage();
    for is_some in [false, true] {
        if is_some {
            assert_eq!(perhaps().await, None);
        } else {
            nothing().await;
        }
        let failures = failures();
        let [line] = &failures[..] else { panic!("{failures:?}") };
        assert!(line.contains("a guarded function that returns no error failed"), "{line}");
        assert!(line.contains("code=\"1013\""), "{line}");
    }
}

#[test]
fn a_plain_function_that_holds_for_too_long_finishes_and_its_caller_is_told() {
    let session = Session::embedded();
    let _installed = SessionRegistry::global().install_here(None, session.clone());

    #[zk_locked("long", hold_at_most = limit)]
    fn hold(limit: Duration) -> Result<(), LockError> {
        let start = std::time::Instant::now();
        while current().is_valid() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
    let mut limit = Duration::from_millis(20);
    let mut error = hold(limit).unwrap_err();
    while error.body() == Some(Body::NotStarted) {
        // The machine was busy.
        limit *= 2;
        error = hold(limit).unwrap_err();
    }
    assert_too_long(&error, "long", limit, Body::Finished);
    assert!(session.local_contenders().is_empty());
}
