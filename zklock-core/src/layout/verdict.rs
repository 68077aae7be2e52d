//! What a rule decides.

/// The decision of a rule.
///
/// ```
/// use zklock::Mode;
/// use zklock::driver::{Contender, Verdict, mutex};
///
/// let queue = [4, 7].map(|n| Contender::new(n.to_string(), n, Mode::Mutex));
/// let Verdict::Wait { predecessor, .. } = mutex(&queue, &queue[1]) else { unreachable!() };
/// assert_eq!(predecessor, "4");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The lock is held: no contender is in the way.
    Held,
    /// One contender is in the way.
    Wait {
        /// The name of the one node to watch.
        predecessor: String,
        /// Whether the deletion of that node is the grant, without another look at the queue.
        deletion_grants: bool,
        /// The number of contenders ahead.
        ahead: usize,
    },
    /// Several contenders are in the way. When one of them leaves, the queue is read again.
    WaitForAny {
        /// The names of the nodes to watch.
        predecessors: Vec<String>,
        /// The number of contenders ahead.
        ahead: usize,
    },
    /// There are too many contenders; any of them may leave.
    Crowded {
        /// By how many there are too many.
        excess: usize,
    },
    /// The waiter's own node is not in the queue.
    Missing,
}
