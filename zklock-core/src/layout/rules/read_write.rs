//! The rules of readers and writers.
//!
//! ```text
//! queue   R 4   R 5   W 6            W 7          R 8
//!         hold  hold  watches R 5    watches W 6  watches W 7
//! ```

use crate::base::mode::Mode;
use crate::layout::contender::Contender;
use crate::layout::verdict::Verdict;

/// A reader holds the lock if no writer is ahead of it; otherwise it watches the nearest one.
///
/// A deletion is never a grant by itself: the writer whose node is deleted may have given up with
/// others still ahead of it.
///
/// ```
/// use zklock::Mode;
/// use zklock::driver::{Contender, Verdict, read};
///
/// let queue = [4, 7].map(|n| Contender::new(n.to_string(), n, Mode::Read));
/// assert_eq!(read(&queue, &queue[1]), Verdict::Held);
/// ```
pub fn read(queue: &[Contender], mine: &Contender) -> Verdict {
    let Some(place) = mine.place_in(queue) else { return Verdict::Missing };
    let writers = || queue[..place].iter().filter(|contender| contender.mode != Mode::Read);
    match writers().next_back() {
        None => Verdict::Held,
        Some(writer) => Verdict::Wait {
            predecessor: writer.name.clone(),
            deletion_grants: false,
            ahead: writers().count(),
        },
    }
}

/// A writer holds the lock if nobody is ahead of it; otherwise it watches the node just ahead, so
/// that of a hundred waiting writers one wakes at each release.
///
/// A deletion is never a grant by itself: a downgraded writer leaves a reader in its place
/// (measured: otherwise a writer enters beside it).
///
/// ```
/// use zklock::Mode;
/// use zklock::driver::{Contender, Verdict, write};
///
/// let queue = [(4, Mode::Read), (7, Mode::Write)];
/// let queue = queue.map(|(n, mode)| Contender::new(n.to_string(), n, mode));
/// assert!(matches!(write(&queue, &queue[1]), Verdict::Wait { ahead: 1, .. }));
/// ```
pub fn write(queue: &[Contender], mine: &Contender) -> Verdict {
    match mine.place_in(queue) {
        None => Verdict::Missing,
        Some(0) => Verdict::Held,
        Some(place) => Verdict::Wait {
            predecessor: queue[place - 1].name.clone(),
            deletion_grants: false,
            ahead: place,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(modes: &str) -> Vec<Contender> {
        let mode = |letter| if letter == 'R' { Mode::Read } else { Mode::Write };
        let contender = |(n, c)| Contender::new(format!("{n}"), n as i64, mode(c));
        modes.chars().enumerate().map(contender).collect()
    }

    fn read(queue: &[Contender], mine: &str) -> Verdict {
        super::read(queue, &Contender::new(mine, mine.parse().unwrap(), Mode::Read))
    }

    fn write(queue: &[Contender], mine: &str) -> Verdict {
        super::write(queue, &Contender::new(mine, mine.parse().unwrap(), Mode::Write))
    }

    fn waits(predecessor: &str, ahead: usize) -> Verdict {
        Verdict::Wait { predecessor: predecessor.into(), deletion_grants: false, ahead }
    }

    #[test]
    fn readers_enter_together_and_wait_for_the_nearest_writer() {
        let queue = queue("RRWWR");
        assert_eq!(read(&queue, "0"), Verdict::Held);
        assert_eq!(read(&queue, "1"), Verdict::Held);
        assert_eq!(read(&queue, "4"), waits("3", 2));
        assert_eq!(read(&queue, "9"), Verdict::Missing);
    }

    #[test]
    fn writers_wait_for_the_one_just_ahead_and_no_deletion_is_a_grant() {
        let queue = queue("RRWW");
        assert_eq!(write(&queue, "2"), waits("1", 2));
        assert_eq!(write(&queue, "3"), waits("2", 3));
        assert_eq!(write(&self::queue("WR"), "0"), Verdict::Held);
        assert_eq!(write(&self::queue("WW"), "1"), waits("0", 1));
        assert_eq!(write(&queue, "9"), Verdict::Missing);
    }
}
