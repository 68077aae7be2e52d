//! Options that choose what is done: when the lock is busy, when there is no need for it.

use zklock::{
    ErrorKind, LockError,
    events::{self, Outcome},
    zk_locked,
};

use crate::support::{Locked, Text, acquired, failure, pause, wait};

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
async fn unit() -> Result<(), Text> {
    pause().await;
    Ok(())
}

#[zk_locked("maybe", on_busy = skip)]
async fn maybe() -> Result<Option<u32>, Text> {
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
    assert_eq!(events::take(), ["wait"]);
    busy();
    assert_eq!(wait(optional()), None);
    busy();
    assert_eq!(optional_sync(), None);
    busy();
    assert_eq!(wait(unit()).unwrap(), ());
    busy();
    assert_eq!(wait(maybe()).unwrap(), None);
    busy();
    assert_eq!(wait(boxed()).unwrap(), None);
    busy();
    wait(early(false));
    assert!(acquired().is_empty());
    wait(early(true));
    wait(nothing());
    nothing_sync();
    assert_eq!(wait(optional()).or(optional_sync()), Some(1));
    assert_eq!(wait(unit()).unwrap(), ());
    assert_eq!(wait(maybe()), wait(boxed()).map_err(Text::from));
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
    assert_eq!(events::take(), ["wait"; 3]);
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
    Err(failure())
}

/// A handler may use the name of a part for something else, and what a pattern binds as a whole.
#[zk_locked(
    "named {id} {part}",
    on_busy = |error| Ok(format!("{error:.4} of part {{part}} in {}", { let part = id; part + 1 })),
    map_err = |part| format!("part {part}, {:?}", Some(1).map(|part| part + id)),
)]
fn named((id, _rest): (u32, String), (part, _): (u32, String)) -> Result<String, String> {
    Ok(format!("{id}{part}"))
}

/// A function has the name of a part.
#[zk_locked("called", on_busy = busy, on_error = |error| busy(error).map(|length| length + 1))]
async fn called((busy, _): (u32, String)) -> Locked<usize> {
    pause().await;
    Ok(busy as usize)
}

#[test]
fn a_handler_names_what_it_can_see() {
    events::next(Outcome::Busy);
    let said = named((7, String::new()), (8, String::new())).unwrap();
    assert!(said.ends_with("of part {part} in 8"), "{said}");
    events::next(Outcome::Unavailable);
    let said = named((7, String::new()), (8, String::new())).unwrap_err();
    assert!(said.starts_with("part ") && said.ends_with("Some(8)"), "{said}");
    events::next(Outcome::Busy);
    assert!(wait(called((1, String::new()))).unwrap() > 1);
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
        (Outcome::Unavailable, Status::Failed(String::new())),
        (Outcome::Lost, Status::Failed(String::new())),
    ] {
        events::next(outcome);
        let path = wait(by_path("abc".to_owned()));
        events::next(outcome);
        for answer in [path, by_both("abc")] {
            assert_eq!(std::mem::discriminant(&answer), std::mem::discriminant(&expected));
        }
    }
    events::next(Outcome::Busy);
    assert_eq!(wait(busy_by_path()).unwrap(), "busy by path is being processed".len());
    events::next(Outcome::Unavailable);
    assert!(wait(busy_by_path()).is_err());
    events::next(Outcome::Busy);
    assert_eq!(wait(opaque()).to_string(), "opaque is being processed");
    events::next(Outcome::Busy);
    assert_eq!(wait(Cache(1).cached(2)).unwrap(), 1);
    events::next(Outcome::Busy);
    assert_eq!(Cache(1).cached_sync(2).unwrap(), 1);
    assert_eq!(wait(Cache(1).cached(2)).unwrap(), 2);
}

/// An error that knows no `From<LockError>`.
#[derive(Debug)]
enum ApiError {
    Lock(LockError),
    Busy,
    Own,
}

type Answer<T> = Result<T, ApiError>;

#[zk_locked("mapped", map_err = ApiError::Lock)]
async fn mapped(own: bool) -> Result<u32, ApiError> {
    pause().await;
    if own { Err(ApiError::Own) } else { Ok(1) }
}

#[zk_locked("mapped_sync", map_err = |error| if error.is_busy() { ApiError::Busy } else { ApiError::Lock(error) })]
fn mapped_sync(own: bool) -> Answer<u32> {
    Err(ApiError::Own).or(if own { Err(ApiError::Own) } else { Ok(1) })
}

