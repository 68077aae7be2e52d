//! Layouts: chosen for a lock or a session, the documents' own, and drivers with faults.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use zklock::driver::{Attempt, Contender, LockDriver};
use zklock::layout::{Curator, HostNodes, Kazoo, MaxLeases, Numbered, OneNode, Removed};
use zklock::{AnyLock, ErrorKind, LockOptions, Mode, MultiLock, Session};
use zklock_core::coordinator::node::NodeKind;
use zklock_core::layout::new_node::Proof;

use crate::support::{client, contenders, on, prompt, store};

/// A queue of named numbers: the driver of the documentation.
#[derive(Clone, Debug)]
pub(crate) struct Tickets;

impl LockDriver for Tickets {
    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        format!("ticket-{}-", attempt.simple())
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let attempt = name.strip_prefix("ticket-")?;
        Some(Contender::new(name, Contender::sequence_after(attempt, "-")?, Mode::Mutex))
    }
}

#[tokio::test]
async fn a_driver_of_ones_own_names_the_nodes_and_excludes() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_driver(Tickets);
    let guard = mutex.acquire().await.unwrap();
    assert!(guard.node_path().starts_with("/zklock/a/ticket-"), "{}", guard.node_path());
    let other = Session::embedded_builder(&store).driver(Tickets).open().unwrap();
    let error = other.mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    guard.release().await.unwrap();
    other.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn every_shipped_layout_writes_its_names_and_its_directory() {
    let store = zklock::Embedded::new();
    let root = Session::embedded_builder(&store).root("/").open().unwrap();
    let host = HostNodes::of("10.0.0.7");
    for (name, mutex, path) in [
        (
            "zk_lock",
            root.mutex("zk_lock").unwrap().with_driver(Numbered::dlock()),
            "/zk_lock/sub_0000000000",
        ),
        (
            "lock",
            root.mutex("lock").unwrap().with_driver(Numbered::lock()),
            "/lock/lock-0000000000",
        ),
        ("x", root.mutex("x").unwrap().with_driver(OneNode), "/x/lock"),
    ] {
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(guard.node_path(), path);
        guard.release().await.unwrap();
        // These stay, as the documents' programs make them.
        let client = client(&store).await;
        assert_eq!(
            client.create(&format!("/{name}"), b"", NodeKind::Persistent).await.err(),
            Some(zklock_core::coordinator::request_error::RequestError::NodeExists)
        );
    }
    let kazoo = root.mutex("python").unwrap().with_driver(Kazoo::default());
    let guard = kazoo.acquire().await.unwrap();
    assert!(guard.node_path().ends_with("__lock__0000000000"), "{}", guard.node_path());
    let refused = root.mutex("shared_lock").unwrap().with_driver(host).acquire().await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn kazoos_identifier_is_the_payload() {
    let (store, session) = store();
    let layout = Kazoo::default().identifier("importer 7");
    let guard = session.mutex("a").unwrap().with_driver(layout).acquire().await.unwrap();
    let (data, _) = client(&store).await.get(guard.node_path()).await.unwrap();
    assert_eq!(data, b"importer 7");
}

#[tokio::test]
async fn two_layouts_of_one_lock_in_one_process_are_an_error_that_says_so() {
    let (store, session) = store();
    for fair in [false, true] {
        let options = LockOptions::default().fair(fair);
        let curator = session.mutex("a").unwrap().with_options(options);
        let guard = curator.acquire().await.unwrap();
        let kazoo = session.mutex("a").unwrap().with_driver(Kazoo::default());
        let error = kazoo.with_options(options).acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.lock_name()), (ErrorKind::InvalidOption, Some("a")));
        let text = format!("{error:#}");
        assert!(text.contains("Curator") && text.contains("Kazoo"), "{text}");
        // The same layout, said again, is no other one.
        let same = session.mutex("a").unwrap().with_driver(Curator);
        let error = same.try_acquire().await.unwrap_err();
        assert!(error.is_busy() || error.is_deadlock(), "{error}");
        assert_eq!(contenders(&store, "/zklock/a").await.len(), 1);
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn two_layouts_of_one_lock_in_two_sessions_of_one_process_are_an_error_too() {
    let (store, session) = store();
    let python = Session::embedded_builder(&store).driver(Kazoo::default()).open().unwrap();
    let held = session.mutex("a").unwrap().acquire().await.unwrap();
    let kazoo = python.mutex("a").unwrap();
    let error = kazoo.acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.lock_name()), (ErrorKind::InvalidOption, Some("a")));
    let text = format!("{error:#}");
    assert!(text.contains("Curator") && text.contains("Kazoo"), "{text}");
    assert!(python.rw_lock("a").unwrap().read().await.is_err());
    // Other locks are none of its business, nor is another store, nor a root of another name.
    drop(python.mutex("b").unwrap().acquire().await.unwrap());
    let elsewhere = Session::embedded().mutex("a").unwrap().with_driver(Kazoo::default());
    drop(elsewhere.acquire().await.unwrap());
    // The same directory by another way is the same lock.
    let builder = Session::embedded_builder(&store).root("/").driver(Kazoo::default());
    let root = builder.open().unwrap();
    let error = root.mutex("zklock/a").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    held.release().await.unwrap();
    // Nobody uses it any more.
    drop(kazoo.acquire().await.unwrap());
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

