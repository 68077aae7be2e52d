//! A guarded function goes wherever its body could go, whatever it returns, and weighs little more.

use std::error::Error;
use std::rc::Rc;

use tokio::task::yield_now;
use zklock::testing::TestLocks;
use zklock::{LockError, zk_locked};

async fn bare(bytes: [u8; 4000]) -> usize {
    yield_now().await;
    bytes.len()
}

#[zk_locked("weight")]
async fn weight(bytes: [u8; 4000]) -> Result<usize, LockError> {
    yield_now().await;
    Ok(bytes.len())
}

#[test]
fn the_future_of_a_function_holds_its_body_once() {
    // The compiler itself holds a parameter twice, here as there.
    let (bare, guarded) = (size_of_val(&bare([0; 4000])), size_of_val(&weight([0; 4000])));
    assert!(guarded < bare + 4000 + 1500, "{guarded} bytes, and {bare} without a lock");
}

#[zk_locked("small")]
async fn small(n: u64) -> Result<u64, LockError> {
    Ok(n + 1)
}

#[test]
fn the_future_of_a_small_function_is_small() {
    assert!(size_of_val(&small(1)) <= 216, "{} bytes", size_of_val(&small(1)));
}

#[zk_locked("failing")]
async fn failing(n: u32) -> Result<u32, Box<dyn Error>> {
    yield_now().await;
    if n == 0 { Err("nothing to do".into()) } else { Ok(n) }
}

#[zk_locked("accounts", key = n, key = n + 1)]
async fn both(n: u32) -> Result<Rc<u32>, LockError> {
    yield_now().await;
    Ok(Rc::new(n))
}

#[tokio::test]
async fn what_its_result_is_keeps_no_function_from_being_spawned() {
    let locks = TestLocks::install();
    let call = async |n| match failing(n).await {
        Ok(n) => Ok(n),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!(tokio::spawn(async move { call(1).await }).await.unwrap(), Ok(1));
    let refused = tokio::spawn(async move { call(0).await }).await.unwrap();
    assert_eq!(refused, Err("nothing to do".to_owned()));
    assert_eq!(tokio::spawn(async { both(1).await.map(|n| *n).ok() }).await.unwrap(), Some(1));
    // What did not wait for its release was released.
    for name in ["failing", "accounts/1", "accounts/2"] {
        locks.assert_taken(name);
        let mutex = locks.session().mutex(name).unwrap();
        drop(mutex.acquire().await.unwrap());
    }
}
