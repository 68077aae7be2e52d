//! The layouts of hand-written locks from widely copied articles. Their node names have room for
//! the number only.
//!
//! ```text
//! /zk_lock/sub_0000000004                 DLock and MyLock
//! /lock/lock-0000000004                   the algorithm in four steps
//! /lock-node/read-node0000000004          the read/write lock, data `read`
//! /lock-node/write-node0000000005         and `write`
//! /shared_lock/10.0.0.7-R-0000000004      the shared lock
//! /shared_lock/10.0.0.8-W-0000000005
//! /exclusive_lock/lock                    the exclusive lock
//! ```

use crate::base::mode::Mode;
use crate::base::owner::{Owner, REVOKE};
use crate::coordinator::node::NodeKind;
use crate::layout::contender::{Attempt, Contender};
use crate::layout::driver::{LockDriver, is_equal};
use crate::layout::new_node::Proof;

/// A queue of nodes whose names are a fixed word and the number. A node is recognised as one's own
/// by its payload.
///
/// ```
/// use zklock::driver::LockDriver;
/// use zklock::layout::Numbered;
///
/// // `/zk_lock/sub_0000000012` belongs to the lock `zk_lock` under the root `/`.
/// assert!(Numbered::dlock().parse("sub_0000000012").is_some());
/// assert!(Numbered::lock().parse("lock-0000000012").is_some());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered(&'static str);

impl Numbered {
    /// Returns the layout whose node names begin with `word`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Numbered;
    ///
    /// let lock = session.mutex("jobs")?.with_driver(Numbered::new("job-"));
    /// assert!(lock.acquire().await?.node_path().ends_with("/job-0000000000"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn new(word: &'static str) -> Self {
        Numbered(word)
    }

    /// Returns the layout of `DLock` and `MyLock`: `sub_0000000000`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Numbered;
    ///
    /// let lock = session.mutex("zk_lock")?.with_driver(Numbered::dlock());
    /// assert!(lock.acquire().await?.node_path().ends_with("/zk_lock/sub_0000000000"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn dlock() -> Self {
        Numbered("sub_")
    }

    /// Returns the layout with the names `lock-0000000000`.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::Numbered;
    ///
    /// let lock = session.mutex("lock")?.with_driver(Numbered::lock());
    /// assert!(lock.acquire().await?.node_path().ends_with("/lock/lock-0000000000"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn lock() -> Self {
        Numbered("lock-")
    }
}

impl LockDriver for Numbered {
    fn name(&self) -> String {
        format!("Numbered({:?})", self.0)
    }

    fn prefix(&self, _: &Attempt, _: Mode) -> String {
        self.0.to_owned()
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        if !name.starts_with(self.0) {
            return None;
        }
        Some(Contender::new(name, Contender::sequence_after(name, self.0)?, Mode::Mutex))
    }

    /// This layout has no writers.
    fn tells_writers(&self) -> bool {
        true
    }

    fn proof(&self) -> Proof {
        Proof::Payload
    }

    /// As the programs of the articles create it.
    fn directory(&self) -> NodeKind {
        NodeKind::Persistent
    }

    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        is_equal(self, other)
    }
}

/// A read/write lock with the nodes `read-node0000000000` with the data `read`, and
/// `write-node0000000000` with the data `write`. Nothing in a node is unique, so a process creates
/// its nodes for one lock one after the other.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::layout::ReadWriteNodes;
///
/// let lock = session.rw_lock("lock-node")?.with_driver(ReadWriteNodes);
/// assert!(lock.read().await?.node_path().ends_with("/read-node0000000000"));
/// assert!(lock.write().await?.node_path().ends_with("/write-node0000000001"));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadWriteNodes;

impl LockDriver for ReadWriteNodes {
    fn prefix(&self, _: &Attempt, mode: Mode) -> String {
        if mode == Mode::Read { "read-node".to_owned() } else { "write-node".to_owned() }
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let word = if name.starts_with("read-node") { "read-node" } else { "write-node" };
        let mode = if word == "read-node" { Mode::Read } else { Mode::Write };
        if !name.starts_with(word) {
            return None;
        }
        Some(Contender::new(name, Contender::sequence_after(name, word)?, mode))
    }

    fn payload(&self, _: &Attempt, mode: Mode, _: &Owner) -> Vec<u8> {
        if mode == Mode::Read { b"read".to_vec() } else { b"write".to_vec() }
    }

