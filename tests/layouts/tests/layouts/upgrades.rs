//! What `docs/upgrades.md` says of two versions of a service that run at the same time: for each
//! other, sessions that name the servers differently are those of two processes.

use zklock::layout::{Curator, HostNodes, Kazoo, Numbered, ReadWriteNodes};
use zklock::{AnyLock, ErrorKind, MultiLock, Session};

use crate::bed::Bed;

const LAYOUTS: [&str; 7] =
    ["Curator", "Kazoo", "dlock", "lock", "ReadWriteNodes", "HostNodes", "OneNode"];

/// A lock that one caller holds, in a layout.
fn lock(session: &Session, name: &str, layout: &str) -> AnyLock {
    let mutex = session.mutex(name).unwrap();
    let rw_lock = session.rw_lock(name).unwrap();
    match layout {
        "Curator" => mutex.with_driver(Curator).into(),
        "Kazoo" => mutex.with_driver(Kazoo::default()).into(),
        "dlock" => mutex.with_driver(Numbered::dlock()).into(),
        "lock" => mutex.with_driver(Numbered::lock()).into(),
        "ReadWriteNodes" => AnyLock::Write(rw_lock.with_driver(ReadWriteNodes)),
        "HostNodes" => AnyLock::Write(rw_lock.with_driver(HostNodes::here())),
        _ => session.mutex(name).unwrap().with_driver(zklock::layout::OneNode).into(),
    }
}

/// Who comes second, by the layouts of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn which_layouts_exclude_each_other_is_in_the_guide() {
    let bed = Bed::shared("upgrades");
    let proxy = bed.proxy();
    let (here, there) = (bed.session().await, bed.session_through(&proxy).await);
    let mut table = Vec::new();
    for (number, holder) in LAYOUTS.iter().enumerate() {
        let mut row = format!("| `{holder}` |");
        for comer in LAYOUTS {
            let name = format!("{number}-{comer}");
            let held = lock(&here, &name, holder).acquire().await.unwrap();
            let second = lock(&there, &name, comer).try_acquire().await;
            row.push_str(match &second {
                Ok(_) => " **enters** |",
                Err(error) if error.is_busy() => " waits |",
                Err(error) => panic!("{holder}, then {comer}: {error:#}"),
            });
            assert!(held.is_valid());
            if let Ok(guard) = second {
                guard.release().await.unwrap();
            }
            held.release().await.unwrap();
        }
        table.push(row);
    }
    println!("{}", table.join("\n"));
    let page = include_str!("../../../../docs/upgrades.md");
    for row in table {
        assert!(page.contains(&row), "{row}");
    }
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_two_limits_of_a_semaphore_are_in_use_the_greater_counts() {
    let bed = Bed::shared("limits");
    let proxy = bed.proxy();
    let (here, there) = (bed.session().await, bed.session_through(&proxy).await);
    let (two, three) = (here.semaphore("a", 2).unwrap(), there.semaphore("a", 3).unwrap());
    let held = [two.acquire().await.unwrap(), two.acquire().await.unwrap()];
    let third = three.try_acquire().await.unwrap();
    for refused in [two.try_acquire().await, three.try_acquire().await] {
        assert!(refused.unwrap_err().is_busy());
    }
    for permit in held {
        permit.release().await.unwrap();
    }
    let second = two.try_acquire().await.unwrap();
    assert!(two.try_acquire().await.unwrap_err().is_busy(), "two are held, one elsewhere");
    third.release().await.unwrap();
    second.release().await.unwrap();
    bed.end().await;
}

/// From one name or layout to another: a version in between takes both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_takes_both_locks_excludes_the_old_and_the_new_one() {
    let bed = Bed::shared("both");
    let proxy = bed.proxy();
    let (here, there) = (bed.session().await, bed.session_through(&proxy).await);
    let (old, new) = (("orders", "Curator"), ("orders-kazoo", "Kazoo"));
    let both = MultiLock::new([lock(&here, old.0, old.1), lock(&here, new.0, new.1)]).unwrap();
    for (name, layout) in [old, new] {
        let one = lock(&there, name, layout);
        let held = one.acquire().await.unwrap();
        assert!(both.try_acquire().await.unwrap_err().is_busy());
        held.release().await.unwrap();
        let held = both.acquire().await.unwrap();
        assert!(one.try_acquire().await.unwrap_err().is_busy());
        held.release().await.unwrap();
    }
    // One process cannot take one name in two layouts.
    let one_name = [lock(&here, old.0, "Curator"), lock(&here, old.0, "Kazoo")];
    let refused = match MultiLock::new(one_name) {
        Ok(both) => both.acquire().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{refused:#}");
    bed.end().await;
}
