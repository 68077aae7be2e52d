//! The rule of the mutex.
//!
//! ```text
//! queue   0000000004   0000000007   0000000009 (mine)
//!         holder       waits        watches 7, and nothing else
//! ```

use super::verdict::Verdict;
use crate::contender::Contender;

/// Held by the first of the queue; everybody else watches the node just ahead.
///
/// If that one is the first, its deletion is the grant: whoever comes later gets a greater number,
/// so nobody can appear in between. If it is not, it may have gone because its owner gave up, and
/// the queue must be read again.
pub fn mutex(queue: &[Contender], mine: &str) -> Verdict {
    match queue.iter().position(|contender| contender.name == mine) {
        None => Verdict::Missing,
        Some(0) => Verdict::Held,
        Some(place) => Verdict::Wait {
            predecessor: queue[place - 1].name.clone(),
            deletion_grants: place == 1,
            ahead: place,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(names: &[&str], mine: &str) -> Verdict {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        mutex(&Contender::queue(&names), mine)
    }

    #[test]
    fn the_first_holds_and_the_others_watch_the_one_ahead() {
        let queue = ["b-lock-0000000002", "a-lock-0000000010", "c-lock-0000000001", "0"];
        assert_eq!(decide(&queue, "c-lock-0000000001"), Verdict::Held);
        assert_eq!(
            decide(&queue, "b-lock-0000000002"),
            Verdict::Wait {
                predecessor: "c-lock-0000000001".into(),
                deletion_grants: true,
                ahead: 1
            }
        );
        assert_eq!(
            decide(&queue, "a-lock-0000000010"),
            Verdict::Wait {
                predecessor: "b-lock-0000000002".into(),
                deletion_grants: false,
                ahead: 2
            }
        );
        assert_eq!(decide(&queue, "d-lock-0000000003"), Verdict::Missing);
    }
}