    fn proof(&self) -> Proof {
        Proof::Owner
    }

    fn owner(&self, _: &str, data: &[u8]) -> Owner {
        // Other data say nothing about a process.
        if data == REVOKE { Owner::from_payload(data) } else { Owner::default() }
    }

    fn directory(&self) -> NodeKind {
        NodeKind::Persistent
    }
}

/// A read/write lock with the nodes `HOST-R-0000000000` and `HOST-W-0000000000`, where `HOST` is the
/// name or address of the contender's host.
///
/// ```
/// use zklock::driver::LockDriver;
/// use zklock::layout::HostNodes;
///
/// let layout = HostNodes::of("10.0.0.7");
/// assert!(layout.parse("10.0.0.8-W-0000000003").is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNodes {
    host: String,
}

impl HostNodes {
    /// Returns the layout with the name of this host.
    ///
    /// ```
    /// use zklock::layout::HostNodes;
    /// use zklock::driver::{Attempt, LockDriver};
    /// use zklock::{Mode, Owner};
    ///
    /// let name = HostNodes::here().prefix(&Attempt::new(), Mode::Write);
    /// assert_eq!(name, format!("{}-W-", Owner::here(None).host));
    /// ```
    pub fn here() -> Self {
        HostNodes::of(Owner::here(None).host)
    }

    /// Returns the layout with a host's name or address.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::HostNodes;
    ///
    /// let lock = session.rw_lock("shared_lock")?.with_driver(HostNodes::of("10.0.0.7"));
    /// assert!(lock.read().await?.node_path().ends_with("/10.0.0.7-R-0000000000"));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn of(host: impl Into<String>) -> Self {
        HostNodes { host: host.into() }
    }
}

impl LockDriver for HostNodes {
    fn prefix(&self, _: &Attempt, mode: Mode) -> String {
        format!("{}-{}-", self.host, if mode == Mode::Read { 'R' } else { 'W' })
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let read = |marker, mode| Some((Contender::sequence_after(name, marker)?, mode));
        let (sequence, mode) = read("-R-", Mode::Read).or_else(|| read("-W-", Mode::Write))?;
        Some(Contender::new(name, sequence, mode))
    }

    fn proof(&self) -> Proof {
        Proof::Payload
    }

    /// The node of another client may have no data; its name contains the host.
    fn owner(&self, name: &str, data: &[u8]) -> Owner {
        let mut owner = Owner::from_payload(data);
        if owner.host.is_empty() {
            let end = name.rfind("-R-").max(name.rfind("-W-")).unwrap_or(0);
            name[..end].clone_into(&mut owner.host);
        }
        owner
    }

    fn directory(&self) -> NodeKind {
        NodeKind::Persistent
    }

    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        is_equal(self, other)
    }
}

/// An exclusive lock by a single ephemeral node `lock`, which every waiter tries to create, and
/// whose deletion wakes all waiters.
///
/// It is provided for services that use such a lock, and for comparison. **It herds**: each release
/// wakes every waiting process, all of them send a create request, and all but one of these fail.
/// With a hundred waiting processes, a release causes a hundred events and two hundred requests,
/// where the default layout causes at most two events. There is no order either: the first to send
/// wins, and a process can wait for ever. Only the tasks of one process are served in order. With `linger` the node
/// is deleted all the same, because nobody knows whether another process waits for it.
///
/// All nodes have the same name. If somebody deletes the node of a holder by hand, and another takes the
/// lock within the round trip in which that holder releases it, the release deletes the other's node.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::layout::OneNode;
///
/// let lock = session.mutex("exclusive_lock")?.with_driver(OneNode);
/// assert_eq!(lock.acquire().await?.node_path(), "/zklock/exclusive_lock/lock");
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OneNode;

/// The name of the node.
const ONE: &str = "lock";

impl LockDriver for OneNode {
    fn prefix(&self, _: &Attempt, _: Mode) -> String {
        ONE.to_owned()
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        (name == ONE).then(|| Contender::new(name, 0, Mode::Mutex))
    }

    fn proof(&self) -> Proof {
        Proof::Owner
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Ephemeral
    }

    fn directory(&self) -> NodeKind {
        NodeKind::Persistent
    }

