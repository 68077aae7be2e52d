//! The future is `Send` exactly when the body is.

use std::{cell::Cell, error::Error, fmt::Display, future::Future, pin::Pin, rc::Rc};

use zklock::{LockError, events, zk_locked};

use crate::support::{Locked, pause, wait};

fn is_send<T: Send>(_: &T) {}

struct Probe<'a, T>(#[allow(dead_code)] &'a T);

impl<T: Send> Probe<'_, T> {
    /// Shadows the method below for what is `Send`.
    #[allow(clippy::unused_self, dead_code)]
    fn sends(&self) -> bool {
        true
    }
}

trait Otherwise {
    fn sends(&self) -> bool {
        false
    }
}

impl<T> Otherwise for Probe<'_, T> {}

#[zk_locked("named-{id}-{text}")]
async fn named(id: u32, text: &str, values: Vec<u8>) -> Locked<usize> {
    pause().await;
    Ok(values.len() + text.len() + id as usize)
}

#[zk_locked("generic-{value}")]
async fn generic<T: Display + Send + Sync>(value: T) -> Locked<String> {
    pause().await;
    Ok(value.to_string())
}

/// Neither parameter is `Sync`; the name reads one of them before the wait.
#[zk_locked("cell-{name}")]
async fn not_sync(name: String, cell: Cell<u32>) -> Locked<u32> {
    cell.set(1);
    let cell = {
        pause().await;
        cell
    };
    Ok(cell.get() + u32::from(name.is_empty()))
}

struct NotSync(Cell<u32>);

impl Display for NotSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.get())
    }
}

#[zk_locked("{value}")]
async fn reads_not_sync(value: NotSync) -> Locked<u32> {
    pause().await;
    Ok(value.0.into_inner())
}

#[zk_locked("{value}")]
async fn not_send(value: Rc<str>) -> Locked<usize> {
    pause().await;
    Ok(value.len())
}

#[zk_locked("not_send_inside")]
async fn not_send_inside() -> Locked<usize> {
    let value = Rc::new(());
    pause().await;
    Ok(Rc::strong_count(&value))
}

#[zk_locked("not_send_before")]
async fn not_send_before() -> Locked<usize> {
    let count = Rc::strong_count(&Rc::new(()));
    pause().await;
    Ok(count)
}

#[zk_locked("{text}")]
#[allow(clippy::manual_async_fn)]
fn tail(text: String) -> impl Future<Output = Locked<usize>> {
    async move {
        pause().await;
        Ok(text.len())
    }
}

/// A result that is not `Send` on either side, and an error that is not.
type Shared<T> = Result<Rc<T>, LockError>;
type Failing<T> = Result<T, Box<dyn Error>>;
type Sending<T> = Pin<Box<dyn Future<Output = Failing<T>> + Send>>;

#[zk_locked("failing-{n}")]
async fn failing(n: u32) -> Failing<u32> {
    pause().await;
    if n == 0 { Err("nothing".into()) } else { Ok(n) }
}

#[zk_locked("shared")]
async fn shared() -> Shared<u32> {
    pause().await;
    Ok(Rc::new(1))
}

#[zk_locked("failing_inside")]
async fn failing_inside() -> Failing<usize> {
    let value = Rc::new(());
    pause().await;
    Ok(Rc::strong_count(&value))
}

#[zk_locked("opaque")]
async fn opaque() -> Result<impl Display, Box<dyn Error>> {
    pause().await;
    Ok(1)
}

#[zk_locked("opaque_shared")]
async fn opaque_shared() -> Result<impl Display, Box<dyn Error>> {
    pause().await;
    Ok(Rc::new(1))
}

/// Behind `impl Iterator` the closure is asked whether it is `Send` before that is known, and refused.
#[zk_locked("boxed values")]
async fn boxed_values() -> Locked<Box<dyn Iterator<Item = u64>>> {
    pause().await;
    let one = Rc::new(1);
    Ok(Box::new([1, 2].into_iter().map(move |value| value + *one)))
}

#[zk_locked("skipping", on_busy = skip)]
async fn skipping() -> Option<Rc<u32>> {
    pause().await;
    Some(Rc::new(1))
}

