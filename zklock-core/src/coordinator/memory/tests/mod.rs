mod faults;
mod late;
mod store;
mod time;
mod wakers;

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_lite::future::block_on;

use super::Embedded;
use crate::coordinator::connector::Connector;
use crate::coordinator::node::NodeKind;
use crate::coordinator::requests::Coordinator;

const TIMEOUT: Duration = Duration::from_secs(10);

fn connect(store: &Embedded) -> Arc<dyn Coordinator> {
    block_on(store.connector(TIMEOUT).connect()).unwrap()
}

fn create(session: &Arc<dyn Coordinator>, path: &str, kind: NodeKind) -> String {
    block_on(session.create(path, b"", kind)).unwrap().path
}

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
