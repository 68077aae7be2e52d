//! The template: the body runs only with the lock, and the release comes in every case.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zklock::layout::Numbered;
use zklock::{
    Body, BoxFuture, ErrorKind, GuardView, LockError, LockName, LockOptions, LockTemplate,
    LockTemplateExt, OnLost, OnRevoked, Session, SessionRegistry, ZkLockTemplate, current,
};

use crate::support::{contenders, on, prompt, store};

#[tokio::test]
async fn the_body_runs_with_the_lock_and_its_result_is_kept() {
    let (store, session) = store();
    let template = ZkLockTemplate::new(session);
    let number = template.execute("createOrder", || async {
        assert!(current().is_valid());
        assert_eq!(current().lock_name(), Some("createOrder"));
        assert_eq!(contenders(&store, "/zklock/createOrder").await.len(), 1);
        42
    });
    assert_eq!(number.await.unwrap(), 42);
    assert!(contenders(&store, "/zklock/createOrder").await.is_empty());
    let token = template.execute_with("createOrder", |guard| async move {
        assert_eq!(Some(guard.fencing_token()), current().fencing_token());
        guard.fencing_token()
    });
    token.await.unwrap();
    assert!(!current().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_1011_and_the_body_does_not_run() {
    let (store, session) = store();
    let _held = on(&store).mutex("createOrder").unwrap().acquire().await.unwrap();
    let ran = AtomicBool::new(false);
    let template = ZkLockTemplate::new(session);
    let start = tokio::time::Instant::now();
    let error = template
        .execute("createOrder", || async { ran.store(true, Ordering::SeqCst) })
        .await
        .unwrap_err();
    assert_eq!(error.code(), "1011");
    assert_eq!(error.to_string(), "createOrder is being processed");
    assert_eq!(error.body(), Some(Body::NotStarted));
    assert!(!ran.load(Ordering::SeqCst));
    assert_eq!(start.elapsed().as_secs(), 4);
}

#[tokio::test]
async fn return_question_mark_panic_and_cancellation_release() {
    let (store, session) = store();
    let template = ZkLockTemplate::new(session);
    let failed: Result<Result<u32, std::num::ParseIntError>, _> =
        template.execute("a", || async { Ok("x".parse::<u32>()? + 1) }).await;
    assert!(failed.unwrap().is_err());
    assert!(contenders(&store, "/zklock/a").await.is_empty());

    let panicking = template.clone();
    let joined = crate::spawn(async move {
        let body = || async { std::panic::resume_unwind(Box::new("on purpose")) };
        panicking.execute::<(), _, _>("a", body).await
    });
    assert!(joined.await.unwrap_err().is_panic());
    assert!(contenders(&store, "/zklock/a").await.is_empty());

    let cancelled = template.execute("a", std::future::pending::<()>);
    assert!(tokio::time::timeout(Duration::from_millis(5), cancelled).await.is_err());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    template.execute("a", || async {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_lock_is_lost_is_dropped_at_its_next_await() {
    let (store, session) = store();
    let template = ZkLockTemplate::new(session.clone());
    let went_on = Arc::new(AtomicBool::new(false));
    let noted = went_on.clone();
    let lost = template.execute("a", || async {
        store.faults(session.zookeeper_session().unwrap().id).expire();
        tokio::time::sleep(Duration::from_secs(1)).await;
        noted.store(true, Ordering::SeqCst);
    });
    let error = lost.await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Lost, Some(Body::Dropped)));
    assert!(!went_on.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_may_finish_does_and_the_caller_is_told() {
    let (store, session) = store();
    let template = ZkLockTemplate::new(session.clone());
    let template = template.with_options(LockOptions::new().on_lost(OnLost::Finish));
    let went_on = AtomicBool::new(false);
    let lost = template.execute("a", || async {
        store.faults(session.zookeeper_session().unwrap().id).expire();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!current().is_valid());
        went_on.store(true, Ordering::SeqCst);
    });
    let error = lost.await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Lost, Some(Body::Finished)));
    assert!(went_on.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_release_during_an_outage_is_done_later_and_keeps_the_result() {
    let (store, session) = store();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    let template = ZkLockTemplate::new(session);
    let healing = crate::spawn({
        let faults = faults.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            faults.reconnect();
        }
    });
    let kept = template.execute("a", || async {
        faults.disconnect();
        7
    });
    assert_eq!(kept.await.unwrap(), 7);
    healing.await.unwrap();
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

/// For tests of code whose locks are of no interest.
#[derive(Debug)]
struct NoLock;

impl LockTemplate for NoLock {
    fn execute_boxed<'a>(
        &'a self,
        _: LockName,
        body: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(async {
            body.await;
            Ok(())
        })
    }
}

#[tokio::test]
async fn code_can_take_any_template() {
    async fn handler(template: &impl LockTemplate) -> u32 {
        let numbers = [1, 2, 3];
        // A body may borrow.
        let sum = template.execute("a", || async { numbers.iter().sum::<u32>() }).await;
        let refused: Result<u32, TestError> =
            template.execute_fallible("a", || async { Err(TestError::Own) }).await;
        assert!(matches!(refused, Err(TestError::Own)));
        sum.unwrap()
    }
    let real = ZkLockTemplate::new(Session::embedded());
    assert_eq!((handler(&NoLock).await, handler(&real).await), (6, 6));
    // One that is chosen when the program runs, shared by tasks.
    for template in [Arc::new(NoLock) as Arc<dyn LockTemplate>, Arc::new(real)] {
        assert_eq!((handler(&template).await, handler(&&*template).await), (6, 6));
        let shared = template.clone();
        let task = crate::spawn(async move { shared.execute("a", || async { 1 }).await });
        assert_eq!(task.await.unwrap().unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_behind_a_dyn_keeps_what_the_template_promises() {
    let (store, session) = store();
    let template: Arc<dyn LockTemplate> = Arc::new(ZkLockTemplate::new(session));
    let inside = || async { (contenders(&store, "/zklock/a").await.len(), current().is_valid()) };
    assert_eq!(template.execute("a", inside).await.unwrap(), (1, true));
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    let no_name = template.execute("a//b", || async {}).await.unwrap_err();
    assert_eq!((no_name.kind(), no_name.body()), (ErrorKind::InvalidName, Some(Body::NotStarted)));
    let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let ran = AtomicBool::new(false);
    let busy = template.execute("a", || async { ran.store(true, Ordering::SeqCst) });
    let busy = busy.await.unwrap_err();
    assert_eq!((busy.code(), busy.body()), ("1011", Some(Body::NotStarted)));
    assert!(!ran.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_template_that_never_runs_the_body_has_no_result() {
    #[derive(Debug)]
    struct Liar;
    impl LockTemplate for Liar {
        fn execute_boxed<'a>(
            &'a self,
            _: LockName,
            _: BoxFuture<'a, ()>,
        ) -> BoxFuture<'a, Result<(), LockError>> {
            Box::pin(async { Ok(()) })
        }
    }
    assert!(Liar.execute("a", || async { 1 }).await.is_err());
}

#[derive(Debug)]
enum TestError {
    Own,
    Lock(LockError),
}

impl From<LockError> for TestError {
    fn from(error: LockError) -> Self {
        TestError::Lock(error)
    }
}

#[tokio::test(start_paused = true)]
async fn one_question_mark_is_for_the_body_and_for_the_lock() {
    type Outcome = Result<u32, TestError>;
    let (store, session) = store();
    let template = ZkLockTemplate::new(session.clone());
    let own = || async { Err(TestError::Own) };
    let fine = || async {
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
        Ok(7)
    };
    let answer: Outcome = template.execute_fallible("a", fine).await;
    assert_eq!(answer.unwrap(), 7);
    let answer: Outcome = template.execute_fallible("a", own).await;
    assert!(matches!(answer, Err(TestError::Own)));
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    let answer: Outcome = template.execute_all_fallible(["a", "b"], own).await;
    assert!(matches!(answer, Err(TestError::Own)));
    let plain = template.blocking_execute_fallible("a", || Err::<u32, _>(TestError::Own));
    assert!(matches!(plain, Err(TestError::Own)));

    let _held = on(&store).mutex("a").unwrap().acquire().await.unwrap();
    let _installed = SessionRegistry::global().install_here(None, session);
    for answer in [
        template.execute_fallible("a", own).await,
        template.execute_all_fallible(["b", "a"], own).await,
        zklock::execute_fallible("a", own).await,
    ] {
        let Err::<u32, _>(TestError::Lock(error)) = answer else { panic!("{answer:?}") };
        assert_eq!((error.code(), error.body()), ("1011", Some(Body::NotStarted)));
    }
}

#[tokio::test]
async fn the_future_of_a_small_body_is_small() {
    let template = ZkLockTemplate::new(Session::embedded());
    let name = LockName::new("a").unwrap();
    let sizes = [
        ("execute", size_of_val(&template.execute(&name, || async { 1 }))),
        ("execute_with", size_of_val(&template.execute_with(&name, |_| async { 1 }))),
        ("execute_all", size_of_val(&template.execute_all([&name], || async { 1 }))),
    ];
    for (what, size) in sizes {
        assert!(size <= 400, "{what} has {size} bytes: {sizes:?}");
    }
}

#[tokio::test]
async fn the_default_session_is_the_one_installed_for_this_test() {
    let (store, session) = store();
    let _installed = SessionRegistry::global().install_here(None, session);
    let inside = crate::spawn(async move {
        zklock::execute("a", || async { contenders(&store, "/zklock/a").await.len() }).await
    });
    assert_eq!(inside.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn bad_names_are_errors_and_the_body_does_not_run() {
    let template = ZkLockTemplate::new(Session::embedded());
    let long = "x".repeat(10_000);
    for name in ["", "a//b", "..", "a/..", "a\0", &long, "a/locks", "leases"] {
        let error = template.execute(name, || async { unreachable!() }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{name:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_lock_can_be_asked_for() {
    let (store, session) = prompt();
    let template = |session: &Session| {
        let options = LockOptions::default().timeout(Duration::from_millis(10)).retries(1);
        ZkLockTemplate::new(session.clone()).with_options(options)
    };
    let (here, there) = (template(&session), template(&on(&store)));
    let (reading, also) = (here.clone().read(), there.clone().read());
    let nested = reading.execute("a", || also.execute("a", || async { 1 })).await;
    assert_eq!(nested.unwrap().unwrap(), 1);
    let writing = there.clone().write();
    let refused = reading.execute("a", || writing.execute("a", || async { 1 })).await.unwrap();
    assert!(refused.unwrap_err().is_busy());
    let one = here.clone().semaphore(2);
    let two = there.clone().semaphore(2).permits(2);
    let refused = one.execute("p", || two.execute("p", || async { 1 })).await.unwrap();
    assert!(refused.unwrap_err().is_busy());
    assert_eq!(two.execute("p", || async { 2 }).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn several_locks_are_held_around_one_body() {
    let (store, session) = store();
    let (here, there) = (ZkLockTemplate::new(session), on(&store));
    let held = here.execute_all(&["b", "a"], || async {
        assert!(
            zklock::current().is_valid()
                && zklock::is_held_in_scope("a")
                && zklock::is_held_in_scope("b")
        );
        let busy = |name| there.mutex(name).unwrap();
        (busy("a").try_acquire().await.is_err(), busy("b").try_acquire().await.is_err())
    });
    assert_eq!(held.await.unwrap(), (true, true));
    drop((there.mutex("a").unwrap().try_acquire().await, there.mutex("b").unwrap()));
    let twice = here.execute_all(&["a", "a"], || async {}).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidOption);
}

#[test]
fn a_thread_holds_several_too() {
    let (_store, session) = store();
    let template = ZkLockTemplate::new(session);
    let held = template.blocking_execute_all(["b", "a"], || {
        zklock::is_held_in_scope("a") && zklock::is_held_in_scope("b")
    });
    assert!(held.unwrap());
}

/// Asks for a lock, and waits until that is heard inside.
async fn ask(session: &Session, name: &str) {
    assert_eq!(session.site(name).unwrap().revoke().await.unwrap(), 1);
    current().revoked().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_heeds_is_dropped_when_somebody_asks_for_its_lock() {
    let (store, session) = store();
    let other = on(&store);
    let ignoring = ZkLockTemplate::new(session.clone());
    let went_on = ignoring.execute("a", || async { ask(&other, "a").await });
    went_on.await.unwrap();
    let options = LockOptions::default().on_revoked(OnRevoked::Cancel);
    assert_eq!(session.mutex("a").unwrap().with_options(options).options().revocable, Some(true));
    let heeding = ignoring.with_options(options);
    let work = || async {
        ask(&other, "a").await;
        std::future::pending::<()>().await
    };
    let error = heeding.execute("a", work).await.unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Revoked, Some(Body::Dropped)));
    let error = heeding.execute_all(&["b", "a"], work).await.unwrap_err();
    assert_eq!((error.kind(), error.lock_name()), (ErrorKind::Revoked, Some("a")));
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    let ignoring = heeding.with_options(LockOptions::new().on_revoked(OnRevoked::Ignore));
    ignoring.execute("a", || async { ask(&other, "a").await }).await.unwrap();
}

#[test]
fn a_plain_body_does_not_begin_when_its_lock_is_to_be_let_go() {
    let (store, session) = store();
    let other = on(&store);
    let heeding = LockOptions::new().on_revoked(OnRevoked::Cancel);
    let template = ZkLockTemplate::new(session).with_options(heeding);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let nested = template.blocking_execute("a", || {
        runtime.block_on(ask(&other, "a"));
        template.blocking_execute("a", || unreachable!("it is too late to begin"))
    });
    let error: zklock::LockError = nested.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.body()), (ErrorKind::Revoked, Some(Body::NotStarted)));
}

#[tokio::test]
async fn a_session_that_is_missing_is_an_error_with_the_name_of_the_lock() {
    let template = ZkLockTemplate::default();
    for error in [
        template.execute("a", async || ()).await.unwrap_err(),
        template.execute_all(["a", "b"], async || ()).await.unwrap_err(),
        template.blocking_execute("a", || ()).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.lock_name()), (ErrorKind::NotConfigured, Some("a")));
        assert_eq!(error.body(), Some(Body::NotStarted));
    }
}

#[tokio::test]
async fn a_template_may_have_a_layout_of_its_own() {
    let (_store, session) = store();
    let template = ZkLockTemplate::new(session).with_driver(Numbered::dlock());
    let body = |view: GuardView| async move { view.node_path().to_owned() };
    let path = template.execute_with("a", body).await.unwrap();
    assert_eq!(path, "/zklock/a/sub_0000000000");
    for other in [template.clone().write(), template.clone().semaphore(2)] {
        let error = other.execute("b", || async {}).await.unwrap_err();
        assert_eq!((error.kind(), error.lock_name()), (ErrorKind::Unsupported, Some("b")));
    }
}

#[tokio::test]
async fn several_permits_of_what_is_no_semaphore_are_an_error() {
    let (_store, session) = store();
    let two = ZkLockTemplate::new(session).permits(2);
    for other in [two.clone(), two.clone().read(), two.clone().write()] {
        let error = other.execute("a", || async {}).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.body()),
            (ErrorKind::InvalidOption, Some(Body::NotStarted))
        );
        assert_eq!(error.lock_name(), Some("a"));
    }
    // Whichever of the two is called first.
    two.semaphore(2).execute("a", || async {}).await.unwrap();
}
