//! Types that are known only from the function's return type.

use std::{fmt::Display, future::Future};

use zklock::{Body, LockError, zk_locked};

use crate::support::{pause, wait};

#[derive(Debug)]
enum ApiError {
    Lock(LockError),
    Text(String),
    Number(std::num::ParseIntError),
}

impl From<LockError> for ApiError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<String> for ApiError {
    fn from(error: String) -> Self {
        Self::Text(error)
    }
}

impl From<std::num::ParseIntError> for ApiError {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Number(error)
    }
}

type Answer<T, E = ApiError> = Result<T, E>;

#[zk_locked("question_mark")]
fn question_mark(text: &str) -> Answer<u8> {
    let number: u8 = text.parse()?;
    if number == 0 {
        Err("zero".to_owned())?;
    }
    Ok(number)
}

#[zk_locked("question_mark_async")]
async fn question_mark_async(text: &str) -> Answer<u8> {
    let number: u8 = text.parse()?;
    pause().await;
    if number == 0 {
        Err("zero".to_owned())?;
    }
    Ok(number)
}

#[zk_locked("collected")]
fn collected(text: &str) -> Answer<Vec<u8>> {
    text.split(',').map(|n| n.parse().map_err(Into::into)).collect()
}

#[zk_locked("collected_async")]
async fn collected_async(text: &str) -> Answer<Vec<u8>> {
    text.split(',').map(|n| n.parse().map_err(Into::into)).collect()
}

#[zk_locked("coerced")]
fn coerced(early: bool) -> Result<Box<dyn Fn() -> u8>, Box<dyn std::error::Error>> {
    if early {
        return Ok(Box::new(|| 1));
    }
    Ok(Box::new(|| 2))
}

#[zk_locked("coerced_async")]
async fn coerced_async(early: bool) -> Result<Box<dyn Fn() -> u8>, Box<dyn std::error::Error>> {
    if early {
        return Ok(Box::new(|| 1));
    }
    pause().await;
    Ok(Box::new(|| 2))
}

#[zk_locked("unfinished")]
fn unfinished() -> Answer<u8> {
    todo!()
}

#[zk_locked("unfinished_async")]
async fn unfinished_async() -> Answer<u8> {
    todo!()
}

#[zk_locked("endless")]
async fn endless() -> Answer<std::convert::Infallible> {
    loop {
        pause().await;
    }
}

/// What never returns, except for a failure of the lock, which ends it.
#[zk_locked("daemon", on_error = |error| panic!("{error}"))]
async fn daemon() -> ! {
    loop {
        pause().await;
    }
}

#[zk_locked("daemon_by_path", on_busy = |error| end(error), on_error = end)]
async fn daemon_by_path(mut code: u8) -> ! {
    loop {
        pause().await;
        code += 1;
        assert!(code < 9, "code {code}");
    }
}

#[zk_locked("daemon_plain", on_error = end)]
fn daemon_plain(code: u8) -> ! {
    panic!("code {code}")
}

#[allow(clippy::needless_pass_by_value)]
fn end(error: LockError) -> ! {
    panic!("{error}")
}

#[zk_locked("returning")]
#[allow(clippy::needless_return)]
fn returning() -> Answer<u8> {
    return Ok(1);
}

#[zk_locked("returning_async")]
#[allow(clippy::needless_return)]
async fn returning_async() -> Answer<u8> {
    return Ok(1);
}

#[zk_locked("nothing_known")]
async fn nothing_known<T: Default, E: From<LockError>>() -> Result<T, E> {
    Ok(Default::default())
}

#[zk_locked("items")]
fn items() -> Answer<Box<dyn Iterator<Item = impl Display>>> {
    Ok(Box::new([1, 2].into_iter()))
}

#[zk_locked("items_async")]
async fn items_async() -> Answer<Box<dyn Iterator<Item = impl Display>>> {
    Ok(Box::new([1, 2].into_iter()))
}

#[zk_locked("items_later")]
#[allow(clippy::manual_async_fn)]
fn items_later() -> impl Future<Output = Answer<Box<dyn Iterator<Item = impl Display>>>> {
    async { Ok(Box::new([1, 2].into_iter())) }
}

#[test]
fn what_is_opaque_in_a_trait_object_is_found_out() {
    let shown =
        [items().map(shown), wait(items_async()).map(shown), wait(items_later()).map(shown)];
    assert!(shown.into_iter().all(|items| items.unwrap() == "12"));
}

fn shown(items: Box<dyn Iterator<Item = impl Display>>) -> String {
    items.map(|item| item.to_string()).collect()
}

#[test]
fn results_keep_their_types() {
    assert_eq!(question_mark("7").unwrap(), 7);
    assert!(matches!(question_mark("0"), Err(ApiError::Text(text)) if text == "zero"));
    assert!(
        matches!(question_mark("x"), Err(ApiError::Number(error)) if error.to_string().contains("digit"))
    );
    assert_eq!(wait(question_mark_async("7")).unwrap(), 7);
    assert_eq!(collected("1,2").unwrap(), wait(collected_async("1,2")).unwrap());
    assert_eq!(coerced(true).unwrap()() + coerced(false).unwrap()(), 3);
    assert_eq!(wait(coerced_async(true)).unwrap()() + wait(coerced_async(false)).unwrap()(), 3);
    assert_eq!(returning().unwrap(), wait(returning_async()).unwrap());
    assert_eq!(wait(nothing_known::<u8, ApiError>()).unwrap(), 0);
    let unused = (unfinished, unfinished_async, endless);
    assert_eq!(size_of_val(&unused), 0);
}

#[test]
fn what_never_returns_takes_its_lock() {
    let said = |run: fn()| {
        let ended = std::panic::catch_unwind(run).unwrap_err();
        ended.downcast_ref::<String>().cloned().unwrap()
    };
    assert_eq!(said(|| daemon_plain(7)), "code 7");
    assert_eq!(zklock::events::take(), ["acquire daemon_plain", "release"]);
    assert_eq!(said(|| wait(daemon_by_path(7))), "code 9");
    assert_eq!(zklock::events::take(), ["wait", "acquire daemon_by_path", "release"]);
    zklock::events::next(zklock::events::Outcome::Busy);
    assert!(said(|| daemon_plain(7)).contains("daemon_plain"));
    zklock::events::next(zklock::events::Outcome::Busy);
    assert!(said(|| wait(daemon())).contains("daemon"));
}

#[test]
fn a_busy_lock_is_the_functions_own_error() {
    zklock::events::next(zklock::events::Outcome::Busy);
    assert!(matches!(question_mark("7"), Err(ApiError::Lock(error)) if error.is_busy()));
}

#[test]
fn a_lock_lost_during_a_plain_body_is_told_whatever_way_it_ended() {
    for text in ["7", "x", "0"] {
        zklock::events::next(zklock::events::Outcome::Lost);
        let lost = |error: &LockError| error.is_lost() && error.body() == Some(Body::Finished);
        assert!(matches!(question_mark(text), Err(ApiError::Lock(error)) if lost(&error)));
    }
}
