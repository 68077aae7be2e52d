//! The order in which the creations of one lock's nodes are sent on a connection, where it is promised.
//!
//! A server applies what it gets on one connection in the order in which it was sent. But a creation
//! that finds no directory is sent again, and meanwhile another process may make the directory: then
//! whoever was sent after it comes before it. So until it is known that there is a directory, nobody
//! is sent before the one ahead was answered with a node; from then on, as soon as that is sent.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The order of the creations of one lock on one connection.
#[derive(Debug, Default)]
pub struct SendOrder(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    turns: u64,
    /// Whose creation is to be sent, and who wakes them.
    unsent: BTreeMap<u64, Option<Waker>>,
    /// Whose answer the others wait for.
    awaited: Option<u64>,
    /// Whether a creation was answered with a node.
    directory_is_known: bool,
    /// Whether somebody wakes whose turn it is.
    waking: bool,
}

impl SendOrder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last turn. Dropped, it is given up.
    pub fn take(self: &Arc<Self>) -> SendTurn {
        let mut state = self.lock();
        let number = state.turns;
        state.turns += 1;
        state.unsent.insert(number, None);
        SendTurn { order: self.clone(), number, is_over: AtomicBool::new(false) }
    }

    /// Changes something, and wakes whose turn it is then. An embedded session runs whoever is woken
    /// on the spot, so nothing is locked meanwhile; and one after the other, however many there are,
    /// not each inside of the one before.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if std::mem::replace(&mut state.waking, true) {
            return;
        }
        while state.awaited.is_none() {
            let first = state.unsent.first_entry().and_then(|mut first| first.get_mut().take());
            let Some(waker) = first else { break };
            drop(state);
            waker.wake();
            state = self.lock();
        }
        state.waking = false;
    }
}

/// When the creation of a node may be sent.
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
    /// It keeps its place until it is dropped.
    pub async fn comes(&self) {
        let poll = |cx: &mut Context<'_>| {
            let mut state = self.order.lock();
            let is_first = state.unsent.range(..self.number).next().is_none();
            if is_first && state.awaited.is_none() {
                return Poll::Ready(());
            }
            // Without a place it comes whenever it likes.
            let Some(waker) = state.unsent.get_mut(&self.number) else { return Poll::Ready(()) };
            *waker = Some(cx.waker().clone());
            Poll::Pending
        };
        poll_fn(poll).await;
    }

    /// Notes that the creation is sent.
    pub fn sent(&self) {
        self.order.change(|state| {
            let was_unsent = state.unsent.remove(&self.number).is_some();
            if was_unsent && !state.directory_is_known {
                state.awaited = Some(self.number);
            }
        });
    }

    /// The creation has to be sent again, unless its place was given up: before those that were not
    /// sent yet. If there was no directory, nobody knows of one.
    pub fn again(&self, directory_is_missing: bool) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        self.order.change(|state| {
            state.awaited.take_if(|number| *number == self.number);
            state.unsent.insert(self.number, None);
            state.directory_is_known &= !directory_is_missing;
        });
    }

    /// The creation was answered: there is a directory.
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
            state.awaited.take_if(|number| *number == self.number);
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
