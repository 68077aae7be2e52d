//! Options that choose what is done: when the lock is busy, when there is no need for it.

use zklock::{
    LockError,
    events::{self, Outcome},
    zk_locked,
};

use crate::support::{Locked, acquired, pause, wait};

#[zk_locked("nothing", on_busy = skip)]
async fn nothing() {
    pause().await;
    events::record("ran");
}

#[zk_locked("nothing_sync", on_busy = skip)]
fn nothing_sync() {
    events::record("ran");
}

#[zk_locked("optional", on_busy = skip)]
async fn optional() -> Option<u32> {
    pause().await;
    Some(1)
}

#[zk_locked("optional_sync", on_busy = skip)]
fn optional_sync() -> std::option::Option<u32> {
    Some(1)
}

#[zk_locked("unit", on_busy = skip)]
async fn unit() -> Result<(), String> {
    pause().await;
    Ok(())
}

#[zk_locked("maybe", on_busy = skip)]
async fn maybe() -> Result<Option<u32>, String> {
    pause().await;
    Ok(Some(1))
}

#[zk_locked("boxed", on_busy = skip)]
fn boxed() -> crate::futures::Boxed<Option<u32>> {
    Box::pin(async { Ok(Some(1)) })
}

#[zk_locked("early", on_busy = skip)]
async fn early(stop: bool) {
    if stop {
        return;
    }
    pause().await;
    events::record("ran");
}

#[test]
fn a_busy_lock_is_skipped_where_there_is_a_nothing() {
    let busy = || events::next(Outcome::Busy);
    busy();
    wait(nothing());
    busy();
    nothing_sync();
    assert_eq!(events::take(), ["wait", "skipped", "skipped"]);
    busy();
    assert_eq!(wait(optional()), None);
    busy();
    assert_eq!(optional_sync(), None);
    busy();
    assert_eq!(wait(unit()), Ok(()));
    busy();
    assert_eq!(wait(maybe()), Ok(None));
    busy();
    assert_eq!(wait(boxed()), Ok(None));
    busy();
    wait(early(false));
    assert!(acquired().is_empty());
    wait(early(true));
    wait(nothing());
    nothing_sync();
    assert_eq!(wait(optional()).or(optional_sync()), Some(1));
    assert_eq!(wait(unit()), Ok(()));
    assert_eq!(wait(maybe()), wait(boxed()).map_err(|error| error.to_string()));
    assert_eq!(acquired().len(), 8);
}

#[test]
fn a_failure_that_is_not_busy_is_never_a_nothing_that_could_be_told() {
    let fails = || events::next(Outcome::Unavailable);
    fails();
    assert!(wait(unit()).is_err());
    fails();
    assert!(wait(maybe()).is_err());
    fails();
    assert_eq!(wait(optional()), None);
    fails();
    nothing_sync();
    let expected = [
        "wait",
        "wait",
        "wait",
        "swallowed optional cannot be asked for",
        "swallowed nothing_sync cannot be asked for",
    ];
    assert_eq!(events::take(), expected);
}

/// What a handler that knows no `Result` answers.
#[derive(Debug, PartialEq)]
enum Status {
    Done(usize),
    Busy,
    Failed(String),
}

impl Status {
    #[allow(clippy::needless_pass_by_value)]
    fn failed(error: LockError) -> Self {
        if error.is_busy() { Self::Busy } else { Self::Failed(error.to_string()) }
    }
}

#[zk_locked("by_path", on_error = Status::failed)]
async fn by_path(text: String) -> Status {
    pause().await;
    Status::Done(text.len())
}

#[zk_locked("by_both", on_busy = |_| Status::Busy, on_error = |error| Status::Failed(error.to_string()))]
fn by_both(text: &str) -> Status {
    Status::Done(text.len())
}

#[zk_locked("busy by path", on_busy = busy)]
async fn busy_by_path() -> Locked<usize> {
    pause().await;
    Ok(1)
}

#[allow(clippy::needless_pass_by_value)]
fn busy(error: LockError) -> Locked<usize> {
    Ok(error.to_string().len())
}

