//! The waiters of one process for one lock: first come, first served.

use std::collections::VecDeque;
use std::mem::replace;
use std::num::NonZeroU64;
use std::task::{Poll, Waker};

use slab::Slab;

use crate::base::error::LockError;

/// The result of a wait.
pub type Outcome<O> = Result<O, LockError>;

/// The place of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    key: usize,
    /// Never zero, so that a place that may be none is no larger.
    ticket: NonZeroU64,
}

impl Place {
    /// Whether it was taken before `next` was.
    pub fn is_before(self, next: Ticket) -> bool {
        self.ticket < next.0
    }
}

/// The number of a place that nobody has taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(NonZeroU64);

#[derive(Debug)]
struct Slot<I, T> {
    ticket: NonZeroU64,
    info: I,
    stage: Stage<T>,
}

#[derive(Debug)]
enum Stage<T> {
    Waits(Option<Waker>),
    Settled(T),
}

/// Waiters with their data (`I`), until each has its outcome (`T`).
#[derive(Debug)]
pub struct Waiters<I, T> {
    slots: Slab<Slot<I, T>>,
    /// May contain places that were given up; they are skipped.
    order: VecDeque<Place>,
    next: NonZeroU64,
    waiting: usize,
}

impl<I, T> Default for Waiters<I, T> {
    fn default() -> Self {
        Waiters { slots: Slab::new(), order: VecDeque::new(), next: NonZeroU64::MIN, waiting: 0 }
    }
}

impl<I, T> Waiters<I, T> {
    /// The memory per waiter, in bytes, apart from room to grow.
    #[cfg(test)]
    pub const BYTES_EACH: usize = size_of::<Slot<I, T>>() + size_of::<Place>();

    /// Takes the last place.
    pub fn join(&mut self, info: I) -> Place {
        self.make_room();
        let ticket = self.next;
        self.next = ticket.saturating_add(1);
        let key = self.slots.insert(Slot { ticket, info, stage: Stage::Waits(None) });
        let place = Place { key, ticket };
        self.order.push_back(place);
        self.waiting += 1;
        place
    }

