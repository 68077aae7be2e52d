//! The interface of a queue that callers wait in, for locks and for permits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::base::clock::Instant;
use crate::base::error::{ErrorKind, Holder, LockError};
use crate::base::mode::Mode;
use crate::coordinator::traits::RequestError;
use crate::local::grant::{GrantSource, Hold};
use crate::local::waiters::{Outcome, Place};
use crate::session::lane::closed;

/// A queue that can be waited in.
pub trait WaitQueue: GrantSource + Sized {
    /// What is known of a waiter.
    type Waiter;

    /// A waiter asks for its outcome, which comes with what is known of the waiter.
    fn poll(&self, place: Place, waker: &Waker) -> Poll<Option<(Self::Waiter, Outcome<Hold>)>>;

    /// A waiter that was given what it wants, and lost it before it could take it, takes the last place.
    fn join_again(self: &Arc<Self>, waiter: Self::Waiter) -> Joined<Self>;

    /// A waiter gives up its place.
    fn leave(self: &Arc<Self>, place: Place);

    /// The mode of the waiter in a place, and since when it waits, unless it has an outcome.
    fn waiter(&self, place: Place) -> Option<(Mode, Instant)>;

    /// Asks ZooKeeper who is in the way, and returns the error of a busy lock. `None` while nobody
    /// was seen.
    fn ask(&self) -> impl Future<Output = Option<Result<LockError, RequestError>>> + Send;
}

/// The result of joining.
#[derive(Debug)]
pub enum Joined<Q: WaitQueue> {
    /// The lock was free.
    Granted(Hold),
    /// In the queue.
    Waits(PlaceInQueue<Q>),
    /// Somebody is ahead in this queue, and the caller does not wait.
    Busy(Arc<Q>),
    /// The request is refused.
    Refused(LockError),
}

impl<Q: WaitQueue> Joined<Q> {
    /// Gives up what was joined, because the caller is refused.
    pub fn give_up(self) {
        if let Joined::Waits(mut place) = self {
            place.give_up();
        }
    }
}

/// The error of a lock that is held, by this holder if it is known.
pub(super) fn busy(holder: Option<Holder>) -> LockError {
    LockError::new(ErrorKind::Busy, "").held_by(holder)
}

/// A place in a queue, as a future of its outcome. Dropping it gives the place up.
#[derive(Debug)]
pub struct PlaceInQueue<Q: WaitQueue> {
    queue: Arc<Q>,
    place: Option<Place>,
}

impl<Q: WaitQueue> PlaceInQueue<Q> {
    /// Waits in a place.
    pub fn new(queue: Arc<Q>, place: Place) -> Self {
        PlaceInQueue { queue, place: Some(place) }
    }

    /// The queue.
    pub fn queue(&self) -> &Arc<Q> {
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
    fn join_again(&mut self, waiter: Q::Waiter, lost: Hold) -> Option<Outcome<Hold>> {
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

impl<Q: WaitQueue> Future for PlaceInQueue<Q> {
    type Output = Outcome<Hold>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(place) = self.place {
            let Poll::Ready(settled) = self.queue.poll(place, cx.waker()) else { break };
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

impl<Q: WaitQueue> Drop for PlaceInQueue<Q> {
    fn drop(&mut self) {
        if self.place.is_some() {
            self.tell_cancelled();
            self.give_up();
        }
    }
}
