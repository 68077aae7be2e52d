//! Options: what is not set is as the next says, and what makes no sense is the acquire's error.

use std::time::Duration;

use zklock::testing::TestLocks;
use zklock::{
    AnyLock, Body, Embedded, ErrorKind, LockError, LockOptions, MultiLock, OnLost, Session, StopAt,
    ZkLockTemplate, zk_locked,
};

const LONG: Duration = Duration::from_secs(7);

/// Says something else than the library about most options.
fn of_session() -> LockOptions {
    LockOptions::new().timeout(LONG).retries(5).reentrant(false).stop_at(StopAt::Suspect)
}

fn session(defaults: LockOptions) -> Session {
    Session::embedded_builder(&Embedded::new()).defaults(defaults).open().unwrap()
}

/// The options of a lock of each kind after these calls of `with_options`.
fn of_each_kind(session: &Session, calls: &[LockOptions]) -> [LockOptions; 3] {
    let mutex = session.mutex("a").unwrap();
    let rw_lock = session.rw_lock("b").unwrap();
    let semaphore = session.semaphore("c", 2).unwrap();
    [
        calls.iter().fold(mutex, |lock, call| lock.with_options(*call)).options(),
        calls.iter().fold(rw_lock, |lock, call| lock.with_options(*call)).options(),
        calls.iter().fold(semaphore, |lock, call| lock.with_options(*call)).options(),
    ]
}

#[test]
fn what_a_lock_does_not_set_is_its_sessions_and_what_that_does_not_set_the_librarys() {
    let session = session(of_session());
    for options in of_each_kind(&session, &[LockOptions::new().fair(true)]) {
        assert_eq!(options.fair, Some(true));
        assert_eq!((options.timeout, options.retries), (Some(LONG), Some(5)));
        assert_eq!((options.reentrant, options.stop_at), (Some(false), Some(StopAt::Suspect)));
        assert_eq!((options.on_lost, options.revocable), (Some(OnLost::Cancel), Some(false)));
    }
}

#[test]
fn a_later_call_goes_over_an_earlier_one_and_resets_nothing() {
    let session = session(of_session());
    let (first, second) = (LockOptions::new().fair(true).retries(3), LockOptions::new().retries(1));
    for options in of_each_kind(&session, &[first, second, LockOptions::new()]) {
        assert_eq!((options.fair, options.retries), (Some(true), Some(1)));
        assert_eq!((options.timeout, options.reentrant), (Some(LONG), Some(false)));
    }
}

#[test]
fn a_later_call_of_the_builder_adds_to_an_earlier_one() {
    let builder = Session::embedded_builder(&Embedded::new()).defaults(of_session());
    let session = builder.defaults(LockOptions::new().retries(1)).open().unwrap();
    assert_eq!((session.defaults().timeout, session.defaults().retries), (Some(LONG), Some(1)));
}