    /// Unknown: waiters have no nodes.
    fn anybody_behind(&self, _: &[Contender], _: &str) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error_kind::ErrorKind;
    use crate::layout::check::check;
    use crate::layout::curator::Curator;
    use crate::layout::kazoo::Kazoo;
    use crate::layout::refined::Removed;
    use crate::layout::verdict::Verdict;

    #[test]
    fn every_layout_reads_what_it_writes() {
        let modes = |driver: &dyn LockDriver| {
            [Mode::Mutex, Mode::Read, Mode::Write].map(|mode| match check(driver, mode) {
                Ok(()) => true,
                Err(error) if error.kind() == ErrorKind::Unsupported => false,
                Err(error) => panic!("{error}"),
            })
        };
        assert_eq!(modes(&Numbered::dlock()), [true, false, false]);
        assert_eq!(modes(&Numbered::lock()), [true, false, false]);
        assert_eq!(modes(&ReadWriteNodes), [false, true, true]);
        assert_eq!(modes(&HostNodes::here()), [false, true, true]);
        assert_eq!(modes(&HostNodes::of("a-R-b")), [false, true, true]);
        assert_eq!(modes(&OneNode), [true, false, false]);
    }

    #[test]
    fn a_request_for_release_is_seen_where_the_data_say_nothing_of_a_process() {
        let owner = |data: &[u8]| ReadWriteNodes.owner("write-node0000000001", data);
        assert!(owner(REVOKE).revoked);
        assert_eq!(owner(b"write"), Owner::default());
    }

    #[test]
    fn a_deletion_is_a_grant_only_where_no_writer_looks_like_a_mutex() {
        let tells = |driver: &dyn LockDriver| {
            let names = [3, 7].map(|number| driver.example(Mode::Mutex, number));
            let queue = driver.queue(&names);
            let mine = Contender { mode: Mode::Mutex, ..queue[1].clone() };
            let verdict = driver.verdict(&queue, &mine);
            let grants = matches!(verdict, Verdict::Wait { deletion_grants: true, .. });
            assert_eq!(driver.tells_writers() && queue[0].mode == Mode::Mutex, grants);
            grants
        };
        assert!(tells(&Curator) && tells(&Removed::after(Curator)));
        assert!(tells(&Numbered::dlock()) && tells(&Numbered::lock()));
        assert!(!tells(&Kazoo::default()) && !tells(&Removed::after(Kazoo::default())));
        // They have no mutexes, and what is asked for as one is a writer.
        assert!(!tells(&ReadWriteNodes) && !tells(&HostNodes::here()));
        // A driver of one's own that says nothing about it.
        assert!(!tells(&Tickets));
    }

    #[derive(Debug)]
    struct Tickets;

    impl LockDriver for Tickets {
        fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
            format!("ticket-{}-", attempt.simple())
        }

        fn parse(&self, name: &str) -> Option<Contender> {
            Some(Contender::new(name, Contender::sequence_after(name, "-")?, Mode::Mutex))
        }
    }

    #[test]
    fn the_documents_names_are_read() {
        assert!(Numbered::dlock().parse("xsub_0000000001").is_none());
        assert!(Numbered::dlock().parse("sub_1").is_none());
        let write = ReadWriteNodes.parse("write-node0000000004");
        assert_eq!(write, Some(Contender::new("write-node0000000004", 4, Mode::Write)));
        assert!(ReadWriteNodes.parse("node0000000004").is_none());
        let read = HostNodes::here().parse("192.168.0.1-R-0000000001");
        assert_eq!(read, Some(Contender::new("192.168.0.1-R-0000000001", 1, Mode::Read)));
        let owner = HostNodes::here().owner("192.168.0.1-R-0000000001", b"");
        assert_eq!(owner.host, "192.168.0.1");
        for host in ["a-R-b", "a-W-b"] {
            for mode in [Mode::Read, Mode::Write] {
                let name = HostNodes::of(host).example(mode, 1);
                assert_eq!(HostNodes::here().owner(&name, b"").host, host);
            }
        }
        assert!(OneNode.parse("lock2").is_none());
    }

    #[test]
    fn payloads_are_unique_where_the_names_are_not() {
        let node =
            |attempt| Numbered::dlock().node(&attempt, Mode::Mutex, &Owner::here(Some("tests")));
        let (one, two) = (node(Attempt::new()), node(Attempt::new()));
        assert_ne!(one.payload, two.payload);
        assert_eq!(Owner::from_payload(&one.payload).app.as_deref(), Some("tests"));
    }
}
