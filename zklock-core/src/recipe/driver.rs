//! The lock driver: how the nodes of a lock are named, read and ordered, and who of them holds.

use std::fmt;

use super::mutex::mutex;
use super::read_write::{read, write};
use super::verdict::Verdict;
use crate::contender::{Attempt, Contender};
use crate::coordinator::NodeKind;
use crate::mode::Mode;
use crate::owner::Owner;

/// A node to be made in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// The beginning of its name; ZooKeeper appends ten digits.
    pub prefix: String,
    /// Its data.
    pub payload: Vec<u8>,
    /// By what it is found again when the answer to its creation was lost.
    pub proof: Proof,
}

/// By what a node of ours is known. Its ZooKeeper session must be ours in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Its name begins with the prefix, which is unique.
    Name,
    /// Its data is the payload, which is unique.
    Payload,
    /// Nothing but its owner: names and data are fixed. Such nodes are made one at a time.
    Owner,
}

/// Decides how a lock is laid out in ZooKeeper, and by which rule it is held. The layouts that are
/// shipped are in [`layout`](crate::layout); the documents call this `LockInternalsDriver`.
///
/// A driver of one's own needs three lines of naming and parsing; the rules of mutexes, readers and
/// writers come with it:
///
/// ```
/// use zklock_core::contender::{Attempt, Contender};
/// use zklock_core::mode::Mode;
/// use zklock_core::recipe::driver::LockDriver;
///
/// #[derive(Debug)]
/// struct Tickets;
///
/// impl LockDriver for Tickets {
///     fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
///         format!("ticket-{}-", attempt.simple())
///     }
///
///     fn parse(&self, name: &str) -> Option<Contender> {
///         let attempt = name.strip_prefix("ticket-")?;
///         Some(Contender::new(name, Contender::sequence_after(attempt, "-")?, Mode::Mutex))
///     }
/// }
/// ```
pub trait LockDriver: fmt::Debug + Send + Sync {
    /// The beginning of the name of a new node. Where the layout has room, `attempt` is in it: by
    /// that a node is found again whose creation was not answered.
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String;

    /// Reads the name of a node. `None` for one that is no contender: it is in nobody's way.
    fn parse(&self, name: &str) -> Option<Contender>;

    /// The data of a new node: who makes it, as JSON.
    fn payload(&self, _attempt: &Attempt, _mode: Mode, owner: &Owner) -> Vec<u8> {
        owner.to_payload()
    }

    /// By what a node is found again: its name, unless the layout has no room there.
    fn proof(&self) -> Proof {
        Proof::Name
    }

    /// Of which kind a missing directory is made: containers, which ZooKeeper removes when they
    /// have been empty for a while.
    fn directory(&self) -> NodeKind {
        NodeKind::Container
    }

    /// Whether the lock can be taken in this mode: by default readers and writers only if the names
    /// tell them apart.
    fn supports(&self, mode: Mode) -> bool {
        let name = format!("{}0000000000", self.prefix(&Attempt::new(), mode));
        self.parse(&name).is_some_and(|contender| contender.mode == mode)
    }

    /// Whether mine is held in a queue that is in order, or which node it watches.
    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        match mine.mode {
            // Permits have a driver of their own.
            Mode::Mutex | Mode::Permit => mutex(queue, &mine.name),
            Mode::Read => read(queue, &mine.name),
            Mode::Write => write(queue, &mine.name),
        }
    }

    /// The node to be made by an attempt.
    fn node(&self, attempt: &Attempt, mode: Mode, owner: &Owner) -> NewNode {
        let (prefix, payload) = (self.prefix(attempt, mode), self.payload(attempt, mode, owner));
        NewNode { prefix, payload, proof: self.proof() }
    }

    /// The contenders among the children of a lock's directory, in the order of the queue.
    fn queue(&self, children: &[String]) -> Vec<Contender> {
        let mut queue: Vec<_> = children.iter().filter_map(|name| self.parse(name)).collect();
        Contender::sort(&mut queue);
        queue
    }
}

/// Whether somebody behind mine waits for it to go.
pub fn anybody_behind(queue: &[Contender], mine: &str) -> bool {
    let Some(place) = queue.iter().position(|contender| contender.name == mine) else {
        return true;
    };
    let (mine, behind) = (&queue[place], &queue[place + 1..]);
    behind.iter().any(|other| mine.mode != Mode::Read || other.mode != Mode::Read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_behind_a_reader_do_not_wait_for_it() {
        let queue = |modes: &[Mode]| -> Vec<_> {
            let contender =
                |(n, mode): (usize, &Mode)| Contender::new(format!("{n}"), n as i64, *mode);
            modes.iter().enumerate().map(contender).collect()
        };
        let readers = queue(&[Mode::Read, Mode::Read]);
        assert!(!anybody_behind(&readers, "0"));
        assert!(anybody_behind(&readers, "unknown"));
        let writer = queue(&[Mode::Read, Mode::Read, Mode::Write]);
        assert!(anybody_behind(&writer, "0") && !anybody_behind(&writer, "2"));
        let mutex = queue(&[Mode::Mutex, Mode::Mutex]);
        assert!(anybody_behind(&mutex, "0") && !anybody_behind(&mutex, "1"));
    }
}
