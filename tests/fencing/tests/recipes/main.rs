//! The recipes of docs/recipes.md that have a database, on a real one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod database;

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use zklock::testing::TestLocks;
use zklock::{LockError, zk_locked};

use self::database::Pool;

#[zk_locked("orders/number", on_lost = finish)]
async fn next_number(pool: &Pool) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let mut transaction = pool.begin().await?;
    let number = transaction.last().await? + 1;
    transaction.insert(number).await?;
    if !zklock::current().is_valid() {
        return Err("the lock was lost".into());
    }
    transaction.commit().await?;
    Ok(number)
}

type Anything = Box<dyn std::error::Error + Send + Sync>;

#[zk_locked("payments/{id}", on_lost = finish)]
async fn pay(pool: &Pool, id: u64) -> Result<(), Anything> {
    if pool.contains(id).await? {
        return Ok(());
    }
    let mut transaction = pool.begin().await?;
    transaction.insert(id).await?;
    if !zklock::current().is_valid() {
        return Err("the lock was lost".into());
    }
    transaction.commit().await?;
    Ok(())
}

#[zk_locked("accounts/{account}", on_lost = finish)]
async fn book(pool: &Pool, account: u64, entry: u64) -> Result<(), Anything> {
    let token = zklock::current().fencing_token().ok_or("the lock is not held")?;
    let mut transaction = pool.begin().await?;
    if !transaction.raise_fence(account, &token.to_bytes()).await? {
        return Err("a later holder has written".into());
    }
    transaction.insert(entry).await?;
    transaction.commit().await?;
    Ok(())
}

#[test]
fn the_page_shows_the_same() {
    let (page, here) = (include_str!("../../../../docs/recipes.md"), include_str!("main.rs"));
    let functions = here.split("\n\n").filter(|item| item.starts_with("#[zk_locked("));
    let missing: Vec<_> = functions.clone().filter(|text| !page.contains(text.trim())).collect();
    assert_eq!((functions.count(), missing), (3, vec![]));
}

/// Polls that many times. More polls than there are awaits reach the end.
fn poll<F: Future>(mut future: Pin<&mut F>, times: usize) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}

/// From 1, without gaps, each once.
fn assert_counted(pool: &Pool) {
    let rows = pool.rows();
    assert_eq!(rows, (1..=rows.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_tasks_count_without_gaps_though_some_are_cancelled() {
    let _locks = TestLocks::install();
    let pool = Pool::new();
    let tasks: Vec<_> = (0..8)
        .map(|task: usize| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let mut told = Vec::new();
                for call in 0..20 {
                    let mut number = pin!(next_number(&pool));
                    match poll(number.as_mut(), (task + call) % 9) {
                        Some(number) => told.push(number.unwrap()),
                        // As if its process had gone.
                        None if call % 2 == 0 => {}
                        None => told.push(number.await.unwrap()),
                    }
                }
                told
            })
        })
        .collect();
    let mut told = Vec::new();
    for task in tasks {
        told.extend(task.await.unwrap());
    }
    assert_counted(&pool);
    assert_eq!(pool.overlapped(), 0, "a commit came after the release");
    assert!(told.len() >= 80);
    told.sort_unstable();
    assert!(told.windows(2).all(|two| two[0] < two[1]), "no number was given twice");
    assert!(told.last().is_some_and(|last| *last <= pool.rows().len() as u64));
}

#[tokio::test]
async fn a_crash_at_any_await_costs_no_number() {
    let _locks = TestLocks::install();
    let pool = Pool::new();
    let (mut polls, mut counted) = (0, 0);
    let mut rolled_back = 0;
    loop {
        let whole = poll(pin!(next_number(&pool)), polls).is_some();
        assert_counted(&pool);
        let rows = pool.rows().len() as u64;
        rolled_back += usize::from(rows == counted);
        counted = next_number(&pool).await.unwrap();
        assert_eq!(counted, rows + 1);
        if whole {
            break;
        }
        polls += 1;
    }
    assert!(rolled_back >= 5, "{rolled_back}");
    assert_eq!(pool.overlapped(), 0);
}

