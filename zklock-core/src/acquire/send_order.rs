//! The order in which the nodes of one lock are created on a connection, where an order is
//! promised.
//!
//! A server applies the requests of one connection in the order in which they were sent. But a
//! create request that finds no directory is sent again, and meanwhile another process may create
//! the directory: then a request that was sent later is applied first. So until the directory is
//! known to exist, each request waits for a successful reply to the one before; from then on, until
//! the one before is sent. A request that was under way when the connection was lost may have to be sent again: until
//! that is known, later ones wait.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The order of create requests for one lock on one connection.
#[derive(Debug, Default)]
pub struct SendOrder(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    turns: u64,
    /// The numbers of those whose create request is to be sent, and their wakers.
    unsent: BTreeMap<u64, Option<Waker>>,
    /// The one for whose reply the others wait.
    awaited: Option<u64>,
    /// Those that were sent on a connection that was lost since.
    in_doubt: BTreeSet<u64>,
    /// Whether a create request has succeeded.
    directory_is_known: bool,
    /// Whether somebody is waking the next one.
    waking: bool,
}

impl State {
    /// Whether the turn with this number has come, or it has no place any more.
    fn has_come(&self, number: u64) -> bool {
        self.is_next(number) || !self.unsent.contains_key(&number)
    }

    /// What became of a request is known.
    fn settle(&mut self, number: u64) {
        self.awaited.take_if(|awaited| *awaited == number);
        self.in_doubt.remove(&number);
    }

    /// Whether nobody before it is to be sent first.
    fn is_next(&self, number: u64) -> bool {
        let others = self.unsent.range(..number).next().is_some();
        !others && self.awaited.is_none() && self.in_doubt.range(..number).next().is_none()
    }
}

impl SendOrder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the last place. Dropping it gives it up.
    pub fn take(self: &Arc<Self>) -> SendTurn {
        let mut state = self.lock();
        let number = state.turns;
        state.turns += 1;
        state.unsent.insert(number, None);
        SendTurn { order: self.clone(), number, is_over: AtomicBool::new(false) }
    }

    /// Changes the state, and wakes the next one. An embedded session runs a woken task on the
    /// spot, so no lock is held meanwhile; and wakes happen one after the other, not each inside
    /// the one before.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if std::mem::replace(&mut state.waking, true) {
            return;
        }
        loop {
            let first = state.unsent.keys().next().copied().filter(|first| state.is_next(*first));
            let waker = first.and_then(|first| state.unsent.get_mut(&first)?.take());
            let Some(waker) = waker else { break };
            drop(state);
            waker.wake();
            state = self.lock();
        }
        state.waking = false;
    }
}

/// Tells when a create request may be sent.
#[derive(Debug)]
pub struct SendTurn {
    order: Arc<SendOrder>,
    number: u64,
    is_over: AtomicBool,
}

impl SendTurn {
    /// Waits for its turn.
    ///
    /// # Cancel safety
    ///
    /// Keeps its place until it is dropped.
    pub async fn comes(&self) {
        let poll = |cx: &mut Context<'_>| {
            let mut state = self.order.lock();
            // Without a place, it may send at any time.
            if state.has_come(self.number) {
                return Poll::Ready(());
            }
            state.unsent.insert(self.number, Some(cx.waker().clone()));
            Poll::Pending
        };
        poll_fn(poll).await;
    }

    /// Whether its turn has come, or it has no place any more.
    pub fn has_come(&self) -> bool {
        self.order.lock().has_come(self.number)
    }

    /// Records that the connection was lost on which the request was sent: it may have to be sent again.
    pub fn is_in_doubt(&self) {
        if !self.is_over.load(Ordering::Relaxed) {
            self.order.change(|state| {
                state.in_doubt.insert(self.number);
            });
        }
    }

    /// Records that the request was sent.
    pub fn sent(&self) {
        self.order.change(|state| {
            let was_unsent = state.unsent.remove(&self.number).is_some();
            if was_unsent && !state.directory_is_known {
                state.awaited = Some(self.number);
            }
        });
    }

    /// The request has to be sent again, before those that were not sent yet; without effect if its
    /// place was given up. If there was no directory, it is not known to exist.
    pub fn again(&self, directory_is_missing: bool) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        self.order.change(|state| {
            state.settle(self.number);
            state.unsent.insert(self.number, None);
            state.directory_is_known &= !directory_is_missing;
        });
    }

    /// The request succeeded: the directory exists.
    pub fn arrived(&self) {
        self.leave(true);
    }

    /// Gives up its place.
    pub fn give_up(&self) {
        self.leave(false);
    }

    fn leave(&self, has_directory: bool) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        self.order.change(|state| {
            state.settle(self.number);
            state.unsent.remove(&self.number);
            state.directory_is_known |= has_directory;
        });
    }
}

