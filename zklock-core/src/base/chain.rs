//! Chains of what refers to the next one.

use std::sync::Arc;

/// Drops a chain one link after the other, and not one within the other, which would overflow the stack where
/// it is long. `next` takes the next one out.
pub fn drop_chain<T>(first: Option<Arc<T>>, next: impl Fn(&mut T) -> Option<Arc<T>>) {
    let mut rest = first;
    while let Some(mut link) = rest.and_then(Arc::into_inner) {
        rest = next(&mut link);
    }
}