/// Whoever lost the lock may still be there when the next one comes.
#[tokio::test]
async fn a_lock_lost_at_any_await_costs_no_number() {
    let locks = TestLocks::install();
    let pool = Pool::new();
    let (mut refused, mut late) = (0, 0);
    for polls in 0.. {
        let mut number = pin!(next_number(&pool));
        let early = poll(number.as_mut(), polls);
        let whole = early.is_some();
        let before = pool.rows().len();
        locks.lose();
        // The database may refuse it as long as the other is at work.
        let next = tokio::spawn({
            let pool = pool.clone();
            async move { next_number(&pool).await.ok() }
        });
        let next = next.await.unwrap();
        let number = match early {
            Some(number) => Some(number.unwrap()),
            None => match number.await {
                Ok(number) => Some(number),
                Err(error) => {
                    let lost = error.downcast_ref::<LockError>().is_some_and(LockError::is_lost);
                    refused += usize::from(lost);
                    None
                }
            },
        };
        assert_counted(&pool);
        let last = pool.rows().len() as u64;
        let told = usize::from(next.is_some()) + usize::from(number.is_some() && !whole);
        late += pool.rows().len() - before - told;
        assert!(number.is_none() || number != next);
        assert!([number, next].into_iter().flatten().all(|told| told <= last));
        assert_eq!(next_number(&pool).await.unwrap(), last + 1);
        if whole {
            break;
        }
    }
    assert!(refused >= 3, "{refused}");
    assert_eq!(late, 1, "lost between the question and the commit, and written");
}

#[tokio::test]
async fn a_payment_is_made_once_whatever_becomes_of_the_attempts() {
    let locks = TestLocks::install();
    let pool = Pool::new();
    for polls in 0..12 {
        let payment = polls as u64;
        drop(poll(pin!(pay(&pool, payment)), polls));
        let mut lost = pin!(pay(&pool, payment));
        let early = poll(lost.as_mut(), polls);
        locks.lose();
        if early.is_none() {
            drop(lost.await);
        }
        pay(&pool, payment).await.unwrap();
        assert_eq!(pool.rows(), (0..=payment).collect::<Vec<_>>());
    }
    let again = (0..10).map(|_| {
        tokio::spawn({
            let pool = pool.clone();
            async move { pay(&pool, 99).await.unwrap() }
        })
    });
    for attempt in again.collect::<Vec<_>>() {
        attempt.await.unwrap();
    }
    assert_eq!(pool.rows().iter().filter(|row| **row == 99).count(), 1);
}

/// The first loses the lock at each of its awaits in turn, a second one writes, and the first goes on.
#[tokio::test]
async fn nothing_is_written_after_a_later_holder_has_written() {
    let locks = TestLocks::install();
    let (mut refused, mut late) = (0, 0);
    for polls in 0.. {
        let pool = Pool::new();
        let mut first = pin!(book(&pool, 7, 1));
        let early = poll(first.as_mut(), polls);
        locks.lose();
        // The database may refuse it as long as the other is at work.
        let second = tokio::spawn({
            let pool = pool.clone();
            async move { book(&pool, 7, 2).await.is_ok() }
        });
        let second = second.await.unwrap();
        let whole = early.is_some();
        if !whole && first.await.is_ok() {
            // It had not begun: its grant is the later one.
            assert_eq!(pool.rows(), [2, 1]);
            continue;
        }
        let rows = pool.rows();
        assert_eq!(rows.contains(&2), second);
        assert!(!second || rows.last() == Some(&2), "{polls}: {rows:?}");
        refused += usize::from(rows == [2]);
        late += usize::from(rows == [1] && !whole);
        if whole {
            break;
        }
    }
    assert!(refused >= 2 && late >= 1, "{refused} refused, {late} before the other");
}
