//! The rule of `maxLeases`: the plain queue, held by the first few.
//!
//! ```text
//! most = 2   4      5      7               8
//!            holds  holds  watches 4 and 5 watches 5 and 7
//! ```

use crate::layout::contender::Contender;
use crate::layout::verdict::Verdict;

/// Held by the first `most` contenders of the queue; all others watch the `most` nodes just ahead.
///
/// Curator watches one of them, the node `most` places ahead, and so misses a grant: with two
/// leases the third in line watches the first, is not woken when the second leaves, and one lease
/// stays unused. When fewer than `most` contenders are left ahead, at least one of the `most`
/// watched nodes is gone, so watching that many never misses a grant, and watching fewer can. A
/// release wakes at most `most` waiters, however many there are.
///
/// ```
/// use zklock::Mode;
/// use zklock::driver::{Contender, Verdict, leases};
///
/// let queue = [4, 5, 7].map(|n| Contender::new(n.to_string(), n, Mode::Mutex));
/// assert_eq!(leases(&queue, &queue[1], 2), Verdict::Held);
/// assert!(matches!(leases(&queue, &queue[2], 2), Verdict::WaitForAny { ahead: 2, .. }));
/// ```
pub fn leases(queue: &[Contender], mine: &Contender, most: usize) -> Verdict {
    match mine.place_in(queue) {
        None => Verdict::Missing,
        Some(place) if place < most => Verdict::Held,
        Some(place) => {
            let ahead = &queue[place - most..place];
            let predecessors = ahead.iter().map(|contender| contender.name.clone()).collect();
            Verdict::WaitForAny { predecessors, ahead: place }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::mode::Mode;

    fn queue(names: &[usize]) -> Vec<Contender> {
        let contender = |n: &usize| Contender::new(n.to_string(), *n as i64, Mode::Mutex);
        names.iter().map(contender).collect()
    }

    fn rule(queue: &[Contender], mine: &str, most: usize) -> Verdict {
        let sequence = mine.parse().unwrap();
        leases(queue, &Contender::new(mine, sequence, Mode::Mutex), most)
    }

    #[test]
    fn the_first_few_hold_and_the_others_watch_as_many_ahead() {
        let queue = queue(&[4, 5, 7, 8]);
        assert_eq!(rule(&queue, "4", 2), Verdict::Held);
        assert_eq!(rule(&queue, "5", 2), Verdict::Held);
        let watch = |names: [&str; 2], ahead| Verdict::WaitForAny {
            predecessors: names.map(str::to_owned).to_vec(),
            ahead,
        };
        assert_eq!(rule(&queue, "7", 2), watch(["4", "5"], 2));
        assert_eq!(rule(&queue, "8", 2), watch(["5", "7"], 3));
        assert_eq!(rule(&queue, "9", 2), Verdict::Missing);
    }

    /// In whichever order contenders leave: a waiter that is not woken must not be among the first.
    #[test]
    fn no_departure_of_others_is_missed() {
        const NODES: usize = 7;
        for most in 1..NODES {
            let all = queue(&(0..NODES).collect::<Vec<_>>());
            for mine in most..NODES {
                let Verdict::WaitForAny { predecessors, .. } = rule(&all, &mine.to_string(), most)
                else {
                    panic!("{mine} waits");
                };
                for left in 0..1_usize << mine {
                    let stays = |n: usize| left & (1 << n) != 0;
                    let ahead = (0..mine).filter(|n| stays(*n)).count();
                    let sleeps = predecessors.iter().all(|name| stays(name.parse().unwrap()));
                    assert!(ahead >= most || !sleeps, "{most} of {NODES}, {mine} sleeps, {left:b}");
                }
            }
        }
    }
}
