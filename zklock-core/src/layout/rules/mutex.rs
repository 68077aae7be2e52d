//! The rule of the mutex.
//!
//! ```text
//! queue   0000000004   0000000007   0000000009   0000000012 (mine)
//!         holder       watches 4    watches 4    watches 7, and nothing else
//! ```

use crate::base::mode::Mode;
use crate::layout::contender::Contender;
use crate::layout::verdict::Verdict;

/// Held by the first contender of the queue; all others watch one node. For queues whose names show
/// the writers: in others, [`mutex_among_hidden_writers`] is right.
///
/// The second watches the first, whose deletion is its grant: later nodes get greater numbers, so
/// nobody can appear in between. All others watch the node two places ahead. When that is deleted,
/// the waiter is probably second, and reads the queue while another still holds the lock; so no
/// list is needed between one holder and the next. A release wakes at most two waiters: the one
/// whose turn it is, and the one after it. A waiter does not notice when the node directly ahead is
/// deleted, and need not: it does not hold the lock before the watched node is gone, too.
///
/// Behind a writer, a deletion is not a grant, because a downgraded writer leaves a reader in its
/// place; then the waiter watches the node just ahead.
///
/// ```
/// use zklock::Mode;
/// use zklock::driver::{Contender, Verdict, mutex};
///
/// let queue = [4, 7].map(|n| Contender::new(n.to_string(), n, Mode::Mutex));
/// assert_eq!(mutex(&queue, &queue[0]), Verdict::Held);
/// let behind = mutex(&queue, &queue[1]);
/// assert!(matches!(behind, Verdict::Wait { ahead: 1, deletion_grants: true, .. }));
/// ```
pub fn mutex(queue: &[Contender], mine: &Contender) -> Verdict {
    behind(queue, mine, |ahead| ahead.mode == Mode::Mutex)
}

/// The rule of the [`mutex`] where any node ahead may be a writer's, because the names do not
/// [show it](crate::layout::driver::LockDriver::tells_writers).
///
/// No deletion is a grant, because a downgraded writer leaves a reader in its place. So every waiter
/// watches the node just ahead, and a release wakes one.
///
/// ```
/// use zklock::Mode;
/// use zklock::driver::{Contender, Verdict, mutex_among_hidden_writers};
///
/// let queue = [4, 7].map(|n| Contender::new(n.to_string(), n, Mode::Mutex));
/// let behind = mutex_among_hidden_writers(&queue, &queue[1]);
/// assert!(matches!(behind, Verdict::Wait { ahead: 1, deletion_grants: false, .. }));
/// ```
pub fn mutex_among_hidden_writers(queue: &[Contender], mine: &Contender) -> Verdict {
    behind(queue, mine, |_| false)
}

/// `is_mutex`: whether a contender is certainly no writer.
fn behind(
    queue: &[Contender],
    mine: &Contender,
    is_mutex: impl FnOnce(&Contender) -> bool,
) -> Verdict {
    let Some(place) = mine.place_in(queue) else { return Verdict::Missing };
    let Some(next) = place.checked_sub(1) else { return Verdict::Held };
    let grants = is_mutex(&queue[next]);
    let watched = if grants { next.saturating_sub(1) } else { next };
    Verdict::Wait {
        predecessor: queue[watched].name.clone(),
        deletion_grants: grants && place == 1,
        ahead: place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Vec<Contender> {
        let contender = |name: &str, sequence| Contender::new(name, sequence, Mode::Mutex);
        vec![contender("c", 1), contender("b", 2), contender("a", 10), contender("d", 11)]
    }

    /// By its name alone, as one whose name does not tell its mode.
    fn rule(queue: &[Contender], mine: &str) -> Verdict {
        mutex(queue, &Contender::new(mine, 0, Mode::Mutex))
    }

    fn waits(predecessor: &str, deletion_grants: bool, ahead: usize) -> Verdict {
        Verdict::Wait { predecessor: predecessor.into(), deletion_grants, ahead }
    }

    #[test]
    fn the_first_holds_the_second_watches_it_and_the_others_the_one_two_ahead() {
        assert_eq!(rule(&queue(), "c"), Verdict::Held);
        assert_eq!(rule(&queue(), "b"), waits("c", true, 1));
        assert_eq!(rule(&queue(), "a"), waits("c", false, 2));
        assert_eq!(rule(&queue(), "d"), waits("b", false, 3));
        assert_eq!(rule(&queue(), "e"), Verdict::Missing);
    }

    #[test]
    fn the_deletion_of_a_writer_is_no_grant() {
        let mut queue = queue();
        queue[0].mode = Mode::Write;
        assert_eq!(rule(&queue, "b"), waits("c", false, 1));
        // Behind another mutex it is as always.
        assert_eq!(rule(&queue, "a"), waits("c", false, 2));
        queue[1].mode = Mode::Write;
        assert_eq!(rule(&queue, "a"), waits("b", false, 2));
    }

    #[test]
    fn no_deletion_is_a_grant_where_any_may_be_a_writers() {
        let rule = |mine: &str| {
            mutex_among_hidden_writers(&queue(), &Contender::new(mine, 0, Mode::Mutex))
        };
        assert_eq!(rule("b"), waits("c", false, 1));
        assert_eq!(rule("a"), waits("b", false, 2));
    }

    const NODES: usize = 6;

    /// Of each node that is there: whom its owner watches, and whether that one's end is its grant.
    type Watching = Vec<Option<(usize, bool)>>;

    fn look(left: &[bool], mine: usize) -> Option<(usize, bool)> {
        let there = (0..NODES).filter(|node| left[*node]);
        let contender = |node: usize| Contender::new(node.to_string(), node as i64, Mode::Mutex);
        match mutex(&there.map(contender).collect::<Vec<_>>(), &contender(mine)) {
            Verdict::Held => None,
            Verdict::Wait { predecessor, deletion_grants, .. } => {
                Some((predecessor.parse().unwrap(), deletion_grants))
            }
            other => panic!("{other:?}"),
        }
    }

    /// One goes after the other, in every order, whether it held or gave up; who hears of it looks
    /// again at once.
    fn depart(left: &mut Vec<bool>, watching: &Watching) {
        for gone in (0..NODES).filter(|node| left[*node]).collect::<Vec<_>>() {
            left[gone] = false;
            let first = left.iter().position(|there| *there);
            let (mut now, mut woken) = (watching.clone(), 0);
            for mine in (0..NODES).filter(|node| left[*node]) {
                if let Some((watched, grants)) = watching[mine]
                    && watched == gone
                {
                    woken += 1;
                    assert!(!grants || first == Some(mine), "{mine} enters, {gone} went: {left:?}");
                    now[mine] = if grants { None } else { look(left, mine) };
                }
            }
            assert!(woken <= 2, "{woken} wake when {gone} goes: {left:?}");
            // Whose turn it is knows; nobody else thinks so.
            for mine in (0..NODES).filter(|node| left[*node]) {
                assert_eq!(now[mine].is_none(), first == Some(mine), "{mine}: {left:?}");
            }
            depart(left, &now);
            left[gone] = true;
        }
    }

    #[test]
    fn in_whatever_order_they_go_the_next_enters_alone_and_at_most_two_wake() {
        let mut left = vec![true; NODES];
        let watching = (0..NODES).map(|mine| look(&left, mine)).collect();
        depart(&mut left, &watching);
    }
}
