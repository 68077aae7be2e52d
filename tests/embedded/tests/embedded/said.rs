//! What the documents and the errors say, word by word.

use std::time::Duration;

use zklock::layout::Kazoo;
use zklock::testing::TestLocks;
use zklock::{ErrorKind, LockName, Session, is_held_in_scope, lock_name, zk_locked};

use crate::support::{client, on, store};

/// How long ago a moment was, by the wall clock: paused time is not on it.
#[allow(clippy::disallowed_methods)]
fn ago(moment: Option<&str>) -> Duration {
    let at = humantime::parse_rfc3339(moment.unwrap()).unwrap();
    std::time::SystemTime::now().duration_since(at).unwrap()
}

/// After a handoff the node is another's, and so is the time since when it has been there.
#[tokio::test(start_paused = true)]
async fn since_when_somebody_holds_is_said_apart_from_since_when_the_node_is_there() {
    let (store, session) = store();
    let mutex = session.mutex("a").unwrap();
    let first = mutex.acquire().await.unwrap();
    let next = crate::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let path = first.node_path().to_owned();
    drop(first);
    let second = next.await.unwrap();
    assert_eq!(second.node_path(), path, "a handoff");
    tokio::time::sleep(Duration::from_secs(30)).await;

    let told = |granted: Duration| {
        assert!(granted.abs_diff(Duration::from_secs(30)) < Duration::from_secs(2), "{granted:?}");
    };
    told(session.local_contenders()[0].elapsed);
    let here = session.site("a").unwrap().contenders().await.unwrap().remove(0);
    told(ago(here.owner.granted.as_deref()));
    // The wall clock has not moved since the node was made.
    assert!(ago(here.owner.since.as_deref()) < Duration::from_secs(20));
    let busy = crate::spawn(async move { mutex.acquire_timeout(Duration::from_millis(1)).await });
    let busy = busy.await.unwrap().unwrap_err();
    let owner = &busy.holder().unwrap().owner;
    told(ago(owner.granted.as_deref()));
    assert!(owner.since.is_none() && format!("{busy:#}").contains(", holding since "), "{busy:#}");

    // Others know what the node says.
    let other = on(&store);
    let there = other.site("a").unwrap().contenders().await.unwrap().remove(0);
    assert_eq!((there.owner.granted, &there.owner.since), (None, &here.owner.since));
    let busy = other.mutex("a").unwrap().try_acquire().await.unwrap_err();
    let owner = &busy.holder().unwrap().owner;
    assert_eq!((&owner.granted, &owner.since), (&None, &here.owner.since));
    assert!(format!("{busy:#}").contains(", in the queue since "), "{busy:#}");
    assert!(!format!("{busy:#}").contains("holding"), "{busy:#}");
    let data = client(&store).await.get(&path).await.unwrap().0;
    assert!(!String::from_utf8(data).unwrap().contains("granted"));
}

#[zk_locked("items/{id}/of-{shop}")]
async fn of_item(id: &str, shop: &str) -> Result<[bool; 2], zklock::LockError> {
    Ok([is_held_in_scope(format!("items/{id}/of-{shop}")), is_held_in_scope("items/1/of-a")])
}

#[tokio::test]
async fn a_name_with_its_values_as_they_are_names_the_lock() {
    let locks = TestLocks::install();
    for id in ["0", "007", "-5", "0b3f0b4e-3c9c-4a3e-9a60-5b0c1f9a7d11"] {
        assert_eq!(of_item(id, "a").await.unwrap(), [true, false]);
        locks.assert_taken(format!("items/{id}/of-a"));
    }
    assert_eq!(of_item("1", "a").await.unwrap(), [true, true]);
    assert_eq!(of_item("locks", "a").await.unwrap(), [false, false]);
    locks.assert_taken("items/~6Cocks/of-a");
    assert!(
        !is_held_in_scope("items/0/of-a") && !is_held_in_scope("items//a") && !is_held_in_scope("")
    );
}

const BILLS: &str = "bills/all";

#[zk_locked(BILLS)]
async fn of_bills() -> Result<bool, zklock::LockError> {
    Ok(is_held_in_scope(BILLS))
}

