//! A queue whose front is taken only if it fits.

use std::collections::VecDeque;

pub(super) fn pop_if<T>(queue: &mut VecDeque<T>, fits: impl FnOnce(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(fits) { queue.pop_front() } else { None }
}