/// Those with a delay do not hand the lock to those without, but it is one lock.
#[tokio::test]
async fn two_layouts_of_one_lock_are_an_error_whatever_the_other_options() {
    let (store, session) = store();
    let elsewhere = on(&store);
    let plain = LockOptions::default();
    let delayed = plain.lock_delay(Duration::from_secs(5));
    let held = delayed.hold_at_least(Duration::from_secs(5));
    for (first, second) in [(plain, delayed), (delayed, plain), (delayed, held)] {
        let curator = session.mutex("a").unwrap().with_options(first);
        let guard = curator.acquire().await.unwrap();
        for other in [&session, &elsewhere] {
            let kazoo = other.mutex("a").unwrap().with_driver(Kazoo::default());
            let error = kazoo.with_options(second).try_acquire().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{first:?} {second:?}: {error}");
        }
        guard.release().await.unwrap();
    }
}

/// A queue whose prefix its `Debug` text does not show.
struct Prefixed {
    prefix: &'static str,
    shown: &'static str,
}

impl fmt::Debug for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown)
    }
}

impl LockDriver for Prefixed {
    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        format!("{}-{}-", self.prefix, attempt.simple())
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let attempt = name.strip_prefix(self.prefix)?;
        Some(Contender::new(name, Contender::sequence_after(attempt, "-")?, Mode::Mutex))
    }

    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        other.is_some_and(|other| other.prefix == self.prefix)
    }
}

#[tokio::test]
async fn a_driver_says_which_layout_it_is_whatever_its_text() {
    let (_, session) = store();
    let mutex = |prefix, shown| {
        let driver = Prefixed { prefix, shown };
        session.mutex("a").unwrap().with_driver(driver)
    };
    let _guard = mutex("a", "one").acquire().await.unwrap();
    let error = mutex("b", "one").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "the texts are equal: {error}");
    let error = mutex("a", "two").try_acquire().await.unwrap_err();
    assert!(error.is_busy(), "the texts differ: {error}");
}

/// Reads only what its own check asks for.
#[derive(Debug)]
struct Sly;

impl LockDriver for Sly {
    fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
        format!("{}-", attempt.simple())
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let number = Contender::sequence_after(name, "-")?;
        [0, 7].contains(&number).then(|| Contender::new(name, number, Mode::Mutex))
    }
}

#[tokio::test]
async fn a_driver_that_does_not_read_its_own_name_is_told_so_and_nothing_is_held() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_driver(Sly);
    mutex.acquire().await.unwrap().release().await.unwrap();
    let error = mutex.acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(format!("{error:#}").contains("does not parse the name of a node"), "{error}");
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    assert!(session.local_contenders().is_empty());
}

/// Names that are all the same.
#[derive(Debug)]
struct Nameless(Proof);

impl LockDriver for Nameless {
    fn prefix(&self, _: &Attempt, _: Mode) -> String {
        "n-".to_owned()
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        Some(Contender::new(name, Contender::sequence_after(name, "n-")?, Mode::Mutex))
    }

    fn proof(&self) -> Proof {
        self.0
    }
}

#[tokio::test]
async fn a_driver_that_is_no_layout_is_the_error_of_every_acquire_until_it_is_replaced() {
    let (store, session) = store();
    let options = LockOptions::new().retries(1);
    let mutex = session.mutex("a").unwrap().with_driver(Nameless(Proof::Name));
    for mutex in [mutex.clone().with_options(options), mutex.clone()] {
        let any = AnyLock::from(&mutex);
        for error in [
            mutex.acquire().await.unwrap_err(),
            mutex.try_acquire().await.unwrap_err(),
            mutex.acquire_tries().await.unwrap_err(),
            any.acquire_timeout(Duration::from_secs(1)).await.unwrap_err(),
            MultiLock::new([mutex.clone()]).unwrap().acquire().await.unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.lock_name()), (ErrorKind::InvalidOption, Some("a")));
            assert!(format!("{error:#}").contains("the same names"), "{error:#}");
        }
    }
    assert!(contenders(&store, "/zklock/a").await.is_empty());
    // A flaw of the options stays where the layout is mended.
    let zero = mutex.clone().with_options(LockOptions::new().retries(0)).with_driver(Curator);
    assert_eq!(zero.acquire().await.unwrap_err().kind(), ErrorKind::InvalidOption);
    drop(mutex.with_driver(Curator).acquire().await.unwrap());
    let rw_lock = session.rw_lock("a").unwrap().with_driver(OneNode);
    for error in [rw_lock.read().await.err(), rw_lock.write().await.err()] {
        assert_eq!(error.unwrap().kind(), ErrorKind::Unsupported);
    }
    let error = Session::embedded_builder(&store).driver(Nameless(Proof::Name)).open().unwrap_err();
    assert!(format!("{error:#}").contains("the same names"), "{error}");
    for proof in [Proof::Payload, Proof::Owner] {
        let mutex = session.mutex("b").unwrap().with_driver(Nameless(proof));
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
}

