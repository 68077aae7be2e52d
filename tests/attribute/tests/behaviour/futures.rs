//! Plain functions that return a future: the guard is inside it.

#![allow(clippy::manual_async_fn)]

use std::{future::Future, pin::Pin, sync::Arc};

use zklock::{events, zk_locked};

use crate::support::{Locked, acquired, pause, wait};

#[zk_locked("opaque-{n}")]
fn opaque(n: u32) -> impl Future<Output = Locked<u32>> {
    events::record("made");
    async move {
        pause().await;
        Ok(n)
    }
}

#[zk_locked("pinned-{name}")]
fn pinned<'a>(name: &'a str) -> Pin<Box<dyn Future<Output = Locked<usize>> + Send + 'a>> {
    Box::pin(async move {
        pause().await;
        Ok(name.len())
    })
}

/// A future that no name betrays.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = Locked<T>> + Send>>;

#[zk_locked("alias")]
fn alias(n: u32) -> Boxed<u32> {
    let shown = move || n + 1;
    std::boxed::Box::pin(async move { Ok(shown()) })
}

#[zk_locked("borrowing")]
fn borrowing(text: &str) -> impl Future<Output = Locked<usize>> + '_ {
    async {
        let length = text.len();
        pause().await;
        let tried: Locked<usize> = async { Ok(length) }.await;
        let length = tried?;
        Ok(length)
    }
}

#[zk_locked("taken-{left}-{id}")]
fn taken_apart(
    (left, _): (String, String),
    [id, ..]: [u32; 2],
) -> impl Future<Output = Locked<usize>> {
    async move {
        pause().await;
        Ok(left.len())
    }
}

/// A variable that takes the name of a parameter, and its value.
#[allow(clippy::needless_pass_by_value, clippy::redundant_locals)]
#[zk_locked("copies/{id}/{name}/{shop}/{order}/{user}")]
fn copies(
    id: u64,
    name: &str,
    shop: impl Into<String>,
    order: Arc<str>,
    (user, _): (String, u8),
) -> impl Future<Output = Locked<usize>> {
    let id = id;
    let name = name.to_owned();
    let (order, user) = (Arc::clone(&order), user.clone());
    let shop: String = shop.into();
    async move { Ok(name.len() + shop.len() + order.len() + user.len() + usize::from(id > 0)) }
}

/// What an expression names may be a variable from before the block.
#[zk_locked("variables", key = lower)]
fn variables(name: &str) -> impl Future<Output = Locked<usize>> {
    let lower = name.to_lowercase();
    let name = name.trim().to_owned();
    async move { Ok(name.len()) }
}

#[async_trait::async_trait]
trait Service {
    async fn create(&self, order: String, mut n: u32) -> Locked<u32>;

    #[zk_locked("default-{order}")]
    async fn provided(&mut self, order: &str, _unused: Vec<u8>) -> Locked<usize> {
        pause().await;
        Ok(order.len())
    }
}

/// What is meant to run without the lock has a name that does not betray it.
type Later = Pin<Box<dyn Future<Output = u32>>>;

#[zk_locked("later")]
async fn later(n: u32) -> Locked<Later> {
    pause().await;
    Ok(Box::pin(async move {
        events::record("later");
        n
    }))
}

/// Their values may be there already.
#[zk_locked("values")]
async fn values(n: u32) -> Locked<impl Iterator<Item = u32>> {
    pause().await;
    Ok(vec![n].into_iter())
}

struct Handler {
    tenant: String,
}

#[async_trait::async_trait]
impl Service for Handler {
    #[zk_locked("create/{self.tenant}/{order}")]
    async fn create(&self, order: String, mut n: u32) -> Locked<u32> {
        n += 1;
        pause().await;
        if order.is_empty() {
            return Ok(0);
        }
        Ok(n + u32::from(self.tenant.is_empty()))
    }
}

#[test]
fn the_guard_is_inside_the_future() {
    let future = opaque(1);
    assert_eq!(events::take(), ["made"]);
    assert_eq!(wait(future).unwrap(), 1);
    assert_eq!(events::take(), ["wait", "acquire opaque-1", "release"]);
    assert_eq!(wait(pinned("abc")).unwrap(), 3);
    assert_eq!(wait(alias(1)).unwrap(), 2);
    assert_eq!(wait(borrowing("abc")).unwrap(), 3);
    assert_eq!(wait(taken_apart(("l".to_owned(), "r".to_owned()), [1, 2])).unwrap(), 1);
    assert_eq!(acquired(), ["pinned-abc", "alias", "borrowing", "taken-l-1"]);
}

#[test]
fn a_variable_before_the_block_may_have_the_name_of_a_parameter_and_its_value() {
    assert_eq!(wait(copies(1, "n", "s", "o".into(), ("u".to_owned(), 2))).unwrap(), 5);
    assert_eq!(wait(variables("A")).unwrap(), 1);
    assert_eq!(acquired(), ["copies/1/n/s/o/u", "variables/a"]);
}

#[test]
fn what_another_name_hides_runs_without_the_lock() {
    let later = wait(later(1)).unwrap();
    assert_eq!(wait(later), 1);
    assert_eq!(events::take(), ["wait", "acquire later", "release", "unawaited", "later"]);
    assert_eq!(wait(values(1)).unwrap().sum::<u32>(), 1);
}

#[test]
fn async_trait_methods_take_their_lock() {
    let mut handler = Handler { tenant: "t".to_owned() };
    assert_eq!(wait(handler.create("o1".to_owned(), 1)).unwrap(), 2);
    assert_eq!(wait(handler.provided("o2", vec![])).unwrap(), 2);
    assert_eq!(acquired(), ["create/t/o1", "default-o2"]);
}
