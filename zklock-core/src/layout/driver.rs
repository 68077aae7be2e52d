//! The lock driver: how the nodes of a lock are named, read and ordered, and which of them holds
//! it.

use std::any::{Any, TypeId, type_name};
use std::fmt;

use crate::base::mode::Mode;
use crate::base::owner::Owner;
use crate::coordinator::node::NodeKind;
use crate::layout::contender::{Attempt, Contender};
use crate::layout::kinds::{Sign, semaphore_beside_lock};
use crate::layout::new_node::{NewNode, Proof};
use crate::layout::rules::behind::anybody_behind;
use crate::layout::rules::mutex::{mutex, mutex_among_hidden_writers};
use crate::layout::rules::read_write::{read, write};
use crate::layout::semaphore_layout::SemaphoreLayout;
use crate::layout::verdict::Verdict;

/// Decides how a lock is laid out in ZooKeeper, and by which rule it is held. The layouts that the
/// crate provides are in [`layout`](crate::layout). In Curator this trait is called
/// `LockInternalsDriver`.
///
/// A custom driver consists of a few lines of naming and parsing; it inherits the rules of mutexes,
/// readers and writers. One with fields says in [`is_same_layout`](LockDriver::is_same_layout) which
/// others name and order their nodes as it does; its `Debug` output is for people.
///
/// Hidden methods are not part of the API: they may change in any release. Each has a default that is
/// right for every driver, also for one that wraps another and does not pass them on. They only decide
/// about warnings and errors, and never about who holds the lock: such a wrapper of Curator's layout does
/// not report that a client of Curator uses its name as the other of a mutex and a read/write lock, and such a wrapper of
/// [`MaxLeases`](crate::layout::refined::MaxLeases) fails for a single node that is not ephemeral,
/// although other holders may leave.
///
/// ```
/// use zklock::driver::{Attempt, Contender, LockDriver};
/// use zklock::Mode;
///
/// #[derive(Debug)]
/// struct Tickets;
///
/// impl LockDriver for Tickets {
///     fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
///         format!("ticket-{}-", attempt.simple())
///     }
///
///     fn parse(&self, name: &str) -> Option<Contender> {
///         let attempt = name.strip_prefix("ticket-")?;
///         Some(Contender::new(name, Contender::sequence_after(attempt, "-")?, Mode::Mutex))
///     }
/// }
/// ```
pub trait LockDriver: Any + fmt::Debug + Send + Sync {
    /// Returns the beginning of the name of a new node. It contains `attempt`, if the layout has
    /// room for it: then a node whose creation was not answered is found again by its name.
    /// Otherwise [`proof`](LockDriver::proof) must say how.
    ///
    /// ```
    /// use zklock::layout::HostNodes;
    /// use zklock::driver::{Attempt, LockDriver};
    /// use zklock::Mode;
    ///
    /// let prefix = HostNodes::of("10.0.0.7").prefix(&Attempt::new(), Mode::Read);
    /// assert_eq!(prefix, "10.0.0.7-R-");
    /// ```
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String;

    /// Parses the name of a node. Returns `None` for a node that is not a contender; nobody waits
    /// for it.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::Numbered;
    ///
    /// let contender = Numbered::dlock().parse("sub_0000000012");
    /// assert_eq!(contender.map(|contender| contender.sequence), Some(12));
    /// assert_eq!(Numbered::dlock().parse("config"), None);
    /// ```
    fn parse(&self, name: &str) -> Option<Contender>;

    /// Returns the data of a new node: a JSON description of the process, with the attempt in it if
    /// that is the [proof](LockDriver::proof).
    ///
    /// ```
    /// use zklock::layout::ReadWriteNodes;
    /// use zklock::driver::{Attempt, LockDriver};
    /// use zklock::{Mode, Owner};
    ///
    /// let data = ReadWriteNodes.payload(&Attempt::new(), Mode::Write, &Owner::here(None));
    /// assert_eq!(data, b"write");
    /// ```
    fn payload(&self, attempt: &Attempt, _mode: Mode, owner: &Owner) -> Vec<u8> {
        match self.proof() {
            Proof::Payload => owner.clone().attempt(attempt.hyphenated()).to_payload(),
            Proof::Name | Proof::Owner => owner.to_payload(),
        }
    }

    /// Returns the name of the layout, for display: by default, the name of its type. Errors show it to
    /// the clients of a service, so it must name no host, process or application.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::{Curator, HostNodes, Removed};
    ///
    /// assert_eq!(HostNodes::of("db7").name(), "HostNodes");
    /// assert_eq!(Removed::after(Curator).name(), "Removed<Curator>");
    /// ```
    fn name(&self) -> String {
        without_paths(type_name::<Self>())
    }

