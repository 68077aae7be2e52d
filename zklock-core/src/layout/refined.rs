//! Layouts that wrap another layout.

use std::any::Any;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::owner::Owner;
use crate::coordinator::node::NodeKind;
use crate::layout::contender::{Attempt, Contender};
use crate::layout::driver::LockDriver;
use crate::layout::kinds::Sign;
use crate::layout::new_node::{NewNode, Proof};
use crate::layout::rules::leases::leases;
use crate::layout::semaphore_layout::SemaphoreLayout;
use crate::layout::verdict::Verdict;

/// Delegates everything to the wrapped layout, except what is given besides.
macro_rules! as_below {
    () => {
        fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
            self.layout.prefix(attempt, mode)
        }
        fn parse(&self, name: &str) -> Option<Contender> {
            self.layout.parse(name)
        }
        fn node(&self, attempt: &Attempt, mode: Mode, owner: &Owner) -> NewNode {
            self.layout.node(attempt, mode, owner)
        }
        fn queue(&self, children: &[String]) -> Vec<Contender> {
            self.layout.queue(children)
        }
        fn payload(&self, attempt: &Attempt, mode: Mode, owner: &Owner) -> Vec<u8> {
            self.layout.payload(attempt, mode, owner)
        }
        fn proof(&self) -> Proof {
            self.layout.proof()
        }
        fn owner(&self, name: &str, data: &[u8]) -> Owner {
            self.layout.owner(name, data)
        }
        fn kind(&self) -> NodeKind {
            self.layout.kind()
        }
        fn directory(&self) -> NodeKind {
            self.layout.directory()
        }
        fn tells_writers(&self) -> bool {
            self.layout.tells_writers()
        }
        fn semaphore(&self) -> SemaphoreLayout {
            self.layout.semaphore()
        }
        fn holders_may_stay(&self) -> bool {
            self.layout.holders_may_stay()
        }
        fn is_counted_by_others(&self, child: &str, before: &Contender) -> bool {
            self.layout.is_counted_by_others(child, before)
        }
        fn sign_of_another_kind(&self, child: &str, mode: Mode) -> Option<Sign> {
            self.layout.sign_of_another_kind(child, mode)
        }
    };
}

/// A layout whose mutex has several holders at once, like Curator's `LockInternals` with
/// `maxLeases`.
///
/// Each process still holds the lock once, and its tasks pass it to each other in memory; with a
/// [fair](crate::base::options::LockOptions::fair) lock, every task holds it for itself. The tokens
/// of simultaneous holders have no order. Every process must give the same number. Use a semaphore
/// instead to take several permits at once, or to share permits with Curator's
/// `InterProcessSemaphoreV2`.
///
/// ```
/// use zklock::layout::{Curator, MaxLeases};
///
/// # let session = zklock::Session::embedded();
/// let three_at_once = session.mutex("imports")?.with_driver(MaxLeases::new(3, Curator)?);
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxLeases<D> {
    most: usize,
    layout: D,
}

impl<D: LockDriver> MaxLeases<D> {
    /// Returns a layout with at most `most` simultaneous holders.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let store = zklock::Embedded::new();
    /// # let session = zklock::Session::embedded_builder(&store).open()?;
    /// # let elsewhere = zklock::Session::embedded_builder(&store).app("billing").open()?;
    /// use zklock::layout::{Curator, MaxLeases};
    ///
    /// let two = MaxLeases::new(2, Curator)?;
    /// let _here = session.mutex("imports")?.with_driver(two).acquire().await?;
    /// let there = elsewhere.mutex("imports")?.with_driver(two).try_acquire().await;
    /// assert!(there.is_ok());
    /// assert!(MaxLeases::new(0, Curator).is_err());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for zero.
    pub fn new(most: usize, layout: D) -> Result<Self, LockError> {
        if most == 0 {
            let why = "a lock without leases could never be held; give at least 1";
            return Err(LockError::new(ErrorKind::InvalidOption, why));
        }
        Ok(MaxLeases { most, layout })
    }
}

impl<D: LockDriver> LockDriver for MaxLeases<D> {
    as_below!();

    fn name(&self) -> String {
        format!("MaxLeases<{}> of {}", self.layout.name(), self.most)
    }

    fn removes_directory(&self) -> bool {
        self.layout.removes_directory()
    }

    /// There are several holders.
    fn keeps_marks(&self) -> bool {
        false
    }

    fn supports(&self, mode: Mode) -> bool {
        mode == Mode::Mutex && self.layout.supports(mode) && self.kind() != NodeKind::Ephemeral
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        leases(queue, mine, self.most)
    }

    fn most(&self) -> Option<usize> {
        Some(self.most)
    }

    /// Only a contender behind all the leases waits.
    fn anybody_behind(&self, queue: &[Contender], mine: &str) -> bool {
        !queue.iter().any(|contender| contender.name == mine) || queue.len() > self.most
    }

    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        other.is_some_and(|other| {
            other.most == self.most && self.layout.is_same_layout(&other.layout)
        })
    }
}