    /// Begins with room for one, which is enough for most locks, and grows by a quarter: doubling
    /// could waste half of the memory of the waiters.
    fn make_room(&mut self) {
        let more = |used: usize| if used == 0 { 1 } else { 4.max(used / 4) };
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(more(self.slots.len()));
        }
        if self.order.len() == self.order.capacity() {
            self.order.reserve_exact(more(self.order.len()));
        }
    }

    /// The number of the next place.
    pub fn next(&self) -> Ticket {
        Ticket(self.next)
    }

    /// The waiter in a place that was not given up.
    fn at(&self, place: Place) -> Option<&Slot<I, T>> {
        self.slots.get(place.key).filter(|slot| slot.ticket == place.ticket)
    }

    fn at_mut(&mut self, place: Place) -> Option<&mut Slot<I, T>> {
        self.slots.get_mut(place.key).filter(|slot| slot.ticket == place.ticket)
    }

    /// The data of the waiter in a place, unless it has an outcome.
    fn waiting_at(&self, place: Place) -> Option<&I> {
        let waiting = self.at(place).filter(|slot| matches!(slot.stage, Stage::Waits(_)));
        waiting.map(|slot| &slot.info)
    }

    /// The data of whoever has a place, perhaps with an outcome that it has not taken yet.
    pub fn info(&self, place: Place) -> Option<&I> {
        self.at(place).map(|slot| &slot.info)
    }

    /// The number of waiters without an outcome.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether all waiters have an outcome.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The data of the waiters without an outcome, in order.
    pub fn iter(&self) -> impl Iterator<Item = &I> {
        self.order.iter().filter_map(|place| self.waiting_at(*place))
    }

    /// The data of the waiter in a place, unless it has an outcome, and of those ahead of it.
    pub fn up_to(&self, place: Place) -> Option<(&I, impl Iterator<Item = &I>)> {
        let ahead = self.order.iter().take_while(move |other| **other != place);
        Some((self.waiting_at(place)?, ahead.filter_map(|other| self.waiting_at(*other))))
    }

    /// How many without an outcome are ahead of a place.
    pub fn ahead_of(&self, place: Place) -> usize {
        let ahead = self.order.iter().take_while(|other| **other != place);
        ahead.filter(|other| self.at(**other).is_some()).count()
    }

    /// What is known of the first.
    pub fn first(&mut self) -> Option<&I> {
        while self.order.front().is_some_and(|place| self.at(*place).is_none()) {
            self.order.pop_front();
        }
        self.at(*self.order.front()?).map(|slot| &slot.info)
    }

    /// Gives the first its outcome, made from what is known of it. Wake the waker.
    pub fn settle_first(&mut self, outcome: impl FnOnce(&I) -> T) -> Option<Waker> {
        loop {
            let place = self.order.pop_front()?;
            if let Some(slot) = self.at_mut(place) {
                let settled = Stage::Settled(outcome(&slot.info));
                let before = replace(&mut slot.stage, settled);
                self.waiting -= 1;
                return match before {
                    Stage::Waits(waker) => waker,
                    Stage::Settled(_) => None,
                };
            }
        }
    }

    /// Gives an outcome to those of whom `so` is true; the others keep their order. Wake the wakers.
    pub fn settle_where(
        &mut self,
        so: impl Fn(&I, Place) -> bool,
        mut outcome: impl FnMut(&I) -> T,
    ) -> Vec<Waker> {
        let (slots, waiting, mut wakers) = (&mut self.slots, &mut self.waiting, Vec::new());
        self.order.retain(|place| {
            let there = slots.get_mut(place.key).filter(|slot| slot.ticket == place.ticket);
            let Some(slot) = there else { return false };
            if !so(&slot.info, *place) {
                return true;
            }
            let settled = Stage::Settled(outcome(&slot.info));
            if let Stage::Waits(waker) = replace(&mut slot.stage, settled) {
                wakers.extend(waker);
            }
            *waiting -= 1;
            false
        });
        wakers
    }

    /// Takes a waiter that has its outcome, or stores its waker. The one that was known before is `old`, to
    /// be dropped once the queue is unlocked: a task is dropped with its last waker.
    pub fn poll(
        &mut self,
        place: Place,
        waker: &Waker,
        old: &mut Option<Waker>,
    ) -> Poll<Option<(I, T)>> {
        let Some(slot) = self.at_mut(place) else { return Poll::Ready(None) };
        match &mut slot.stage {
            Stage::Waits(Some(known)) if known.will_wake(waker) => {}
            Stage::Waits(known) => *old = known.replace(waker.clone()),
            Stage::Settled(_) => return Poll::Ready(self.clear(place).ok()),
        }
        Poll::Pending
    }

    /// Clears a slot, and returns what is known of the waiter, with its outcome; or the waker if it has none.
    fn clear(&mut self, place: Place) -> Result<(I, T), Option<Waker>> {
        let Slot { info, stage, .. } = self.slots.remove(place.key);
        match stage {
            Stage::Waits(waker) => Err(waker),
            Stage::Settled(outcome) => Ok((info, outcome)),
        }
    }

    /// Gives up a place. Returns an outcome that nobody took, or the waker, to be dropped once the queue is
    /// unlocked.
    pub fn leave(&mut self, place: Place) -> Result<T, Option<Waker>> {
        self.at_mut(place).ok_or(None)?;
        let outcome = self.clear(place);
        if outcome.is_err() {
            self.waiting -= 1;
            // Many who gave up must not pile up behind one who holds for hours.
            if self.order.len() > 32 && self.order.len() > 2 * self.waiting {
                let slots = &self.slots;
                self.order.retain(|place| {
                    slots.get(place.key).is_some_and(|slot| slot.ticket == place.ticket)
                });
            }
        }
        outcome.map(|(_, outcome)| outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_and_the_gone_are_skipped() {
        let mut waiters = Waiters::<_, u32>::default();
        let places: Vec<_> = (0..4).map(|n| waiters.join(n)).collect();
        assert!(waiters.leave(places[0]).is_err());
        assert_eq!(waiters.first(), Some(&1));
        assert!(waiters.settle_first(|n| *n * 10).is_none());
        assert_eq!(waiters.len(), 2);
        assert_eq!(waiters.poll(places[1], Waker::noop(), &mut None), Poll::Ready(Some((1, 10))));
        assert_eq!(waiters.poll(places[2], Waker::noop(), &mut None), Poll::Pending);
        assert!(waiters.settle_first(|n| *n * 10).is_some());
        assert_eq!(waiters.leave(places[2]).ok(), Some(20));
        assert_eq!(waiters.iter().collect::<Vec<_>>(), [&3]);
    }

    #[test]
    fn a_place_is_not_mistaken_for_a_later_one() {
        let mut waiters = Waiters::<(), u32>::default();
        let gone = waiters.join(());
        assert!(waiters.leave(gone).is_err());
        let here = waiters.join(());
        assert!(waiters.leave(gone).is_err());
        assert_eq!(waiters.len(), 1);
        waiters.settle_first(|()| 7);
        assert_eq!(waiters.leave(here).ok(), Some(7));
    }

    #[test]
    fn some_are_settled_out_of_order_and_the_others_keep_theirs() {
        let mut waiters = Waiters::<_, u32>::default();
        let places: Vec<_> = (0..4).map(|n| waiters.join(n)).collect();
        let (_, next) = (waiters.leave(places[1]), waiters.next());
        let late = waiters.join(4);
        let wakers = waiters.settle_where(|n, place| n % 2 == 0 && place.is_before(next), |n| *n);
        assert!(wakers.is_empty() && waiters.len() == 2);
        assert_eq!(waiters.iter().collect::<Vec<_>>(), [&3, &4]);
        assert_eq!(waiters.poll(places[2], Waker::noop(), &mut None), Poll::Ready(Some((2, 2))));
        assert_eq!(waiters.leave(places[0]).ok(), Some(0));
        assert!(waiters.settle_first(|n| *n).is_none() && waiters.first() == Some(&4));
        assert_eq!(waiters.poll(late, Waker::noop(), &mut None), Poll::Pending);
    }

    #[test]
    fn those_who_gave_up_do_not_pile_up() {
        let mut waiters = Waiters::<(), ()>::default();
        let _stays = waiters.join(());
        for _ in 0..10_000 {
            let place = waiters.join(());
            drop(waiters.leave(place));
        }
        assert!(waiters.order.len() < 100);
    }
}