    /// Returns how a node is found again: by its name, unless the layout has no room there.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::ReadWriteNodes;
    /// use zklock::driver::Proof;
    ///
    /// // The names and data of all nodes are the same.
    /// assert_eq!(ReadWriteNodes.proof(), Proof::Owner);
    /// ```
    fn proof(&self) -> Proof {
        Proof::Name
    }

    /// Returns the process that created a node, as its name and data say.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::{Curator, HostNodes};
    ///
    /// assert_eq!(Curator.owner("_c_7-lock-0000000004", b"10.0.0.7").host, "10.0.0.7");
    /// assert_eq!(HostNodes::here().owner("10.0.0.8-W-0000000004", b"").host, "10.0.0.8");
    /// ```
    fn owner(&self, _name: &str, data: &[u8]) -> Owner {
        Owner::from_payload(data)
    }

    /// Returns whether ZooKeeper numbers the nodes, as in every queue, or all contenders try to
    /// create the one node that [`prefix`](LockDriver::prefix) names ([`NodeKind::Ephemeral`]).
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::{Curator, OneNode};
    /// use zklock::driver::NodeKind;
    ///
    /// assert_eq!(Curator.kind(), NodeKind::EphemeralSequential);
    /// assert_eq!(OneNode.kind(), NodeKind::Ephemeral);
    /// ```
    fn kind(&self) -> NodeKind {
        NodeKind::EphemeralSequential
    }

    /// Returns the kind of a directory that has to be created: by default a container, which
    /// ZooKeeper removes when it has been empty for a while.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::{Curator, Kazoo};
    /// use zklock::driver::NodeKind;
    ///
    /// assert_eq!(Curator.directory(), NodeKind::Container);
    /// assert_eq!(Kazoo::default().directory(), NodeKind::Persistent);
    /// ```
    fn directory(&self) -> NodeKind {
        NodeKind::Container
    }

    /// Returns whether the directory is removed in the background after a release, if it is empty. A wait that is
    /// given up does not remove it.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::{Curator, Removed};
    ///
    /// assert!(!Curator.removes_directory());
    /// assert!(Removed::after(Curator).removes_directory());
    /// ```
    fn removes_directory(&self) -> bool {
        false
    }

    /// Returns whether a holder can leave a mark in the data of the directory, for
    /// [`lock_delay`](crate::base::options::LockOptions::lock_delay) and
    /// [`hold_at_least`](crate::base::options::LockOptions::hold_at_least): there is one holder,
    /// its node has a unique name, and the directory stays.
    ///
    /// ```
    /// use zklock::driver::LockDriver as _;
    /// use zklock::layout;
    ///
    /// assert!(layout::Curator.keeps_marks());
    /// assert!(!layout::Removed::after(layout::Curator).keeps_marks());
    /// ```
    fn keeps_marks(&self) -> bool {
        self.proof() == Proof::Name
            && self.kind() == NodeKind::EphemeralSequential
            && !self.removes_directory()
    }

    /// Returns the layout of semaphores beside locks of this layout: Curator's by default.
    ///
    /// ```
    /// use zklock::driver::LockDriver as _;
    /// use zklock::layout;
    /// use zklock::driver::SemaphoreLayout;
    ///
    /// assert_eq!(layout::Curator.semaphore(), SemaphoreLayout::Curator);
    /// assert_ne!(layout::Kazoo::default().semaphore(), SemaphoreLayout::Curator);
    /// ```
    fn semaphore(&self) -> SemaphoreLayout {
        SemaphoreLayout::Curator
    }

    /// Returns whether the node of a holder may outlive its session. If not, such a node belongs to
    /// nobody, and a waiter that waits for nothing else fails after a session timeout (at least 5 s).
    ///
    /// ```
    /// use zklock::driver::LockDriver as _;
    /// use zklock::layout;
    ///
    /// assert!(!layout::Curator.holders_may_stay());
    /// assert!(layout::Kazoo::default().holders_may_stay()); // kazoo's `ephemeral=False`
    /// ```
    fn holders_may_stay(&self) -> bool {
        false
    }

    /// Returns whether other clients of this layout count a child that is not a contender, and wait
    /// for it if their own node has the number of this contender, and is of its mode.
    #[doc(hidden)]
    fn is_counted_by_others(&self, _child: &str, _before: &Contender) -> bool {
        false
    }

    /// What the name of a child says of another kind of lock of this path, whose nodes and those of a lock of
    /// this mode do not see each other. What a semaphore sees is the same in all layouts.
    #[doc(hidden)]
    fn sign_of_another_kind(&self, child: &str, _mode: Mode) -> Option<Sign> {
        semaphore_beside_lock(child).filter(|_| self.parse(child).is_none())
    }

