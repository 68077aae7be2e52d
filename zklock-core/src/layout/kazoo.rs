//! kazoo's layout.
//!
//! ```text
//! <lock>/be2ee212c5074b18a73381c86278175c__lock__0000000004    Lock, WriteLock
//! <lock>/be2ee212c5074b18a73381c86278175c__rlock__0000000005   ReadLock
//! ```

use crate::base::mode::Mode;
use crate::base::owner::Owner;
use crate::coordinator::node::NodeKind;
use crate::layout::contender::{Attempt, Contender};
use crate::layout::driver::{LockDriver, is_equal};
use crate::layout::semaphore_layout::SemaphoreLayout;

/// The layout of kazoo's `Lock`, `ReadLock`, `WriteLock` and `Semaphore`: locks of zklock and of a
/// Python service on the same path exclude each other.
///
/// Parents are persistent, because a kazoo lock object fails for ever after its parent was removed.
/// In Python, `contenders()` returns the payloads: JSON with host, process and application, or the
/// [identifier](Kazoo::identifier) given here.
///
/// ```
/// use zklock::driver::LockDriver;
/// use zklock::layout::Kazoo;
///
/// let contender = Kazoo::default().parse("be2ee212c5074b18a73381c86278175c__rlock__0000000004");
/// assert_eq!(contender.map(|contender| contender.sequence), Some(4));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kazoo {
    identifier: Option<String>,
}

impl Kazoo {
    /// Sets the payload of the nodes to `identifier`, like that of kazoo's own locks.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Kazoo;
    ///
    /// let imports = session.mutex("imports")?.with_driver(Kazoo::default().identifier("worker-7"));
    /// let _guard = imports.acquire().await?;
    /// // The result of `Lock.contenders()` in Python.
    /// assert_eq!(imports.site().contenders().await?[0].owner.host, "worker-7");
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn identifier(mut self, identifier: impl Into<String>) -> Self {
        self.identifier = Some(identifier.into());
        self
    }
}

impl LockDriver for Kazoo {
    fn name(&self) -> String {
        "kazoo".to_owned()
    }

    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        let marker = if mode == Mode::Read { "__rlock__" } else { "__lock__" };
        attempt.simple() + marker
    }

    /// The nodes of a writer look like those of a mutex.
    fn parse(&self, name: &str) -> Option<Contender> {
        let read = |marker, mode| Some((Contender::sequence_after(name, marker)?, mode));
        let (sequence, mode) =
            read("__rlock__", Mode::Read).or_else(|| read("__lock__", Mode::Mutex))?;
        Some(Contender::new(name, sequence, mode))
    }

    fn payload(&self, _: &Attempt, _: Mode, owner: &Owner) -> Vec<u8> {
        owner.to_payload_or(self.identifier.as_deref())
    }

    fn directory(&self) -> NodeKind {
        NodeKind::Persistent
    }

    fn semaphore(&self) -> SemaphoreLayout {
        SemaphoreLayout::Kazoo { identifier: self.identifier.clone() }
    }

    /// kazoo's `acquire(ephemeral=False)` makes such nodes.
    fn holders_may_stay(&self) -> bool {
        true
    }

    fn supports(&self, _: Mode) -> bool {
        true
    }

    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        is_equal(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::check::check;
    use crate::layout::verdict::Verdict;

    #[test]
    fn names_of_kazoo_are_read() {
        let id = "be2ee212c5074b18a73381c86278175c";
        for (name, sequence, mode) in [
            (format!("{id}__lock__0000000000"), 0, Mode::Mutex),
            (format!("{id}__rlock__0000000012"), 12, Mode::Read),
            (format!("{id}__lock__-2147483648"), -2_147_483_648, Mode::Mutex),
        ] {
            let read = Kazoo::default().parse(&name);
            assert_eq!(read, Some(Contender::new(name, sequence, mode)));
        }
        for foreign in ["0", id, "__lock__", "__lock__1", "_c_x-lock-0000000001"] {
            assert_eq!(Kazoo::default().parse(foreign), None, "{foreign}");
        }
        for mode in [Mode::Mutex, Mode::Read, Mode::Write] {
            assert!(check(&Kazoo::default(), mode).is_ok(), "{mode}");
        }
    }

    #[test]
    fn a_reader_waits_for_locks_and_a_writer_for_all() {
        let children = ["a__rlock__0000000001", "b__lock__0000000002", "c__rlock__0000000003"];
        let queue = Kazoo::default().queue(&children.map(str::to_owned));
        let verdict = |place: usize, mode| {
            let mine = Contender { mode, ..queue[place].clone() };
            match Kazoo::default().verdict(&queue, &mine) {
                Verdict::Wait { predecessor, .. } => Some(predecessor),
                _ => None,
            }
        };
        assert_eq!(verdict(0, Mode::Read), None);
        assert_eq!(verdict(1, Mode::Write).as_deref(), Some(children[0]));
        assert_eq!(verdict(1, Mode::Mutex).as_deref(), Some(children[0]));
        assert_eq!(verdict(2, Mode::Read).as_deref(), Some(children[1]));
    }
}