/// Text of every kind, names and what `lock_name!` answers name a lock wherever one is named.
#[tokio::test]
async fn whatever_takes_a_name_takes_text_and_names() {
    let locks = TestLocks::install().expecting(BILLS);
    assert!(of_bills().await.unwrap());
    let session = locks.session();
    let (id, path) = ("a/7", "/zklock/orders/a~2F7");
    let text = format!("orders/{}", "a~2F7");
    let name = lock_name!("orders/{id}").unwrap();
    assert_eq!(name, LockName::new(&text).unwrap());
    for made in [
        session.mutex("orders/a~2F7"),
        session.mutex(&text),
        session.mutex(text.clone()),
        session.mutex(&name),
        session.mutex(name.clone()),
        session.mutex(lock_name!("orders/{id}")),
        session.mutex(name.to_shared()),
    ] {
        assert_eq!(made.unwrap().path(), path);
    }
    assert_eq!(session.rw_lock(&name).unwrap().path(), path);
    assert_eq!(session.site(lock_name!("orders/{id}")).unwrap().path(), path);
    assert_eq!(session.mutex(&name).unwrap().with_driver(zklock::layout::OneNode).path(), path);
    assert_eq!(session.semaphore(&name, 3).unwrap().path(), format!("{path}/leases"));
    let held = zklock::execute(lock_name!("orders/{id}"), async || is_held_in_scope(&name)).await;
    assert!(held.unwrap());
    locks.assert_taken(&name);
    let template = zklock::ZkLockTemplate::new(session.clone());
    let (from, to) = (0, "0/1");
    let both = [lock_name!("accounts/{from}"), lock_name!("accounts/{to}")];
    let held = template.execute_all(both, async || {
        is_held_in_scope("accounts/0") && is_held_in_scope(lock_name!("accounts/{to}"))
    });
    assert!(held.await.unwrap());
    drop(locks.hold(&text).unwrap());
    // What is wrong with a name is the error of whoever is asked.
    let id = "";
    let refused = session.mutex(lock_name!("orders/{id}")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidName);
    let refused = zklock::execute(lock_name!("orders/{id}"), async || unreachable!()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidName);
    assert!(!is_held_in_scope(lock_name!("orders/{id}")));
}

#[tokio::test]
async fn an_empty_value_is_an_error() {
    let _locks = TestLocks::install();
    for (id, shop) in [("", "a"), ("7", "")] {
        let error = of_item(id, shop).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName);
        assert!(
            format!("{error:#}").contains("a value in a lock name may not be empty"),
            "{error}"
        );
    }
}

/// In this process and in another.
#[tokio::test]
async fn a_mutex_counts_as_a_writer_and_a_semaphore_is_refused_beside_it() {
    for kazoo in [false, true] {
        let (store, curator) = store();
        let open = || {
            let builder = Session::embedded_builder(&store);
            if kazoo { builder.driver(Kazoo::default()) } else { builder }.open().unwrap()
        };
        let session = if kazoo { open() } else { curator };
        let try_mutex = async |session: &Session| {
            let mutex = session.mutex("a").unwrap();
            crate::spawn(async move { mutex.try_acquire().await.map(drop) }).await.unwrap()
        };
        let try_read = async |session: &Session| {
            let lock = session.rw_lock("a").unwrap();
            crate::spawn(async move { lock.try_read().await.map(drop) }).await.unwrap()
        };
        for asking in [session.clone(), open()] {
            let read = session.rw_lock("a").unwrap().read().await.unwrap();
            assert!(try_mutex(&asking).await.is_err_and(|error| error.is_busy()), "{kazoo}");
            try_read(&asking).await.unwrap();
            read.release().await.unwrap();
            let alone = session.mutex("a").unwrap().acquire().await.unwrap();
            assert!(try_read(&asking).await.is_err_and(|error| error.is_busy()), "{kazoo}");
            let refused = asking.semaphore("a", 1).unwrap().try_acquire().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused}");
            alone.release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_quick_start_shows_what_the_error_of_a_lost_lock_says() {
    let locks = TestLocks::install();

    #[zk_locked("orders/{customer}")]
    async fn create_order(customer: u64, locks: &TestLocks) -> Result<(), zklock::LockError> {
        locks.lose();
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(())
    }
    let error = create_order(7, &locks).await.unwrap_err();
    let page = include_str!("../../../../docs/quick-start.md");
    let shown = page.lines().find(|line| line.starts_with("orders/7 was lost: ")).unwrap();
    assert_eq!([error.to_string(), format!("{error:#}")], [shown, shown]);
}
