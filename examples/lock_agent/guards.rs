//! The held guards, each in a task of its own.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::clock::now_ns;
use crate::held::Held;
use crate::output::Output;
use crate::protocol::{Handle, answer, malformed, success};

/// A request to the task of a guard. The number is the id of the request to reply to.
pub(crate) enum Order {
    Release(u64),
    Drop(u64),
    Check(u64),
    Downgrade(u64),
    Split(u64, u32),
    FencedSet(u64, String, String),
    /// Runs an acquire inside the scope of the guard.
    Nest(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// The guards by their handles.
#[derive(Default)]
pub(crate) struct Guards(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    last: Handle,
    closed: bool,
    tasks: HashMap<Handle, UnboundedSender<Order>>,
}

impl Guards {
    fn with<T>(&self, act: impl FnOnce(&mut Shelf) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives a guard to a task, and replies to the request that acquired it.
    pub(crate) fn keep(
        self: &Arc<Self>,
        id: u64,
        guard: Held,
        begun_ns: Option<i64>,
        output: Output,
    ) {
        let at_ns = now_ns();
        let (sender, orders) = unbounded_channel();
        let handle = self.with(|shelf| {
            shelf.last += 1;
            // Without its sender, the task of a guard that came too late releases at once.
            if !shelf.closed {
                shelf.tasks.insert(shelf.last, sender);
            }
            shelf.last
        });
        let (token, path) = (guard.token(), guard.node_path());
        let mut grant = json!({ "handle": handle, "token": token, "path": path, "at_ns": at_ns });
        if let Some(begun_ns) = begun_ns {
            grant["begun_ns"] = json!(begun_ns);
        }
        output.send(success(id, grant));
        // Inside its own scope, a guard also knows the guards around it.
        tokio::spawn(zklock::carry(hold(self.clone(), handle, guard, orders, output)));
    }

    /// The sender to the task of a guard.
    pub(crate) fn find(&self, handle: Handle) -> Option<UnboundedSender<Order>> {
        self.with(|shelf| shelf.tasks.get(&handle).cloned())
    }

    /// The same, and removes it.
    pub(crate) fn take(&self, handle: Handle) -> Option<UnboundedSender<Order>> {
        self.with(|shelf| shelf.tasks.remove(&handle))
    }

    /// Releases every guard, also those that are still to come.
    pub(crate) fn close(&self) {
        self.with(|shelf| {
            shelf.closed = true;
            shelf.tasks.clear();
        });
    }
}

enum End {
    Downgrade(u64),
    Split(u64, u32),
    Release(Option<u64>),
    Drop(u64),
}

async fn hold(
    guards: Arc<Guards>,
    handle: Handle,
    mut guard: Held,
    mut orders: UnboundedReceiver<Order>,
    output: Output,
) {
    loop {
        let end = in_scope(&guard, &mut orders, handle, &output).await;
        let at = json!({ "at_ns": now_ns() });
        match end {
            // The guard goes on, with the permits that are left.
            End::Split(id, permits) => match guard.split(permits) {
                Ok(part) => guards.keep(id, part, None, output.clone()),
                Err(refusal) => output.send(answer(id, Err(refusal))),
            },
            End::Release(id) => {
                let outcome = guard.release().await;
                if let Some(id) = id {
                    output.send(answer(id, outcome.map(|()| at)));
                }
                return;
            }
            End::Downgrade(id) => {
                drop(guards.take(handle));
                match guard.downgrade().await {
                    Ok(reader) => guards.keep(id, reader, None, output),
                    Err(refusal) => output.send(answer(id, Err(refusal))),
                }
                return;
            }
            End::Drop(id) => {
                drop(guard);
                output.send(success(id, at));
                return;
            }
        }
    }
}

/// Serves a guard in its scope, as long as nothing ends it or needs all of it. Acquires nested in it take
/// turns.
async fn in_scope(
    guard: &Held,
    orders: &mut UnboundedReceiver<Order>,
    handle: Handle,
    output: &Output,
) -> End {
    guard
        .scope(async {
            // Told at once, also while an order waits for an answer of ZooKeeper.
            tokio::select! {
                end = serve(guard, orders, output) => end,
                never = tell("lost", guard.lost(), handle, output) => never,
                never = tell("revoked", guard.revoked(), handle, output) => never,
            }
        })
        .await
}

/// Serves the orders for a guard, one after the other, until one ends it.
async fn serve(guard: &Held, orders: &mut UnboundedReceiver<Order>, output: &Output) -> End {
    loop {
        match orders.recv().await {
            None => return End::Release(None),
            Some(Order::Release(id)) => return End::Release(Some(id)),
            Some(Order::Drop(id)) => return End::Drop(id),
            Some(Order::Check(id)) => output.send(success(id, check(guard))),
            Some(Order::Split(id, permits)) => return End::Split(id, permits),
            Some(Order::Downgrade(id)) if guard.writes() => return End::Downgrade(id),
            Some(Order::Downgrade(id)) => {
                let why = malformed("only the guard of a writer is downgraded");
                output.send(answer(id, Err(why)));
            }
            Some(Order::FencedSet(id, path, data)) => {
                let written = guard.fenced_set(&path, &data).await;
                output.send(answer(id, written.map(|()| json!({}))));
            }
            Some(Order::Nest(acquire)) => {
                tokio::spawn(zklock::carry(acquire));
            }
        }
    }
}

/// Tells of an event when it happens, and never ends.
async fn tell(
    event: &str,
    happens: impl Future<Output = ()>,
    handle: Handle,
    output: &Output,
) -> End {
    happens.await;
    output.send(json!({ "event": event, "handle": handle, "at_ns": now_ns() }));
    std::future::pending().await
}

fn check(guard: &Held) -> Value {
    // The clock is read first: the remaining time counts from a moment when the lock was certainly
    // held. A lock that is lost was so at a moment after that, which may be late where the process stands still.
    let asked_ns = now_ns();
    let (valid, remaining) = (guard.is_valid(), guard.remaining().as_millis());
    let at_ns = if valid { asked_ns } else { now_ns() };
    let remaining_ms = u64::try_from(remaining).unwrap_or(u64::MAX);
    json!({ "valid": valid, "remaining_ms": remaining_ms, "at_ns": at_ns })
}
