//! The future is `Send` exactly when the body is.

use std::{cell::Cell, fmt::Display, future::Future, rc::Rc};

use zklock::zk_locked;

use crate::support::{Locked, pause};

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