    /// Returns the number of simultaneous holders, if the layout limits it by a number.
    #[doc(hidden)]
    fn most(&self) -> Option<usize> {
        None
    }

    /// Returns whether the lock can be acquired in this mode: by default, if the names show the
    /// mode.
    ///
    /// ```
    /// use zklock::layout::Numbered;
    /// use zklock::driver::LockDriver;
    /// use zklock::Mode;
    ///
    /// assert!(Numbered::lock().supports(Mode::Mutex));
    /// assert!(!Numbered::lock().supports(Mode::Read));
    /// ```
    fn supports(&self, mode: Mode) -> bool {
        self.parse(&self.example(mode, 0)).is_some_and(|contender| contender.mode == mode)
    }

    /// Returns whether the name of a node shows that a writer created it: by default, if the name
    /// of a writer does.
    ///
    /// A writer that downgrades leaves a reader in its place. So a waiter for a mutex, when the
    /// node ahead is deleted, reads the queue again if that node may have been a writer's, and
    /// otherwise holds the lock without another read. A layout without writers returns true, and
    /// saves this read.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::{Curator, Kazoo, Numbered};
    ///
    /// assert!(Curator.tells_writers());
    /// assert!(!Kazoo::default().tells_writers()); // A `WriteLock` names its nodes like a `Lock`.
    /// assert!(Numbered::dlock().tells_writers()); // It has no writers.
    /// ```
    fn tells_writers(&self) -> bool {
        let writer = self.parse(&self.example(Mode::Write, 0));
        writer.is_some_and(|contender| contender.mode == Mode::Write)
    }

    /// Returns whether `mine` holds the lock in a sorted queue, or which node it watches. Within
    /// one mode, no contender behind a waiter holds the lock.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::Numbered;
    /// use zklock::driver::Verdict;
    ///
    /// let names = ["sub_0000000004", "sub_0000000007"].map(str::to_owned);
    /// let queue = Numbered::dlock().queue(&names);
    /// let verdict = |place: usize| Numbered::dlock().verdict(&queue, &queue[place]);
    /// assert_eq!(verdict(0), Verdict::Held);
    /// assert!(matches!(verdict(1), Verdict::Wait { ahead: 1, .. }));
    /// ```
    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        match mine.mode {
            // Semaphores have a driver of their own.
            Mode::Mutex | Mode::Permit if self.tells_writers() => mutex(queue, mine),
            Mode::Mutex | Mode::Permit => mutex_among_hidden_writers(queue, mine),
            Mode::Read => read(queue, mine),
            Mode::Write => write(queue, mine),
        }
    }

    /// Returns whether a contender behind `mine` waits for it.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::Numbered;
    ///
    /// let names = ["sub_0000000004", "sub_0000000007"].map(str::to_owned);
    /// let queue = Numbered::dlock().queue(&names);
    /// assert!(Numbered::dlock().anybody_behind(&queue, &names[0]));
    /// assert!(!Numbered::dlock().anybody_behind(&queue, &names[1]));
    /// ```
    fn anybody_behind(&self, queue: &[Contender], mine: &str) -> bool {
        anybody_behind(queue, mine)
    }

    /// Returns the node that an attempt creates.
    ///
    /// ```
    /// use zklock::layout::OneNode;
    /// use zklock::driver::{Attempt, LockDriver};
    /// use zklock::{Mode, Owner};
    ///
    /// let node = OneNode.node(&Attempt::new(), Mode::Mutex, &Owner::here(None));
    /// assert_eq!(node.prefix, "lock");
    /// ```
    fn node(&self, attempt: &Attempt, mode: Mode, owner: &Owner) -> NewNode {
        let (prefix, payload) = (self.prefix(attempt, mode), self.payload(attempt, mode, owner));
        NewNode { prefix, payload, proof: self.proof(), kind: self.kind() }
    }

    /// Returns the contenders among the children of a lock's directory, in the order of the queue.
    ///
    /// ```
    /// use zklock::driver::LockDriver;
    /// use zklock::layout::Numbered;
    ///
    /// let children = ["sub_0000000007", "config", "sub_0000000004"].map(str::to_owned);
    /// let queue = Numbered::dlock().queue(&children);
    /// assert_eq!(queue.iter().map(|one| one.sequence).collect::<Vec<_>>(), [4, 7]);
    /// ```
    fn queue(&self, children: &[String]) -> Vec<Contender> {
        let mut queue: Vec<_> = children.iter().filter_map(|name| self.parse(name)).collect();
        Contender::sort(&mut queue);
        queue
    }

    /// Returns whether another driver names and orders nodes as this one does, so that they exclude
    /// each other. A process that uses a lock in two layouts gets an error.
    ///
    /// By default, a driver without fields is the same layout as all others of its type, and a driver
    /// with fields is the same only as itself. The latter should compare the fields that matter, if
    /// it is given more than once.
    ///
    /// ```
    /// use std::any::{Any, TypeId};
    /// use zklock::Mode;
    /// use zklock::driver::{Attempt, Contender, LockDriver};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Tickets(&'static str);
    ///
    /// impl LockDriver for Tickets {
    ///     fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
    ///         format!("{}-{}-", self.0, attempt.simple())
    ///     }
    ///
    ///     fn parse(&self, name: &str) -> Option<Contender> {
    ///         let attempt = name.strip_prefix(self.0)?;
    ///         Some(Contender::new(name, Contender::sequence_after(attempt, "-")?, Mode::Mutex))
    ///     }
    ///
    ///     fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
    ///         (other as &dyn Any).downcast_ref() == Some(self)
    ///     }
    /// }
    ///
    /// assert!(Tickets("a").is_same_layout(&Tickets("a")));
    /// assert!(!Tickets("a").is_same_layout(&Tickets("b")));
    /// ```
    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        let is_of_type = (other as &dyn Any).type_id() == TypeId::of::<Self>();
        is_of_type && (size_of_val(self) == 0 || std::ptr::addr_eq(self, other))
    }

    /// The name of a node with this number, as an example.
    #[doc(hidden)]
    fn example(&self, mode: Mode, number: i64) -> String {
        let prefix = self.prefix(&Attempt::new(), mode);
        if self.kind() == NodeKind::Ephemeral { prefix } else { format!("{prefix}{number:010}") }
    }
}

