//! The lock driver: how the nodes of a lock are named, read and ordered, and which of them holds
//! it.

use std::any::{Any, TypeId, type_name};
use std::fmt;

use crate::base::error::{ErrorKind, LockError};
use crate::base::mode::Mode;
use crate::base::owner::{LONGEST_PAYLOAD, Owner};
use crate::coordinator::node::NodeKind;
use crate::layout::contender::{Attempt, Contender};
use crate::layout::kinds::{Sign, directory_of_permits};
use crate::layout::rules::mutex::{mutex, mutex_among_hidden_writers};
use crate::layout::rules::read_write::{read, write};
use crate::layout::verdict::Verdict;
use crate::name::path::is_refused;

/// A node to be created in a queue.
///
/// ```
/// use zklock::layout::Numbered;
/// use zklock::driver::{Attempt, LockDriver};
/// use zklock::{Mode, Owner};
///
/// let node = Numbered::dlock().node(&Attempt::new(), Mode::Mutex, &Owner::here(None));
/// assert_eq!(node.prefix, "sub_");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewNode {
    /// The beginning of its name, to which ZooKeeper appends ten digits; the whole name of a node
    /// that is not sequential.
    pub prefix: String,
    /// Its data.
    pub payload: Vec<u8>,
    /// How the node is found again if the reply to its creation is lost.
    pub proof: Proof,
    /// [`NodeKind::EphemeralSequential`], or [`NodeKind::Ephemeral`] for a single name that every
    /// contender tries to create.
    pub kind: NodeKind,
}

/// How a node is recognised as one's own. In every case its ZooKeeper session must be the present
/// one.
///
/// ```
/// use zklock::driver::LockDriver;
/// use zklock::layout::{Curator, Numbered, OneNode};
/// use zklock::driver::Proof;
///
/// assert_eq!(Curator.proof(), Proof::Name);
/// assert_eq!(Numbered::lock().proof(), Proof::Payload);
/// assert_eq!(OneNode.proof(), Proof::Owner);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// By its name, which begins with the unique prefix.
    Name,
    /// By its data, the payload, which is unique; if somebody has overwritten them, by its owner. Such
    /// nodes are created one at a time.
    Payload,
    /// Only by its owner: names and data are the same for all. Such nodes are created one at a
    /// time.
    Owner,
}

