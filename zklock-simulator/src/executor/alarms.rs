//! What is to happen at later moments.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

/// Names an alarm: its place, and the number that it has alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AlarmId {
    place: u32,
    number: u64,
}

pub(super) type Call = Box<dyn FnOnce() + Send>;

pub(super) enum Alarm {
    Wake(Waker),
    Call(Call),
}

/// All alarms, in the order of their moments; those of the same moment in the order in which they were
/// set. Most are taken back before their moment: that leaves their entry in the heap, which is
/// skipped later.
#[derive(Default)]
pub(super) struct Alarms {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    places: Vec<Option<(u64, Alarm)>>,
    free: Vec<u32>,
    number: u64,
}

impl Alarms {
    pub(super) fn set(&mut self, at: u64, alarm: Alarm) -> AlarmId {
        self.number += 1;
        let (number, set) = (self.number, Some((self.number, alarm)));
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = set;
                place
            }
            None => {
                self.places.push(set);
                self.places.len() as u32 - 1
            }
        };
        self.heap.push(Reverse((at, number, place)));
        AlarmId { place, number }
    }

    pub(super) fn get_mut(&mut self, id: AlarmId) -> Option<&mut Alarm> {
        let (number, alarm) = self.places.get_mut(id.place as usize)?.as_mut()?;
        (*number == id.number).then_some(alarm)
    }

    /// Takes one back, if it has not come.
    pub(super) fn remove(&mut self, id: AlarmId) -> Option<Alarm> {
        let place = self.places.get_mut(id.place as usize)?;
        let (_, alarm) = place.take_if(|(number, _)| *number == id.number)?;
        self.free.push(id.place);
        Some(alarm)
    }

    /// How many of them wake somebody.
    pub(super) fn wakes(&self) -> usize {
        let set = self.places.iter().flatten();
        set.filter(|(_, alarm)| matches!(alarm, Alarm::Wake(_))).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }

    /// The moment of the next one.
    pub(super) fn next(&mut self) -> Option<u64> {
        while let Some(Reverse((at, number, place))) = self.heap.peek().copied() {
            if self.get_mut(AlarmId { place, number }).is_some() {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// The next one, with its moment.
    pub(super) fn pop(&mut self) -> Option<(u64, Alarm)> {
        self.next()?;
        let Reverse((at, number, place)) = self.heap.pop()?;
        Some((at, self.remove(AlarmId { place, number })?))
    }
}