#[tokio::test]
async fn a_payload_over_the_limit_is_an_error_and_nothing_is_held() {
    let (store, _) = store();
    let session = Session::embedded_builder(&store).app("x".repeat(5000)).open().unwrap();
    let error = session.mutex("a").unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(format!("{error:#}").contains("4096"), "{error}");
    assert!(contenders(&store, "/zklock/a").await.is_empty());
}

#[tokio::test]
async fn a_lock_directory_is_removed_after_the_release_unless_it_is_in_use() {
    let store = zklock::Embedded::new();
    let session = |_| {
        let builder = Session::embedded_builder(&store).root("/distributed/lock");
        builder.driver(Removed::after(Curator)).open().unwrap()
    };
    let [one, two] = [0, 1].map(session);
    let client = client(&store).await;
    for _ in 0..3 {
        let guard = one.mutex("createOrder").unwrap().acquire().await.unwrap();
        let waiting = crate::spawn({
            let mutex = two.mutex("createOrder").unwrap();
            async move { mutex.acquire().await.unwrap() }
        });
        while contenders(&store, "/distributed/lock/createOrder").await.len() < 2 {
            tokio::task::yield_now().await;
        }
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        assert!(client.children("/distributed/lock").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn of_max_leases_so_many_hold_and_whoever_goes_makes_room() {
    let (store, _) = prompt();
    let mut sessions = (0..5).map(|_| {
        let driver = MaxLeases::new(2, Curator).unwrap();
        Session::embedded_builder(&store).driver(driver).open().unwrap().mutex("a").unwrap()
    });
    let mut next = || sessions.next().unwrap();
    let _first = next().acquire().await.unwrap();
    let second = next().acquire().await.unwrap();
    let third = next();
    assert!(third.try_acquire().await.unwrap_err().is_busy());
    let [third, fourth] =
        [third, next()].map(|mutex| crate::spawn(async move { mutex.acquire().await.unwrap() }));
    while contenders(&store, "/zklock/a").await.len() < 4 {
        tokio::task::yield_now().await;
    }
    // Not the first: Curator's third would sleep on.
    second.release().await.unwrap();
    let third = tokio::time::timeout(Duration::from_secs(5), third).await.unwrap().unwrap();
    assert!(!fourth.is_finished());
    third.release().await.unwrap();
    fourth.await.unwrap().release().await.unwrap();
}

/// Another lock's directory has the name that the server would give next, as often as it is asked.
#[tokio::test(start_paused = true)]
async fn a_number_that_is_the_name_of_another_lock_is_skipped() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap().with_driver(Numbered::dlock());
    mutex.acquire().await.unwrap().release().await.unwrap();
    for inner in ["a/sub_0000000004", "a/sub_0000000005"] {
        session.mutex(inner).unwrap().acquire().await.unwrap().release().await.unwrap();
    }
    let mut paths = Vec::new();
    for _ in 0..3 {
        let guard = mutex.acquire().await.unwrap();
        paths.push(guard.node_path().to_owned());
        guard.release().await.unwrap();
    }
    let path = |number| format!("/zklock/a/sub_000000000{number}");
    assert_eq!(paths, [3, 6, 7].map(path));
    assert_eq!(contenders(&store, "/zklock/a").await.len(), 2);
}

const SETTLED: Duration = Duration::from_millis(10);

/// The directory is made anew, its numbers begin again, and the name of the inner lock is a contender's.
#[tokio::test(start_paused = true)]
async fn a_contender_with_the_former_name_of_another_lock_is_waited_for() {
    let (store, session) = prompt();
    let layout = |session: &Session| session.mutex("a").unwrap().with_driver(Numbered::dlock());
    let held = layout(&on(&store)).acquire().await.unwrap();
    session.mutex("a/sub_0000000001").unwrap().acquire().await.unwrap().release().await.unwrap();
    let next = layout(&on(&store));
    let next = crate::spawn(async move { next.acquire().await });
    tokio::time::sleep(SETTLED).await;
    let third = layout(&session);
    let third = crate::spawn(async move { third.acquire().await });
    tokio::time::sleep(SETTLED).await;
    assert_eq!(held.node_path(), "/zklock/a/sub_0000000000");
    held.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    tokio::time::sleep(SETTLED).await;
    // By now it is known that the inner lock is in nobody's way.
    store.faults(session.zookeeper_session().unwrap().id).delay_replies(Duration::from_millis(20));
    let others = client(&store).await;
    for name in contenders(&store, "/zklock/a").await {
        others.delete(&format!("/zklock/a/{name}")).await.unwrap();
    }
    others.delete("/zklock/a").await.unwrap();
    let first = layout(&on(&store)).acquire().await.unwrap();
    first.release().await.unwrap();
    let again = layout(&on(&store)).acquire().await.unwrap();
    assert_eq!(again.node_path(), "/zklock/a/sub_0000000001");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(again.is_valid() && !third.is_finished(), "two are inside");
    again.release().await.unwrap();
    drop(third.await.unwrap().unwrap());
    drop(next);
}
