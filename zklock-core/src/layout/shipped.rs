//! The layouts that are shipped, for those who do not know whose nodes are in a directory.

use std::iter::once;
use std::sync::{Arc, LazyLock};

use crate::base::mode::Mode;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::layout::kazoo::Kazoo;
use crate::layout::kinds::{Kind, Sign, is_identifier_of_kazoo};
use crate::layout::plain::{HostNodes, Numbered, OneNode, ReadWriteNodes};

static SHIPPED: LazyLock<[Arc<dyn LockDriver>; 5]> = LazyLock::new(|| {
    [
        Arc::new(Curator),
        Arc::new(Kazoo::default()),
        Arc::new(Numbered::dlock()),
        Arc::new(ReadWriteNodes),
        Arc::new(HostNodes::here()),
    ]
});

/// The layouts of queues, a session's first. A node is of the first that can read its name.
pub fn queues(of_session: &Arc<dyn LockDriver>) -> impl Iterator<Item = &Arc<dyn LockDriver>> {
    once(of_session).chain(&*SHIPPED)
}

/// What the name of a child of a semaphore's directory says of a lock of the same path, in one of these layouts or as
/// the only node of [`OneNode`].
pub fn lock_beside_permits(child: &str, of_session: &Arc<dyn LockDriver>) -> Option<Sign> {
    // A permit of kazoo's, whatever the session's layout reads in it.
    if is_identifier_of_kazoo(child) {
        return None;
    }
    let queue = queues(of_session).find_map(|layout| layout.parse(child));
    let node = queue.or_else(|| OneNode.parse(child))?;
    (node.mode != Mode::Permit).then(|| Sign::Node(Kind::of(node.mode)))
}
