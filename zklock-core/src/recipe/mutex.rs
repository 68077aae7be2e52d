//! The rule of the mutex.
//!
//! ```text
//! queue   0000000004   0000000007   0000000009 (mine)
//!         holder       waits        watches 7, and nothing else
//! ```

use super::verdict::Verdict;
use crate::contender::Contender;
use crate::mode::Mode;

/// Held by the first of the queue; everybody else watches the node just ahead.
///
/// If that one is the first, its deletion is the grant: whoever comes later gets a greater number,
/// so nobody can appear in between. If it is not, it may have gone because its owner gave up, and
/// the queue must be read again. Nor is it a grant behind a writer, who may step down to a reader
/// in its own place; so where the names do not tell writers, no deletion is.
pub fn mutex(queue: &[Contender], mine: &str, tells_writers: bool) -> Verdict {
    match queue.iter().position(|contender| contender.name == mine) {
        None => Verdict::Missing,
        Some(0) => Verdict::Held,
        Some(place) => Verdict::Wait {
            predecessor: queue[place - 1].name.clone(),
            deletion_grants: place == 1 && tells_writers && queue[0].mode == Mode::Mutex,
            ahead: place,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Vec<Contender> {
        let contender = |name: &str, sequence| Contender::new(name, sequence, Mode::Mutex);
        vec![contender("c", 1), contender("b", 2), contender("a", 10)]
    }

    fn waits(predecessor: &str, deletion_grants: bool, ahead: usize) -> Verdict {
        Verdict::Wait { predecessor: predecessor.into(), deletion_grants, ahead }
    }

    #[test]
    fn the_first_holds_and_the_others_watch_the_one_ahead() {
        assert_eq!(mutex(&queue(), "c", true), Verdict::Held);
        assert_eq!(mutex(&queue(), "b", true), waits("c", true, 1));
        assert_eq!(mutex(&queue(), "a", true), waits("b", false, 2));
        assert_eq!(mutex(&queue(), "d", true), Verdict::Missing);
    }

    #[test]
    fn the_deletion_of_a_writer_is_no_grant() {
        let mut queue = queue();
        queue[0].mode = Mode::Write;
        assert_eq!(mutex(&queue, "b", true), waits("c", false, 1));
    }

    #[test]
    fn no_deletion_is_a_grant_where_any_may_be_a_writers() {
        assert_eq!(mutex(&queue(), "b", false), waits("c", false, 1));
        assert_eq!(mutex(&queue(), "a", false), waits("b", false, 2));
    }
}
