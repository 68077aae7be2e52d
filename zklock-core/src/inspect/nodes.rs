//! Lists of nodes, compared with each other. A queue may be long, and is compared at each of its changes:
//! no node is looked for among all others.
//!
//! What a node is called may be of any type, so that a test can count the comparisons.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// What is different in a queue since an earlier look, each in the order of its queue.
#[derive(Debug)]
pub(crate) struct Changes<'q, T> {
    pub(crate) left: Vec<&'q T>,
    pub(crate) joined: Vec<&'q T>,
    /// Those that hold the lock, and did not.
    pub(crate) granted: Vec<&'q T>,
}

/// Compares two looks at a queue. `of` says which node a contender has, and whether it holds the lock.
pub(crate) fn changes<'q, T, N: Eq + Hash>(
    before: &'q [T],
    now: &'q [T],
    of: impl Fn(&'q T) -> (N, bool),
) -> Changes<'q, T> {
    let [was, is] = [before, now].map(|queue| queue.iter().map(&of).collect::<HashMap<_, _>>());
    let left = before.iter().filter(|one| !is.contains_key(&of(one).0)).collect();
    let (mut joined, mut granted) = (Vec::new(), Vec::new());
    for one in now {
        let (node, holds) = of(one);
        let held = was.get(&node);
        if held.is_none() {
            joined.push(one);
        }
        if holds && held != Some(&true) {
            granted.push(one);
        }
    }
    Changes { left, joined, granted }
}

/// Takes those out of a list whose names are among these.
pub(crate) fn take_out<T, N: Eq + Hash>(
    list: &mut Vec<T>,
    names: &HashSet<N>,
    name: impl Fn(&T) -> &N,
) {
    list.retain(|one| !names.contains(name(one)));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;

    thread_local! {
        /// How often names were compared.
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// The name of a node, which counts how often it is compared with another.
    #[derive(Clone, Copy)]
    struct Name(u64);

    impl PartialEq for Name {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Name {}

    impl Hash for Name {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    const LENGTHS: [u64; 2] = [500, 4_000];

    /// In a table a name is compared with its own, and rarely with another.
    fn few(length: u64) {
        let each = COMPARED.take() / length;
        assert!(each <= 4, "{each} names compared with each of {length}");
    }

    #[test]
    fn of_a_long_queue_each_name_is_compared_with_few() {
        for length in LENGTHS {
            // The first one holds the lock.
            let queue = |first: u64| {
                let names = (first..first + length).map(|number| (Name(number), number == first));
                names.collect::<Vec<_>>()
            };
            for gone in [1, length / 2] {
                let (before, now) = (queue(0), queue(gone));
                let Changes { left, joined, granted } = changes(&before, &now, |one| *one);
                assert_eq!((left.len(), joined.len()), (gone as usize, gone as usize));
                assert_eq!((granted.len(), granted[0].0.0), (1, gone));
                few(length);
            }
        }
    }

    #[test]
    fn of_a_long_list_each_name_is_looked_for_among_few() {
        for length in LENGTHS {
            let mut list: Vec<_> = (0..length).map(Name).collect();
            let half: HashSet<_> = list.iter().take(list.len() / 2).copied().collect();
            take_out(&mut list, &half, |name| name);
            assert_eq!((list.len() as u64, list[0].0), (length / 2, length / 2));
            few(length);
        }
    }
}
