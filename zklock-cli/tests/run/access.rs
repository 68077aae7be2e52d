//! Who may do what with a node.

use zklock_test_support::OpCode;

use crate::bed::raw;

/// All rights.
pub(crate) const ALL: u8 = 31;
/// All but the right to read the data and the children.
pub(crate) const BUT_READ: u8 = 30;
/// All but the right to delete children.
pub(crate) const BUT_DELETE: u8 = 23;

/// Lets everybody do this with a node, and nothing else.
pub(crate) fn allow(path: &str, rights: u8) {
    let length = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
    let field = |text: &str| [&length(text.len()), text.as_bytes()].concat();
    let entry = [&[0, 0, 0, rights], &*field("world"), &*field("anyone")].concat();
    // Whatever version the list has.
    let request = [&*field(path), &length(1), &entry, &[0xff; 4]].concat();
    raw().request(OpCode::SetAcl, &request).unwrap();
}