#[zk_locked("mapped_into", map_err = Into::into)]
async fn mapped_into(own: bool) -> Result<u32, Text> {
    pause().await;
    if own { Err(Text("own".to_owned())) } else { Ok(1) }
}

#[zk_locked("mapped_boxed", map_err = Box::new)]
async fn mapped_boxed(own: bool) -> Result<u32, Box<dyn std::error::Error + Send>> {
    pause().await;
    if own { Err(Box::new(std::fmt::Error)) } else { Ok(1) }
}

#[zk_locked("mapped_tail", map_err = ApiError::Lock)]
fn mapped_tail(
    own: bool,
) -> std::pin::Pin<Box<dyn std::future::Future<Output = Answer<u32>> + Send>> {
    Box::pin(async move { if own { Err(ApiError::Own) } else { Ok(1) } })
}

#[zk_locked("skipped_or_mapped", on_busy = skip, map_err = ApiError::Lock)]
async fn skipped_or_mapped() -> Answer<Option<u32>> {
    pause().await;
    Ok(Some(1))
}

#[zk_locked("skipped_or_handled", on_busy = skip, on_error = |error| Err(ApiError::Lock(error)))]
fn skipped_or_handled() -> Answer<()> {
    Ok(())
}

#[zk_locked("handled_or_mapped", on_busy = |_| Ok(0), map_err = ApiError::Lock)]
fn handled_or_mapped() -> Answer<u32> {
    Ok(1)
}

fn unavailable<T>(answer: Answer<T>) -> bool {
    matches!(answer, Err(ApiError::Lock(error)) if error.kind() == ErrorKind::Unavailable)
}

#[test]
fn a_failure_of_the_lock_becomes_the_functions_own_error() {
    let fails = || events::next(Outcome::Unavailable);
    let busy = || events::next(Outcome::Busy);
    fails();
    assert!(unavailable(wait(mapped(false))));
    fails();
    assert!(unavailable(mapped_sync(false)));
    busy();
    assert!(matches!(mapped_sync(false), Err(ApiError::Busy)));
    fails();
    assert!(wait(mapped_into(false)).unwrap_err().0.contains("mapped_into"));
    fails();
    let boxed = wait(mapped_boxed(false)).unwrap_err();
    assert!(boxed.to_string().contains("mapped_boxed"), "{boxed}");
    fails();
    assert!(unavailable(wait(mapped_tail(false))));
    assert!(acquired().is_empty());
    assert!(matches!(wait(mapped(true)), Err(ApiError::Own)));
    assert!(matches!(mapped_sync(true), Err(ApiError::Own)));
    assert!(matches!(wait(mapped_tail(true)), Err(ApiError::Own)));
    assert_eq!(wait(mapped(false)).or(mapped_sync(false)).unwrap(), 1);
}

#[test]
fn a_busy_lock_has_an_answer_of_its_own_beside_a_mapped_error() {
    events::next(Outcome::Busy);
    assert_eq!(wait(skipped_or_mapped()).unwrap(), None);
    events::next(Outcome::Busy);
    assert_eq!(skipped_or_handled().unwrap(), ());
    events::next(Outcome::Busy);
    assert_eq!(handled_or_mapped().unwrap(), 0);
    assert!(acquired().is_empty());
    events::next(Outcome::Unavailable);
    assert!(unavailable(wait(skipped_or_mapped())));
    events::next(Outcome::Unavailable);
    assert!(unavailable(skipped_or_handled()));
    events::next(Outcome::Unavailable);
    assert!(unavailable(handled_or_mapped()));
}

#[test]
fn an_error_of_the_body_is_not_the_locks() {
    assert_eq!(wait(own_busy()).unwrap_err().kind(), ErrorKind::InvalidName);
    events::next(Outcome::Busy);
    assert_eq!(wait(own_busy()).unwrap(), "own busy is being processed".to_owned());
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
    assert_eq!(wait(conditional(1, 2)).unwrap(), 3);
    assert_eq!(events::take(), ["wait", "acquire order-1", "release"]);
    assert_eq!(wait(conditional(0, 2)).unwrap(), 2);
    assert_eq!(conditional_key(None).unwrap(), 0);
    assert_eq!(events::take(), ["without", "without"]);
    assert_eq!(conditional_key(Some(7)).unwrap(), 7);
    assert_eq!(events::take(), ["acquire order/7", "release"]);
}
