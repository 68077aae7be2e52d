//! A place in a queue, and what a caller gets who joined.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Engine, Shared};
use crate::base::error::{Holder, LockError};
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::local::grant::{GrantSource, Hold};
use crate::local::waiter::Waiter;
use crate::local::waiters::{Outcome, Place};
use crate::session::lane::closed;

/// The result of joining.
#[derive(Debug)]
pub enum Joined<E: Engine> {
    /// The lock was free.
    Granted(Hold),
    /// In the queue.
    Waits(PlaceInQueue<E>),
    /// Somebody is ahead in this queue, and the caller does not wait.
    Busy(Shared<E>),
    /// The request is refused.
    Refused(LockError),
}

impl<E: Engine> Joined<E> {
    /// Gives up what was joined, because the caller is refused.
    pub fn give_up(self) {
        if let Joined::Waits(mut place) = self {
            place.give_up();
        }
    }
}

/// The error of a lock that is held, by this holder if it is known.
pub fn busy(holder: Option<Holder>) -> LockError {
    LockError::new(ErrorKind::Busy, "").held_by(holder)
}

thread_local! {
    /// Whether the next wait that is dropped is one whose caller goes on.
    static GOES_ON: Cell<bool> = const { Cell::new(false) };
}

/// Drops what contains a wait whose caller goes on otherwise: nobody cancelled it.
pub fn drop_unsaid(wait: impl FnOnce()) {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            GOES_ON.set(false);
        }
    }
    let _restore = Restore;
    GOES_ON.set(true);
    wait();
}

/// Whether a wait that is dropped is that one. Those of others may be dropped within its drop.
pub fn goes_on() -> bool {
    GOES_ON.replace(false)
}

/// A place in a queue, as a future of its outcome. Dropping it gives the place up.
#[derive(Debug)]
pub struct PlaceInQueue<E: Engine> {
    queue: Shared<E>,
    place: Option<Place>,
}

impl<E: Engine> PlaceInQueue<E> {
    /// Waits in a place.
    pub fn new(queue: Shared<E>, place: Place) -> Self {
        PlaceInQueue { queue, place: Some(place) }
    }

    /// The queue.
    pub fn queue(&self) -> &Shared<E> {
        &self.queue
    }

    /// The place.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// The mode of the waiter.
    pub fn mode(&self) -> Option<Mode> {
        self.queue.waiter(self.place?).map(|(mode, _)| mode)
    }

    /// Gives the place up. The caller is told why, and has not dropped its future.
    pub fn give_up(&mut self) {
        if let Some(place) = self.place.take() {
            self.queue.leave(place);
        }
    }

    /// Gives back what was lost before the caller took it, and begins again: whoever waits is told of no
    /// loss, and waits on until the same deadline. Returns an outcome that it has at once.
    #[cold]
    fn join_again(&mut self, waiter: Waiter<E::Wants>, lost: Hold) -> Option<Outcome<Hold>> {
        drop(lost);
        match self.queue.join_again(waiter) {
            Joined::Granted(hold) => Some(Ok(hold)),
            Joined::Waits(mut place) => {
                self.place = place.place.take();
                None
            }
            Joined::Busy(queue) => Some(Err(busy(queue.holder_here(None)))),
            Joined::Refused(error) => Some(Err(error)),
        }
    }

    /// Tells the observers that the caller dropped its future.
    fn tell_cancelled(&self) {
        if goes_on() {
            return;
        }
        let queue = &self.queue;
        let waiter = || queue.waiter(self.place?);
        if queue.session().events().are_heard()
            && let Some((mode, since)) = waiter()
        {
            let lock = (queue.lock_name().clone(), queue.pattern().text());
            queue.session().tell_cancelled(lock, mode, since);
        }
    }
}

impl<E: Engine> Future for PlaceInQueue<E> {
    type Output = Outcome<Hold>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(place) = self.place {
            let mut old = None;
            let polled = self.queue.lock().state.waiters.poll(place, cx.waker(), &mut old);
            // The last waker of a task drops the task, which may lock the queue.
            drop(old);
            let Poll::Ready(settled) = polled else { break };
            self.place = None;
            let outcome = match settled {
                None => Err(closed()),
                // Since the grant the task was not polled, or the whole machine stood still.
                Some((waiter, Ok(hold))) if hold.is_lost() => match self.join_again(waiter, hold) {
                    Some(outcome) => outcome,
                    None => continue,
                },
                Some((_, outcome)) => outcome,
            };
            return Poll::Ready(outcome.map_err(|error| error.on(self.queue.lock_name().clone())));
        }
        Poll::Pending
    }
}

impl<E: Engine> Drop for PlaceInQueue<E> {
    fn drop(&mut self) {
        if self.place.is_some() {
            self.tell_cancelled();
            self.give_up();
        }
    }
}