#[zk_locked("own busy", on_busy = |error| Ok(error.to_string()))]
async fn own_busy() -> Locked<String> {
    pause().await;
    Err(LockError::Busy("inside".to_owned()))
}

#[zk_locked("opaque", on_error = |error| error.to_string())]
async fn opaque() -> impl std::fmt::Display {
    pause().await;
    "done".to_owned()
}

struct Cache(usize);

impl Cache {
    #[zk_locked("cached", on_busy = |_| Ok(self.0))]
    async fn cached(&self, fresh: usize) -> Locked<usize> {
        pause().await;
        Ok(fresh)
    }

    #[zk_locked("cached_sync", on_busy = |_| Ok(self.0))]
    fn cached_sync(&self, fresh: usize) -> Locked<usize> {
        Ok(fresh)
    }
}

#[async_trait::async_trait]
trait Source {
    async fn fetch(&self, fresh: String) -> usize;
}

#[async_trait::async_trait]
impl Source for Cache {
    #[zk_locked("fetched", key = fresh, on_busy = |_| self.0, on_error = |error| error.to_string().len())]
    async fn fetch(&self, fresh: String) -> usize {
        pause().await;
        fresh.len()
    }
}

#[test]
fn handlers_of_async_trait_methods_see_self() {
    let fetch = |outcome| {
        events::next(outcome);
        wait(Cache(1).fetch("fresh".to_owned()))
    };
    assert_eq!([fetch(Outcome::Granted), fetch(Outcome::Busy)], [5, 1]);
    assert!(fetch(Outcome::Unavailable) > 5);
    assert_eq!(acquired(), ["fetched/fresh"]);
}

#[test]
fn failures_become_what_the_handlers_make_of_them() {
    for (outcome, expected) in [
        (Outcome::Granted, Status::Done(3)),
        (Outcome::Busy, Status::Busy),
        (Outcome::Unavailable, Status::Failed("by_path cannot be asked for".to_owned())),
        (Outcome::Lost, Status::Failed("by_path was lost".to_owned())),
    ] {
        events::next(outcome);
        assert_eq!(wait(by_path("abc".to_owned())), expected);
        events::next(outcome);
        let both = by_both("abc");
        assert_eq!(std::mem::discriminant(&both), std::mem::discriminant(&expected));
    }
    events::next(Outcome::Busy);
    assert_eq!(wait(busy_by_path()), Ok("busy by path is being processed".len()));
    events::next(Outcome::Unavailable);
    assert!(wait(busy_by_path()).is_err());
    events::next(Outcome::Busy);
    assert_eq!(wait(opaque()).to_string(), "opaque is being processed");
    events::next(Outcome::Busy);
    assert_eq!(wait(Cache(1).cached(2)), Ok(1));
    events::next(Outcome::Busy);
    assert_eq!(Cache(1).cached_sync(2), Ok(1));
    assert_eq!(wait(Cache(1).cached(2)), Ok(2));
}

#[test]
fn an_error_of_the_body_is_not_the_locks() {
    assert_eq!(wait(own_busy()), Err(LockError::Busy("inside".to_owned())));
    events::next(Outcome::Busy);
    assert_eq!(wait(own_busy()), Ok("own busy is being processed".to_owned()));
}

#[zk_locked("order-{id}", condition = id > 0 && amount != 0)]
async fn conditional(id: u32, amount: u32) -> Locked<u32> {
    pause().await;
    Ok(id + amount)
}

#[zk_locked("order", key = id.unwrap(), condition = id.is_some())]
fn conditional_key(id: Option<u32>) -> Locked<u32> {
    Ok(id.unwrap_or_default())
}

#[test]
fn without_its_condition_a_body_runs_without_the_lock() {
    assert_eq!(wait(conditional(1, 2)), Ok(3));
    assert_eq!(events::take(), ["wait", "acquire order-1", "release"]);
    assert_eq!(wait(conditional(0, 2)), Ok(2));
    assert_eq!(conditional_key(None), Ok(0));
    assert_eq!(events::take(), ["without", "without"]);
    assert_eq!(conditional_key(Some(7)), Ok(7));
    assert_eq!(events::take(), ["acquire order/7", "release"]);
}