impl Drop for SendTurn {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_lite::future::{block_on, poll_once};

    use super::*;
    use crate::session::spawner::Spawner;

    #[test]
    fn until_there_is_a_directory_each_waits_for_the_answer_ahead() {
        block_on(async {
            let order = Arc::<SendOrder>::default();
            let [first, second, third] = [(); 3].map(|()| order.take());
            assert!(poll_once(second.comes()).await.is_none(), "the first is not sent");
            first.comes().await;
            first.sent();
            assert!(poll_once(second.comes()).await.is_none(), "the first is not answered");
            first.again(true);
            assert!(poll_once(second.comes()).await.is_none(), "the first is sent again");
            first.comes().await;
            first.sent();
            first.arrived();
            assert!(poll_once(third.comes()).await.is_none(), "the second is not sent");
            second.comes().await;
            second.sent();
            third.comes().await;
            third.sent();
            // The directory went.
            third.again(true);
            second.again(true);
            assert!(poll_once(third.comes()).await.is_none(), "the second is ahead");
            second.comes().await;
        });
    }

    #[test]
    fn what_was_under_way_when_the_connection_was_lost_is_waited_for() {
        block_on(async {
            let order = Arc::<SendOrder>::default();
            let [first, second, third] = [(); 3].map(|()| order.take());
            first.comes().await;
            first.sent();
            first.arrived();
            second.comes().await;
            second.sent();
            third.comes().await;
            assert!(third.has_come());
            second.is_in_doubt();
            assert!(!third.has_come() && poll_once(third.comes()).await.is_none());
            second.again(false);
            assert!(poll_once(third.comes()).await.is_none(), "the second is sent again");
            second.comes().await;
            second.sent();
            third.comes().await;
            second.is_in_doubt();
            second.arrived();
            third.comes().await;
            // Its answer has come since.
            second.is_in_doubt();
            third.comes().await;
        });
    }

    /// A task that is polled where it is woken.
    #[test]
    fn who_waits_for_one_in_doubt_is_not_woken_before_it_is_known() {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let order = Arc::<SendOrder>::default();
            let [first, second, third, fourth] = [(); 4].map(|()| order.take());
            first.sent();
            first.arrived();
            second.sent();
            second.is_in_doubt();
            let say = tell.clone();
            Spawner::Inline.spawn(async move {
                fourth.comes().await;
                say.send("its turn").ok();
            });
            drop(third);
            tell.send("another gave up").ok();
            second.arrived();
        });
        let soon = std::time::Duration::from_secs(30);
        assert_eq!(told.recv_timeout(soon), Ok("another gave up"));
        assert_eq!(told.recv_timeout(soon), Ok("its turn"));
    }

    #[test]
    fn whoever_is_gone_is_in_nobodys_way() {
        block_on(async {
            let order = Arc::<SendOrder>::default();
            let [first, second, third, fourth] = [(); 4].map(|()| order.take());
            let mut waiting = pin!(second.comes());
            assert!(poll_once(&mut waiting).await.is_none());
            drop(first);
            waiting.await;
            second.sent();
            drop(third);
            assert!(poll_once(fourth.comes()).await.is_none(), "the second is not answered");
            second.give_up();
            fourth.comes().await;
            // It has no place any more.
            second.again(true);
            second.comes().await;
            fourth.comes().await;
        });
    }
}
