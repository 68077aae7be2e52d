use std::{pin::Pin, task::Poll};

use zklock::{LockError, zk_locked};

trait Stream {
    type Item;
}
impl<T> Stream for Vec<T> {
    type Item = T;
}
struct Sse<S>(S);
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type BoxStream<'a, T> = Pin<Box<dyn Stream<Item = T> + Send + 'a>>;

#[zk_locked("order", on_error = |_| async {})]
async fn bare() -> impl Future<Output = ()> {
    async {}
}

#[zk_locked("order")]
async fn in_a_result() -> Result<BoxFuture<'static, u32>, LockError> {
    Ok(Box::pin(async { 1 }))
}

#[zk_locked("order")]
async fn in_an_option() -> Result<Option<BoxStream<'static, u32>>, LockError> {
    Ok(None)
}

#[zk_locked("order")]
async fn in_a_tuple() -> Result<(u32, impl Stream<Item = u32>), LockError> {
    Ok((1, vec![1]))
}

#[zk_locked("order")]
async fn in_a_poll() -> Result<Poll<Box<dyn Stream<Item = u32>>>, LockError> {
    Ok(Poll::Pending)
}

#[zk_locked("order")]
async fn in_a_response() -> Result<Sse<impl Stream<Item = u32>>, LockError> {
    Ok(Sse(vec![1]))
}

#[zk_locked("order")]
async fn in_an_iterator() -> Result<impl Iterator<Item = BoxFuture<'static, ()>>, LockError> {
    Ok(std::iter::empty())
}

#[zk_locked("order")]
async fn in_an_array() -> Result<[std::pin::Pin<Box<dyn core::future::Future<Output = ()>>>; 0], LockError> {
    Ok([])
}

#[zk_locked("order")]
async fn of_a_closure() -> Result<Box<dyn Fn() -> BoxFuture<'static, u32>>, LockError> {
    Ok(Box::new(|| Box::pin(async { 1 })))
}

#[zk_locked("order")]
async fn of_an_async_closure() -> Result<impl AsyncFn() -> u32, LockError> {
    Ok(async || 1)
}

#[zk_locked("order")]
fn of_a_pointer() -> Result<fn() -> BoxFuture<'static, u32>, LockError> {
    Ok(|| Box::pin(async { 1 }))
}

#[zk_locked("order")]
fn of_a_plain_function() -> Result<impl Stream<Item = u32>, LockError> {
    Ok(vec![1])
}

#[zk_locked("order")]
fn at_the_end_of_a_future() -> impl Future<Output = Result<BoxStream<'static, u32>, LockError>> {
    async move { Ok(Box::pin(vec![1_u32]) as _) }
}

trait Service {
    async fn create(&self) -> Result<BoxFuture<'static, u32>, LockError>;
}

impl Service for u32 {
    #[zk_locked("order")]
    async fn create(&self) -> Result<BoxFuture<'static, u32>, LockError> {
        Ok(Box::pin(async { 1 }))
    }
}

#[async_trait::async_trait]
trait Boxed {
    async fn create(&self) -> Result<BoxFuture<'static, u32>, LockError>;
}

#[async_trait::async_trait]
impl Boxed for u32 {
    #[zk_locked("order")]
    async fn create(&self) -> Result<BoxFuture<'static, u32>, LockError> {
        Ok(Box::pin(async { 1 }))
    }
}

trait Tower {
    type Future;
    fn call(&mut self) -> Self::Future;
}

impl Tower for u32 {
    type Future = BoxFuture<'static, Result<u32, LockError>>;

    #[zk_locked("order", on_error = |error| Box::pin(async { Err(error) }))]
    fn call(&mut self) -> Self::Future {
        let later = Box::pin(async { Ok(1) });
        later
    }
}

fn main() {}