/// A layout that removes the directory of a lock in the background after each release, if it is
/// empty.
///
/// Only a release does: the directory stays where the last one in it gave up its wait, failed or died. Around
/// a layout with container directories, such as Curator's, ZooKeeper removes it then.
///
/// ```
/// use zklock::layout::{Curator, Removed};
/// use zklock::{Embedded, Session};
///
/// let session = Session::embedded_builder(&Embedded::new())
///     .root("/distributed/lock")
///     .driver(Removed::after(Curator))
///     .open()?;
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed<D> {
    layout: D,
}

impl<D: LockDriver> Removed<D> {
    /// Returns a layout that removes the directory after a release.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use zklock::layout::{Kazoo, Removed};
    ///
    /// let imports = session.mutex("imports")?.with_driver(Removed::after(Kazoo::default()));
    /// assert!(imports.acquire().await?.is_valid()); // Then `/zklock/imports` is removed as well.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn after(layout: D) -> Self {
        Removed { layout }
    }
}

impl<D: LockDriver> LockDriver for Removed<D> {
    as_below!();

    fn name(&self) -> String {
        format!("Removed<{}>", self.layout.name())
    }

    fn removes_directory(&self) -> bool {
        true
    }

    fn most(&self) -> Option<usize> {
        self.layout.most()
    }

    fn supports(&self, mode: Mode) -> bool {
        self.layout.supports(mode)
    }

    fn verdict(&self, queue: &[Contender], mine: &Contender) -> Verdict {
        self.layout.verdict(queue, mine)
    }

    fn anybody_behind(&self, queue: &[Contender], mine: &str) -> bool {
        self.layout.anybody_behind(queue, mine)
    }

    fn is_same_layout(&self, other: &dyn LockDriver) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        other.is_some_and(|other| self.layout.is_same_layout(&other.layout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::check::check;
    use crate::layout::curator::Curator;
    use crate::layout::kazoo::Kazoo;
    use crate::layout::kinds::Kind;

    #[test]
    fn limits_differ_and_zero_is_refused() {
        let [two, three] = [2, 3].map(|most| MaxLeases::new(most, Curator).unwrap());
        let again = MaxLeases::new(2, Curator).unwrap();
        assert!(two.is_same_layout(&again) && !two.is_same_layout(&three));
        assert_eq!(MaxLeases::new(0, Curator).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert!(check(&two, Mode::Mutex).is_ok());
        assert_eq!(check(&two, Mode::Read).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_wrapped_layout_sees_locks_of_another_kind_as_the_one_inside_does() {
        let permit = "be2ee212c5074b18a73381c86278175c";
        let kind = |driver: &dyn LockDriver, child| {
            driver.sign_of_another_kind(child, Mode::Mutex).map(Sign::kind)
        };
        let kazoo = Kazoo::default();
        assert_eq!(kind(&kazoo, permit), Some(Kind::Semaphore));
        assert_eq!(kind(&Removed::after(kazoo), permit), Some(Kind::Semaphore));
        let three = MaxLeases::new(3, Removed::after(Curator)).unwrap();
        let reader = "_c_x-__READ__0000000001";
        assert_eq!(kind(&Curator, reader), Some(Kind::ReadWrite));
        assert_eq!(kind(&three, reader), Some(Kind::ReadWrite));
    }

    /// A layout with a queue and nodes of its own.
    #[derive(Debug)]
    struct Reversed;

    impl LockDriver for Reversed {
        fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
            Curator.prefix(attempt, mode)
        }
        fn parse(&self, name: &str) -> Option<Contender> {
            Curator.parse(name)
        }
        fn queue(&self, children: &[String]) -> Vec<Contender> {
            Curator.queue(children).into_iter().rev().collect()
        }
        fn node(&self, attempt: &Attempt, mode: Mode, owner: &Owner) -> NewNode {
            NewNode { prefix: "reversed-".to_owned(), ..Curator.node(attempt, mode, owner) }
        }
    }

    #[test]
    fn a_wrapped_layout_has_the_queue_and_the_nodes_of_the_one_inside() {
        let names = ["_c_x-lock-0000000001", "_c_x-lock-0000000002"].map(str::to_owned);
        let (attempt, owner) = (Attempt::new(), Owner::default());
        let [removed, two]: [&dyn LockDriver; 2] =
            [&Removed::after(Reversed), &MaxLeases::new(2, Reversed).unwrap()];
        for driver in [removed, two] {
            assert_eq!(driver.queue(&names)[0].name, names[1]);
            assert_eq!(driver.node(&attempt, Mode::Mutex, &owner).prefix, "reversed-");
        }
    }

    #[test]
    fn somebody_is_behind_when_there_are_more_than_leases() {
        let two = MaxLeases::new(2, Curator).unwrap();
        let names = ["lock-0000000001", "lock-0000000002", "lock-0000000003"].map(str::to_owned);
        assert!(!two.anybody_behind(&two.queue(&names[..2]), &names[0]));
        assert!(two.anybody_behind(&two.queue(&names), &names[0]));
        assert!(two.anybody_behind(&two.queue(&names[1..]), &names[0]));
    }
}
