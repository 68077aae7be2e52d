//! What a rule decides.

/// The answer of a rule.
///
/// ```
/// use zklock::Mode;
/// use zklock::driver::{Contender, Verdict, mutex};
///
/// let queue = [4, 7].map(|n| Contender::new(n.to_string(), n, Mode::Mutex));
/// let Verdict::Wait { predecessor, .. } = mutex(&queue, &queue[1], true) else { unreachable!() };
/// assert_eq!(predecessor, "4");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody is in the way.
    Held,
    /// Somebody is.
    Wait {
        /// The name of the one node to watch.
        predecessor: String,
        /// Whether its deletion alone is the grant, without another look at the queue.
        deletion_grants: bool,
        /// How many contenders are ahead.
        ahead: usize,
    },
    /// Several are, and it is enough that one of them goes to look again.
    WaitForAny {
        /// The names of the nodes to watch.
        predecessors: Vec<String>,
        /// How many contenders are ahead.
        ahead: usize,
    },
    /// There are too many; any of them may go.
    Crowded {
        /// How many too many.
        excess: usize,
    },
    /// My node is not in the queue.
    Missing,
}