/// The name of a type without the modules that it and its parameters are in.
fn without_paths(name: &str) -> String {
    // A type in a function may be in `{{closure}}`.
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '{' | '}');
    let parts = name.split_inclusive(|c| !is_path(c));
    parts.map(|part| part.rsplit_once("::").map_or(part, |(_, last)| last)).collect()
}

/// Whether a driver is of the type of this one, and equal to it.
pub fn is_equal<D: LockDriver + PartialEq>(one: &D, other: &dyn LockDriver) -> bool {
    (other as &dyn Any).downcast_ref() == Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_shown_without_its_modules() {
        assert_eq!(without_paths("a::b::Removed<c::Kazoo<d::E>, f::G>"), "Removed<Kazoo<E>, G>");
        assert_eq!(without_paths("a::main::{{closure}}::D<b::E>"), "D<E>");
        assert_eq!(a::Same.name(), "Same");
    }

    /// One of whose fields nobody sees, and another that says nothing of the layout.
    struct Told {
        prefix: &'static str,
        shown: &'static str,
    }

    impl fmt::Debug for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.shown)
        }
    }

    impl LockDriver for Told {
        fn prefix(&self, _: &Attempt, _: Mode) -> String {
            self.prefix.to_owned()
        }
        fn parse(&self, _: &str) -> Option<Contender> {
            None
        }
        fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
            let other = (other as &dyn Any).downcast_ref::<Self>();
            other.is_some_and(|other| other.prefix == self.prefix)
        }
    }

    /// One with a field, that says nothing of which others are the same.
    #[derive(Clone, Debug)]
    struct Silent(&'static str);

    impl LockDriver for Silent {
        fn prefix(&self, _: &Attempt, _: Mode) -> String {
            self.0.to_owned()
        }
        fn parse(&self, _: &str) -> Option<Contender> {
            None
        }
    }

    #[test]
    fn a_layout_is_what_it_says_and_not_what_it_shows() {
        let [one, twin] = ["one", "two"].map(|shown| Told { prefix: "a-", shown });
        let other = Told { prefix: "b-", shown: "one" };
        assert!(one.is_same_layout(&twin) && !one.is_same_layout(&other));
        let silent = Silent("a-");
        assert!(!one.is_same_layout(&silent) && !silent.is_same_layout(&one));
        // One that says nothing has nothing in common with others that may have other fields.
        let clone = silent.clone();
        assert!(silent.is_same_layout(&silent) && !silent.is_same_layout(&clone));
        assert!(a::Same.is_same_layout(&a::Same) && !a::Same.is_same_layout(&b::Same));
    }

    macro_rules! same {
        ($($module:ident)*) => {$(mod $module {
            use super::*;

            #[derive(Debug)]
            pub(super) struct Same;

            impl LockDriver for Same {
                fn prefix(&self, _: &Attempt, _: Mode) -> String {
                    String::new()
                }
                fn parse(&self, _: &str) -> Option<Contender> {
                    None
                }
            }
        })*};
    }
    same!(a b);
}