/// The layout of semaphores.
///
/// ```
/// use zklock::driver::SemaphoreLayout;
///
/// assert_eq!(SemaphoreLayout::default(), SemaphoreLayout::Curator);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SemaphoreLayout {
    /// Like Curator's `InterProcessSemaphoreV2`: a mutex in `locks` and the permits in `leases`,
    /// below the semaphore's directory.
    #[default]
    Curator,
    /// Like kazoo's `Semaphore`: the permits in the semaphore's directory, whose data are the
    /// limit, and a `Lock` beside it.
    Kazoo {
        /// The payload of its nodes. `None`: a JSON description of the process.
        identifier: Option<String>,
    },
}

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
/// about warnings and errors, and never about who holds the lock: such a wrapper of Curator's or kazoo's
/// layout does not report that other processes use its name as another kind of lock, and such a wrapper of
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

    /// Returns whether the directory is removed in the background after a release, if it is empty.
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
    /// for it if their own node has this number.
    #[doc(hidden)]
    fn is_counted_by_others(&self, _child: &str, _number: i64) -> bool {
        false
    }

    /// What the name of a child says of another kind of lock of this path, whose nodes and those of this
    /// mode do not see each other.
    #[doc(hidden)]
    fn sign_of_another_kind(&self, child: &str, _mode: Mode) -> Option<Sign> {
        directory_of_permits(child).filter(|_| self.parse(child).is_none())
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

/// Whether a contender behind `mine` waits for it.
pub fn anybody_behind(queue: &[Contender], mine: &str) -> bool {
    let Some(place) = queue.iter().position(|contender| contender.name == mine) else {
        return true;
    };
    let (mine, behind) = (&queue[place], &queue[place + 1..]);
    behind.iter().any(|other| mine.mode != Mode::Read || other.mode != Mode::Read)
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

/// Checks a driver, as far as possible, before it names a node.
///
/// # Errors
///
/// [`ErrorKind::InvalidOption`] for names that ZooKeeper or the driver itself refuses, and for
/// nodes that could not be told apart; [`ErrorKind::Unsupported`] for a mode that the driver does
/// not have.
pub fn check(driver: &dyn LockDriver, mode: Mode) -> Result<(), LockError> {
    let owner = Owner::default();
    let [one, other] = [Attempt::new(), Attempt::new()].map(|a| driver.node(&a, mode, &owner));
    one.check(driver)?;
    let told_apart = match one.proof {
        Proof::Name => one.prefix != other.prefix,
        Proof::Payload => one.payload != other.payload,
        Proof::Owner => true,
    };
    if !told_apart {
        let what = if one.proof == Proof::Name { "names" } else { "payloads" };
        return Err(refuse(
            driver,
            format!(
                "gives all nodes the same {what}: include the attempt, or return from `proof` how \
                 a node is recognised"
            ),
        ));
    }
    for number in [0, 7] {
        let name = driver.example(mode, number);
        let contender = driver.parse(&name).ok_or_else(|| unread(driver, &name))?;
        let sequential = driver.kind() == NodeKind::EphemeralSequential;
        if contender.name != name || sequential && contender.sequence != number {
            let (read, number) = (contender.name, contender.sequence);
            let what = "does not parse one of its own names as it is".to_owned();
            let aside = format!("it reads {name:?} as {read:?} with number {number}");
            return Err(refuse(driver, what).aside(format!("{driver:?}: {aside}")));
        }
    }
    if !driver.supports(mode) {
        return Err(unsupported(driver, mode));
    }
    Ok(())
}

impl NewNode {
    /// Returns a sequential node with this prefix and no data, which is found again by its name.
    ///
    /// ```
    /// use zklock::driver::{NewNode, NodeKind, Proof};
    ///
    /// let node = NewNode::new("ticket-7-");
    /// assert_eq!((node.proof, node.kind), (Proof::Name, NodeKind::EphemeralSequential));
    /// ```
    pub fn new(prefix: impl Into<String>) -> Self {
        let (proof, kind) = (Proof::Name, NodeKind::EphemeralSequential);
        NewNode { prefix: prefix.into(), payload: Vec::new(), proof, kind }
    }

    /// Sets its data.
    ///
    /// ```
    /// use zklock::driver::NewNode;
    ///
    /// assert_eq!(NewNode::new("ticket-7-").payload("10.0.0.7").payload, b"10.0.0.7");
    /// ```
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets how it is found again.
    ///
    /// ```
    /// use zklock::driver::{NewNode, Proof};
    ///
    /// let node = NewNode::new("ticket-").payload("7").proof(Proof::Payload);
    /// assert_eq!(node.proof, Proof::Payload);
    /// ```
    pub fn proof(mut self, proof: Proof) -> Self {
        self.proof = proof;
        self
    }

    /// Sets its kind.
    ///
    /// ```
    /// use zklock::driver::{NewNode, NodeKind, Proof};
    ///
    /// let only_one = NewNode::new("lock").proof(Proof::Owner).kind(NodeKind::Ephemeral);
    /// assert_eq!(only_one.kind, NodeKind::Ephemeral);
    /// ```
    pub fn kind(mut self, kind: NodeKind) -> Self {
        self.kind = kind;
        self
    }

    /// Checks for names and data that ZooKeeper would refuse, or put elsewhere.
    ///
    /// ```
    /// use zklock::layout::Numbered;
    /// use zklock::driver::{Attempt, LockDriver};
    /// use zklock::{Mode, Owner};
    ///
    /// let driver = Numbered::new("jobs/");
    /// let node = driver.node(&Attempt::new(), Mode::Mutex, &Owner::here(None));
    /// assert!(node.check(&driver).is_err_and(|error| error.to_string().contains("has a slash")));
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`], which says what is accepted.
    pub fn check(&self, driver: &dyn LockDriver) -> Result<(), LockError> {
        let prefix = &self.prefix;
        // Most prefixes have nothing but these. Not `all`: this is done at every acquire, and without an
        // early end it takes a tenth of the time.
        let plain = prefix.bytes().fold(true, |plain, b| plain & b.is_ascii_graphic());
        let flaw = if prefix.is_empty() {
            "is empty"
        } else if prefix.contains('/') {
            "has a slash"
        } else if !plain && prefix.chars().any(is_refused) {
            "has a character that ZooKeeper refuses"
        } else if self.kind == NodeKind::Ephemeral && matches!(prefix.as_str(), "." | "..") {
            "is not a name"
        } else if self.payload.len() > LONGEST_PAYLOAD {
            return Err(LockError::new(
                ErrorKind::InvalidOption,
                format!(
                    "the payload of the node would have {} bytes, and at most {LONGEST_PAYLOAD} \
                     are accepted; shorten the application's name",
                    self.payload.len()
                ),
            ));
        } else {
            return Ok(());
        };
        let refused = refuse(driver, format!("returns a prefix that {flaw}"));
        Err(refused.aside(format!("{driver:?}: the prefix is {prefix:?}")))
    }
}

fn refuse(driver: &dyn LockDriver, what: String) -> LockError {
    let error =
        LockError::new(ErrorKind::InvalidOption, format!("the driver {} {what}", driver.name()));
    error.aside(format!("{driver:?}"))
}

/// The error of a driver that does not parse its own names.
pub fn unread(driver: &dyn LockDriver, name: &str) -> LockError {
    let what = "does not parse the name of a node of its own; `parse` must accept every name that begins \
                with `prefix`";
    refuse(driver, what.to_owned()).aside(format!("{driver:?}: the name is {name:?}"))
}

/// The error of a mode that a layout does not have.
pub fn unsupported(driver: &dyn LockDriver, mode: Mode) -> LockError {
    let why = format!("the layout {} does not support the mode {mode}", driver.name());
    LockError::new(ErrorKind::Unsupported, why).aside(format!("{driver:?}"))
}

/// The error of a layout whose directories cannot keep marks.
pub fn unmarked(driver: &dyn LockDriver) -> LockError {
    let why = format!(
        "`lock_delay` and `hold_at_least` need a layout with one holder, whose node has a unique \
         name, in a directory that stays, such as Curator's; {} is not such a layout",
        driver.name()
    );
    LockError::new(ErrorKind::Unsupported, why).aside(format!("{driver:?}"))
}

/// The error of two layouts in one directory.
pub fn mixed(present: &dyn LockDriver, wanted: &dyn LockDriver) -> LockError {
    let (name, wanted_name) = (present.name(), wanted.name());
    let but = if name == wanted_name {
        // Such as kazoo's with another identifier.
        "with other settings; use the same for all".to_owned()
    } else {
        format!("which {wanted_name} would not exclude; use one layout for all")
    };
    let why = format!(
        "this process already uses it in the layout {name}, {but} (a custom driver says in \
         `is_same_layout` which others are the same)"
    );
    LockError::new(ErrorKind::InvalidOption, why).aside(format!("{present:?}, {wanted:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_behind_a_reader_do_not_wait_for_it() {
        let queue = |modes: &[Mode]| -> Vec<_> {
            let contender =
                |(n, mode): (usize, &Mode)| Contender::new(format!("{n}"), n as i64, *mode);
            modes.iter().enumerate().map(contender).collect()
        };
        let readers = queue(&[Mode::Read, Mode::Read]);
        assert!(!anybody_behind(&readers, "0"));
        assert!(anybody_behind(&readers, "unknown"));
        let writer = queue(&[Mode::Read, Mode::Read, Mode::Write]);
        assert!(anybody_behind(&writer, "0") && !anybody_behind(&writer, "2"));
        let mutex = queue(&[Mode::Mutex, Mode::Mutex]);
        assert!(anybody_behind(&mutex, "0") && !anybody_behind(&mutex, "1"));
    }

    /// A driver with every fault that one can have.
    #[derive(Clone, Debug)]
    struct Faulty {
        prefix: &'static str,
        unique: bool,
        proof: Proof,
        parse: fn(&str) -> Option<Contender>,
    }

    impl LockDriver for Faulty {
        fn prefix(&self, attempt: &Attempt, _: Mode) -> String {
            let unique = if self.unique { attempt.simple() } else { String::new() };
            format!("{unique}{}", self.prefix)
        }
        fn parse(&self, name: &str) -> Option<Contender> {
            (self.parse)(name)
        }
        fn proof(&self) -> Proof {
            self.proof
        }
    }

    fn reads(name: &str) -> Option<Contender> {
        Some(Contender::new(name, Contender::sequence_after(name, "-")?, Mode::Mutex))
    }

    const GOOD: Faulty = Faulty { prefix: "-", unique: true, proof: Proof::Name, parse: reads };

    #[test]
    fn a_malformed_driver_is_refused_and_told_why() {
        assert!(check(&GOOD, Mode::Mutex).is_ok());
        let fixed = Faulty { unique: false, prefix: "n-", ..GOOD };
        for proof in [Proof::Payload, Proof::Owner] {
            assert!(check(&Faulty { proof, ..fixed.clone() }, Mode::Mutex).is_ok());
        }
        for (driver, why) in [
            (Faulty { prefix: "", unique: false, ..GOOD }, "is empty"),
            (Faulty { prefix: "a/-", ..GOOD }, "has a slash"),
            (Faulty { prefix: "a\0-", ..GOOD }, "ZooKeeper refuses"),
            (fixed, "the same names"),
            (Faulty { parse: |_| None, ..GOOD }, "does not parse"),
            (
                Faulty { parse: |name| Some(Contender::new(name, 7, Mode::Mutex)), ..GOOD },
                "number 7",
            ),
            (
                Faulty {
                    parse: |name| reads(name).map(|c| Contender { name: "x".into(), ..c }),
                    ..GOOD
                },
                "as \"x\"",
            ),
        ] {
            let error = check(&driver, Mode::Mutex).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(format!("{error:#}").contains(why), "{error:#}");
        }
        assert_eq!(check(&GOOD, Mode::Read).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    /// What a driver has in it, and what it writes, is for the log.
    #[test]
    fn errors_name_a_layout_and_show_only_operators_what_it_contains() {
        use crate::layout::kazoo::Kazoo;
        use crate::layout::plain::HostNodes;

        let hosts = HostNodes::of("db7");
        let node = |host| HostNodes::of(host).node(&Attempt::new(), Mode::Read, &Owner::default());
        let named = Kazoo::default().identifier("db7");
        for (what, error) in [
            ("mixed", mixed(&hosts, &HostNodes::of("db8"))),
            ("unsupported", unsupported(&hosts, Mode::Mutex)),
            ("unmarked", unmarked(&hosts)),
            ("unread", unread(&hosts, "db7-R-0000000001")),
            ("refused", refuse(&hosts, "is not accepted".to_owned())),
            ("prefix", node("db7/").check(&HostNodes::of("db7/")).unwrap_err()),
            ("kazoo", mixed(&named, &hosts)),
        ] {
            let text = error.to_string();
            assert!(!text.contains("db7") && text.contains("HostNodes"), "{what}: {text}");
            assert!(format!("{error:#}").contains("db7"), "{what}: {error:#}");
        }
        let lying = Faulty { parse: |name| Some(Contender::new(name, 7, Mode::Mutex)), ..GOOD };
        let error = check(&lying, Mode::Mutex).unwrap_err();
        assert!(!error.to_string().contains("0000000000"), "{error}");
    }

    #[test]
    fn a_type_is_shown_without_its_modules() {
        assert_eq!(without_paths("a::b::Removed<c::Kazoo<d::E>, f::G>"), "Removed<Kazoo<E>, G>");
        assert_eq!(without_paths("a::main::{{closure}}::D<b::E>"), "D<E>");
        assert_eq!(GOOD.name(), "Faulty");
    }

    #[test]
    fn a_payload_over_the_limit_is_refused() {
        let owner = Owner::here(Some(&"x".repeat(LONGEST_PAYLOAD)));
        let error = GOOD.node(&Attempt::new(), Mode::Mutex, &owner).check(&GOOD).unwrap_err();
        assert!(error.to_string().contains("at most 4096"), "{error}");
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

    #[test]
    fn a_layout_is_what_it_says_and_not_what_it_shows() {
        let [one, twin] = ["one", "two"].map(|shown| Told { prefix: "a-", shown });
        let other = Told { prefix: "b-", shown: "one" };
        assert!(one.is_same_layout(&twin) && !one.is_same_layout(&other));
        assert!(!one.is_same_layout(&GOOD) && !GOOD.is_same_layout(&one));
        // One that says nothing has nothing in common with others that may have other fields.
        let clone = GOOD.clone();
        assert!(GOOD.is_same_layout(&GOOD) && !GOOD.is_same_layout(&clone));
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