/// Whether a parameter of a type is `Send` is not known here.
#[zk_locked("made")]
async fn made<T: Default>() -> Locked<T> {
    pause().await;
    Ok(T::default())
}

#[zk_locked("made_to_send")]
async fn made_to_send<T: Default + Send>() -> Failing<T> {
    pause().await;
    Ok(T::default())
}

#[zk_locked("borrowed")]
async fn borrowed<'a>(text: &'a str, _: &mut u32) -> Result<&'a str, Box<dyn Error + 'a>> {
    pause().await;
    text.get(1..).ok_or_else(|| text.into())
}

#[zk_locked("boxed")]
fn boxed(n: u32) -> Pin<Box<dyn Future<Output = Failing<u32>> + Send>> {
    Box::pin(async move {
        pause().await;
        Ok(n)
    })
}

/// What it resolves to stands elsewhere.
#[zk_locked("alias")]
fn alias(n: u32) -> Sending<u32> {
    Box::pin(async move {
        pause().await;
        Ok(n)
    })
}

struct Handler;

impl Handler {
    #[zk_locked("method")]
    async fn method(&mut self, n: u32) -> Failing<u32> {
        pause().await;
        Ok(n)
    }
}

#[async_trait::async_trait]
trait Service {
    async fn create(&self, n: u32) -> Failing<u32>;
    async fn share(&self) -> Shared<u32>;
}

// That these compile says that the futures are `Send`.
#[async_trait::async_trait]
impl Service for Handler {
    #[zk_locked("create")]
    async fn create(&self, n: u32) -> Failing<u32> {
        pause().await;
        Ok(n)
    }

    #[zk_locked("share")]
    async fn share(&self) -> Shared<u32> {
        pause().await;
        Ok(Rc::new(1))
    }
}

#[test]
fn the_future_is_send_whatever_its_result_is() {
    is_send(&failing(1));
    is_send(&shared());
    is_send(&opaque());
    is_send(&opaque_shared());
    is_send(&boxed_values());
    is_send(&skipping());
    is_send(&made::<Rc<u32>>());
    is_send(&made_to_send::<u32>());
    is_send(&borrowed("", &mut 0));
    is_send(&boxed(1));
    is_send(&alias(1));
    is_send(&Handler.method(1));
    is_send(&async { failing(1).await.is_ok() });
    assert!(!Probe(&failing_inside()).sends());
}

#[test]
fn as_much_of_a_result_as_is_send_waits_for_the_release() {
    let waits = |result: bool| {
        assert!(result);
        !events::take().contains(&"unawaited".to_owned())
    };
    assert!(waits(wait(failing(1)).is_ok()));
    assert!(!waits(wait(failing(0)).is_err()));
    assert!(waits(wait(named(1, "x", vec![])).is_ok()));
    assert!(waits(wait(opaque()).is_ok()));
    assert!(!waits(wait(opaque_shared()).is_ok()));
    assert!(!waits(wait(boxed_values()).is_ok_and(|values| values.sum::<u64>() == 5)));
    assert!(!waits(wait(shared()).is_ok()));
    assert!(!waits(wait(skipping()).is_some()));
    assert!(!waits(wait(made::<u32>()).is_ok()));
    assert!(waits(wait(made_to_send::<u32>()).is_ok()));
    assert!(waits(wait(borrowed("ab", &mut 0)).is_ok()));
    assert!(waits(wait(alias(1)).is_ok()));
    assert!(waits(wait(Handler.create(1)).is_ok()));
    assert!(!waits(wait(Handler.share()).is_ok()));
}

#[test]
fn the_future_is_send_when_the_body_is() {
    is_send(&named(1, "", vec![]));
    is_send(&generic(1));
    is_send(&not_sync(String::new(), Cell::new(1)));
    is_send(&reads_not_sync(NotSync(Cell::new(1))));
    is_send(&not_send_before());
    is_send(&tail(String::new()));
}

#[test]
fn the_future_is_not_send_when_the_body_is_not() {
    assert!(Probe(&not_send_before()).sends());
    assert!(!Probe(&not_send("".into())).sends());
    assert!(!Probe(&not_send_inside()).sends());
}
