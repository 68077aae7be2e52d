//! Which kind of lock, and several at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Barrier;
use zklock::testing::TestLocks;
use zklock::{ErrorKind, LockError, LockOptions, current, is_held_in_scope, zk_locked};

const QUICK: Duration = Duration::from_millis(100);

#[zk_locked("stock", mode = read, timeout = QUICK, retries = 1)]
async fn read() -> Result<bool, LockError> {
    Ok(is_held_in_scope("stock"))
}

#[zk_locked("stock", mode = read)]
async fn read_and_write() -> Result<bool, LockError> {
    write().await
}

#[zk_locked("stock", mode = write, timeout = QUICK, retries = 1)]
async fn write() -> Result<bool, LockError> {
    read_plainly()
}

#[zk_locked("stock", mode = read, timeout = QUICK, retries = 1)]
fn read_plainly() -> Result<bool, LockError> {
    Ok(is_held_in_scope("stock"))
}

#[tokio::test]
async fn readers_are_inside_together_and_a_writer_is_alone() {
    let locks = TestLocks::install();
    let lock = locks.session().rw_lock("stock").unwrap();
    // As if others held them: of one's own they would be a deadlock.
    let reader = lock.read().await.unwrap().detach();
    assert!(read().await.unwrap());
    assert!(write().await.unwrap_err().is_busy());
    reader.release().await.unwrap();
    let writer = lock.write().await.unwrap().detach();
    assert!(read().await.unwrap_err().is_busy());
    writer.release().await.unwrap();
    assert!(write().await.unwrap());
    assert_eq!(read_and_write().await.unwrap_err().kind(), ErrorKind::Deadlock);
}

#[zk_locked("printers", mode = semaphore(permits), timeout = QUICK, retries = 1)]
async fn print(
    permits: u32,
    inside: Arc<AtomicU32>,
    together: Arc<Barrier>,
) -> Result<(), LockError> {
    inside.fetch_add(1, Ordering::Relaxed);
    together.wait().await;
    Ok(())
}

#[tokio::test]
async fn a_semaphore_lets_so_many_in() {
    let _locks = TestLocks::with_defaults(LockOptions::default().linger(Duration::from_secs(60)));
    let three = Arc::new(Barrier::new(3));
    let inside = Arc::new(AtomicU32::new(0));
    let enter = || print(2, inside.clone(), three.clone());
    let (one, two) = (tokio::spawn(enter()), tokio::spawn(enter()));
    while inside.load(Ordering::Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    assert!(enter().await.unwrap_err().is_busy());
    for permits in [0, 3] {
        let error = print(permits, inside.clone(), three.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{permits}");
    }
    three.wait().await;
    one.await.unwrap().unwrap();
    two.await.unwrap().unwrap();
}

#[zk_locked("accounts", key = from, key = to, timeout = QUICK, retries = 1)]
async fn transfer(from: u64, to: u64) -> Result<(), LockError> {
    assert!(
        is_held_in_scope(format!("accounts/{from}")) && is_held_in_scope(format!("accounts/{to}"))
    );
    tokio::task::yield_now().await;
    assert!(current().is_valid());
    assert_eq!(current().lock_name(), Some(&*format!("accounts/{}", from.max(to))));
    Ok(())
}

#[zk_locked("accounts", key = from, key = to, try_once, on_busy = skip)]
fn transfer_plainly(from: u64, to: u64) -> Result<Option<bool>, LockError> {
    Ok(Some(current().is_valid()))
}

#[tokio::test]
async fn several_keys_are_several_locks_in_one_order() {
    let locks = TestLocks::install();
    transfer(7, 3).await.unwrap();
    assert_eq!(locks.taken(), ["accounts/3", "accounts/7"]);
    assert_eq!(transfer_plainly(3, 7).unwrap(), Some(true));
    let held = locks.hold("accounts/7").unwrap();
    let error = transfer(3, 7).await.unwrap_err();
    assert!(error.is_busy());
    assert_eq!(error.lock_name(), Some("accounts/7"));
    assert_eq!(transfer_plainly(7, 3).unwrap(), None);
    // What was taken before it is free again.
    transfer(3, 4).await.unwrap();
    drop(held);
    transfer(3, 7).await.unwrap();
}

#[tokio::test]
async fn equal_keys_take_one_lock() {
    let locks = TestLocks::install();
    transfer(7, 7).await.unwrap();
    assert_eq!(transfer_plainly(7, 7).unwrap(), Some(true));
    assert_eq!(locks.taken(), ["accounts/7", "accounts/7"]);
}

#[zk_locked("accounts", key = a, key = b)]
async fn crosswise(a: u64, b: u64) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[tokio::test]
async fn transfers_in_both_directions_do_not_wait_for_each_other() {
    let _locks = TestLocks::install();
    let there = async {
        for _ in 0..100 {
            crosswise(1, 2).await.unwrap();
        }
    };
    let back = async {
        for _ in 0..100 {
            crosswise(2, 1).await.unwrap();
        }
    };
    tokio::join!(there, back);
}
