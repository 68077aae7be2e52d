//! A grant whose caller is dropped before it takes the grant.

use std::cell::RefCell;

use crate::base::unharmed::unharmed;
use crate::local::grant::Hold;

thread_local! {
    /// Those that are to be passed on, where this thread is just passing one on.
    static UNTAKEN: RefCell<Option<Vec<Hold>>> = const { RefCell::new(None) };
}

/// Passes it on. The next caller may be dropped where it is woken, and so on: that is done one after the other, and not
/// one within the other, which would overflow the stack where there are many.
pub(super) fn pass_on(hold: Hold) {
    let mut next = Some(hold);
    // There is no list on a thread that is ending.
    let _ = UNTAKEN.try_with(|untaken| match &mut *untaken.borrow_mut() {
        Some(untaken) => untaken.extend(next.take()),
        none => *none = Some(Vec::new()),
    });
    while let Some(hold) = next {
        unharmed(|| drop(hold));
        next = UNTAKEN.try_with(|untaken| take(&mut untaken.borrow_mut())).ok().flatten();
    }
}

/// The next one; if there is none, this thread passes none on any more.
fn take(untaken: &mut Option<Vec<Hold>>) -> Option<Hold> {
    let next = untaken.as_mut()?.pop();
    if next.is_none() {
        *untaken = None;
    }
    next
}