#[test]
fn defaults_that_make_no_sense_are_refused_when_the_session_is_opened() {
    let fair = LockOptions::new().fair(true).linger(LONG);
    for defaults in [fair, LockOptions::new().retries(0)] {
        let builder = Session::embedded_builder(&Embedded::new()).defaults(defaults);
        let error = builder.open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(!error.to_string().contains("session"), "{error}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_the_error_of_every_acquire() {
    let session = session(LockOptions::new());
    let wrong = LockOptions::new().retries(0);
    let mutex = session.mutex("a").unwrap().with_options(wrong);
    let rw_lock = session.rw_lock("rw").unwrap().with_options(wrong);
    let semaphore = session.semaphore("s", 2).unwrap().with_options(wrong);
    let any = AnyLock::from(mutex.clone());
    let good = session.mutex("b").unwrap();
    let multi = MultiLock::new([any.clone(), good.clone().into()]).unwrap();
    let template = ZkLockTemplate::new(session.clone()).with_options(wrong);
    let refused: Vec<LockError> = vec![
        mutex.acquire().await.unwrap_err(),
        mutex.try_acquire().await.unwrap_err(),
        mutex.acquire_timeout(LONG).await.unwrap_err(),
        mutex.acquire_tries().await.unwrap_err(),
        rw_lock.read().await.unwrap_err(),
        rw_lock.write_tries().await.unwrap_err(),
        semaphore.acquire().await.unwrap_err(),
        semaphore.try_acquire().await.unwrap_err(),
        semaphore.acquire_tries().await.unwrap_err(),
        any.acquire().await.unwrap_err(),
        multi.acquire().await.unwrap_err(),
        multi.try_acquire().await.unwrap_err(),
        template.execute("a", || async {}).await.unwrap_err(),
        template.clone().read().execute("rw", || async {}).await.unwrap_err(),
        template.clone().semaphore(2).execute("s", || async {}).await.unwrap_err(),
        template.execute_all(["a", "b"], || async {}).await.unwrap_err(),
    ];
    for error in &refused {
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        assert!(matches!(error.lock_name(), Some("a" | "rw" | "s")), "{error}");
        assert!(error.to_string().contains("`retries = 1` tries once"), "{error}");
    }
    let bodies = refused.iter().map(LockError::body);
    assert_eq!(bodies.filter(|body| *body == Some(Body::NotStarted)).count(), 4);
    // A later call mends it, and what was refused left nothing behind.
    let mended = mutex.with_options(LockOptions::new().retries(1));
    mended.acquire_tries().await.unwrap().release().await.unwrap();
    good.try_acquire().await.unwrap().release().await.unwrap();
}

#[test]
fn what_makes_no_sense_is_the_error_on_a_thread_too() {
    let session = session(LockOptions::new());
    let wrong = LockOptions::new().timeout(Duration::ZERO);
    let mutex = session.mutex("a").unwrap().with_options(wrong);
    let semaphore = session.semaphore("b", 2).unwrap().with_options(wrong);
    let template = ZkLockTemplate::new(session).with_options(wrong);
    let refused = [
        mutex.blocking_acquire().unwrap_err(),
        semaphore.blocking_acquire_tries().unwrap_err(),
        template.blocking_execute("c", || ()).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("longer than zero"), "{error}");
    }
}

#[tokio::test]
async fn options_that_contradict_each_other_say_who_set_which() {
    let (fair, lingers) = (LockOptions::new().fair(true), LockOptions::new().linger(LONG));
    let error = async |of_session: LockOptions, of_lock: LockOptions| {
        let mutex = session(of_session).mutex("a").unwrap().with_options(of_lock);
        let error = mutex.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    };
    let by_session = error(lingers, fair).await;
    assert!(by_session.contains("`fair` is set for this lock, `linger` by its"), "{by_session}");
    let by_lock = error(fair, lingers).await;
    assert!(by_lock.contains("`linger` is set for this lock, `fair` by its"), "{by_lock}");
    let hold = error(lingers, LockOptions::new().hold_at_least(LONG)).await;
    assert!(hold.contains("`hold_at_least` is set for this lock, `linger` by its"), "{hold}");
    let both = error(LockOptions::new(), fair.linger(LONG)).await;
    assert!(both.ends_with("choose one"), "{both}");
    // The way out that the error names.
    let out = session(lingers).mutex("a").unwrap().with_options(fair.linger(Duration::ZERO));
    out.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn what_a_kind_of_lock_cannot_do_is_left_out_of_its_sessions_options_and_refused_of_its_own()
{
    let hold = LockOptions::new().hold_at_least(Duration::from_millis(1));
    let lingers = LockOptions::new().linger(Duration::from_millis(1));
    for (options, read_write) in [(hold, false), (lingers, true)] {
        let session = session(options);
        let (rw_lock, semaphore) =
            (session.rw_lock("a").unwrap(), session.semaphore("b", 1).unwrap());
        drop(rw_lock.write().await.unwrap());
        drop(semaphore.try_acquire().await.unwrap());
        let kind = |error: LockError| error.kind();
        let own = rw_lock.with_options(options).write().await.map(drop).map_err(kind);
        assert_eq!(own, if read_write { Ok(()) } else { Err(ErrorKind::InvalidOption) });
        let own = semaphore.with_options(options).acquire().await.map(drop).map_err(kind);
        assert_eq!(own, Err(ErrorKind::InvalidOption));
    }
}

#[zk_locked("a", retries = 1)]
async fn once() -> Result<(), LockError> {
    Ok(())
}

#[zk_locked("a")]
async fn as_the_session_says() -> Result<(), LockError> {
    Ok(())
}

const PATIENT: LockOptions = LockOptions::new().timeout(Duration::from_secs(11)).retries(4);

#[derive(Debug)]
enum ApiError {
    Lock(LockError),
}

#[zk_locked("a", retries = 2, options = PATIENT, map_err = ApiError::Lock)]
async fn with_options(contradicts: bool) -> Result<bool, ApiError> {
    Ok(contradicts)
}

#[zk_locked("a", options = options, map_err = ApiError::Lock)]
fn of_a_parameter(options: &LockOptions) -> Result<Option<Duration>, ApiError> {
    Ok(options.timeout)
}

#[zk_locked("b", options = PATIENT.fair(true), linger = "1s", map_err = |error| error.kind())]
async fn contradicts_them() -> Result<(), ErrorKind> {
    Ok(())
}

#[zk_locked("c", lock_delay = "2s")]
async fn delayed() -> Result<(), LockError> {
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn options_of_an_attribute_go_over_the_sessions_and_its_other_arguments_over_them() {
    let locks = TestLocks::with_defaults(LockOptions::new().timeout(LONG));
    assert!(with_options(true).await.unwrap());
    assert_eq!(contradicts_them().await, Err(ErrorKind::InvalidOption));
    let held = locks.hold("a").unwrap();
    let began = tokio::time::Instant::now();
    let ApiError::Lock(error) = with_options(false).await.unwrap_err();
    assert_eq!((error.code(), error.body()), ("1011", Some(Body::NotStarted)));
    assert_eq!(began.elapsed().as_secs(), 22);
    drop(held);
}

#[test]
fn options_of_an_attribute_may_be_a_parameter() {
    let _locks = TestLocks::with_defaults(LockOptions::new().timeout(LONG));
    assert_eq!(of_a_parameter(&PATIENT).unwrap(), PATIENT.timeout);
    let contradict = PATIENT.fair(true).linger(LONG);
    let ApiError::Lock(error) = of_a_parameter(&contradict).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_an_attribute_keeps_others_out_after_a_loss() {
    let locks = TestLocks::install();
    let losing = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        locks.lose();
    };
    let (outcome, ()) = tokio::join!(delayed(), losing);
    assert!(outcome.unwrap_err().is_lost());
    let began = tokio::time::Instant::now();
    let next = tokio::time::timeout(Duration::from_secs(60), async {
        let delay = LockOptions::new().lock_delay(Duration::from_secs(1));
        let lock = locks.session().mutex("c").unwrap().with_options(delay);
        drop(lock.acquire().await.unwrap());
    });
    next.await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_argument_goes_over_the_sessions_options_and_resets_none() {
    let locks = TestLocks::with_defaults(LockOptions::new().timeout(LONG).retries(3));
    let _held = locks.hold("a").unwrap();
    let waited = async |call: Result<(), LockError>, began: tokio::time::Instant| {
        assert!(call.unwrap_err().is_busy());
        began.elapsed().as_secs()
    };
    let began = tokio::time::Instant::now();
    assert_eq!(waited(once().await, began).await, 7);
    let began = tokio::time::Instant::now();
    assert_eq!(waited(as_the_session_says().await, began).await, 21);
    let began = tokio::time::Instant::now();
    let template = ZkLockTemplate::default().with_options(LockOptions::new().retries(2));
    let template = template.with_options(LockOptions::new().fair(true));
    assert_eq!(waited(template.execute("a", || async {}).await, began).await, 14);
}
