//! A node: the kinds there are, and what the server keeps of one.

/// The kind of a node to create.
///
/// A coordinator has to know every kind: a lock whose node were created as one that stays would
/// never be free again. So a new kind is a breaking change, and the compiler names what misses it.
///
/// ```
/// use zklock::driver::{LockDriver, NodeKind};
/// use zklock::layout::{Kazoo, OneNode};
///
/// assert_eq!(Kazoo::default().directory(), NodeKind::Persistent);
/// assert_eq!(OneNode.kind(), NodeKind::Ephemeral);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Stays until it is deleted.
    Persistent,
    /// Deleted when its session ends.
    Ephemeral,
    /// Deleted when its session ends; the server appends a number of ten digits to its name.
    EphemeralSequential,
    /// Deleted by the server some time after its last child was deleted.
    Container,
}

/// The properties of a node that the server keeps.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::{NodeKind, Stat};
///
/// server.create("/a", b"", NodeKind::Persistent).await?;
/// let stat: Stat = server.set("/a", b"1").await?;
/// assert_eq!((stat.version, stat.ephemeral_owner, stat.num_children), (1, 0, 0));
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The transaction that created the node; it grows over the whole ensemble. Signed, as ZooKeeper
    /// sends it; never negative.
    pub czxid: i64,
    /// The number of times that its data changed.
    pub version: i32,
    /// The session that owns an ephemeral node, 0 for all others.
    pub ephemeral_owner: i64,
    /// The number of its children.
    pub num_children: i32,
    /// The number of times that a child was created or deleted; 0 if the node never had a child.
    pub cversion: i32,
    /// The time of its creation by the server's clock, in milliseconds since 1970.
    pub ctime: i64,
    /// The time when its data were written last, by the same clock; at first that of its creation.
    pub mtime: i64,
}

impl Stat {
    /// Returns the properties of a node that this transaction created and nothing has changed since:
    /// it is not ephemeral and has no children. Its times are 0 until they are set.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// // In a coordinator of one's own.
    /// let stat = Stat::new(41).ephemeral_owner(7).ctime(1_760_000_000_000);
    /// assert_eq!((stat.czxid, stat.ephemeral_owner, stat.version), (41, 7, 0));
    /// ```
    pub const fn new(czxid: i64) -> Self {
        Stat {
            czxid,
            version: 0,
            ephemeral_owner: 0,
            num_children: 0,
            cversion: 0,
            ctime: 0,
            mtime: 0,
        }
    }

    /// Sets the number of times that its data changed.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).version(1).version, 1);
    /// ```
    pub const fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    /// Sets the session that owns an ephemeral node.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).ephemeral_owner(7).ephemeral_owner, 7);
    /// ```
    pub const fn ephemeral_owner(mut self, ephemeral_owner: i64) -> Self {
        self.ephemeral_owner = ephemeral_owner;
        self
    }

    /// Sets the number of its children.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).num_children(2).num_children, 2);
    /// ```
    pub const fn num_children(mut self, num_children: i32) -> Self {
        self.num_children = num_children;
        self
    }

    /// Sets the number of times that a child was created or deleted.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).num_children(2).cversion(4).cversion, 4);
    /// ```
    pub const fn cversion(mut self, cversion: i32) -> Self {
        self.cversion = cversion;
        self
    }

    /// Sets the time of its creation by the server's clock, in milliseconds since 1970.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).ctime(1_760_000_000_000).ctime, 1_760_000_000_000);
    /// ```
    pub const fn ctime(mut self, ctime: i64) -> Self {
        self.ctime = ctime;
        self
    }

    /// Sets the time when its data were written last, by the same clock.
    ///
    /// ```
    /// use zklock::driver::Stat;
    ///
    /// assert_eq!(Stat::new(41).mtime(1_760_000_000_500).mtime, 1_760_000_000_500);
    /// ```
    pub const fn mtime(mut self, mtime: i64) -> Self {
        self.mtime = mtime;
        self
    }
}

/// A node that was created.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # use std::time::Duration;
/// # let store = zklock::Embedded::new();
/// # use zklock::driver::Connector as _;
/// # let server = store.connector(Duration::from_secs(10)).connect().await?;
/// use zklock::driver::{Created, NodeKind};
///
/// let node: Created = server.create("/n-", b"", NodeKind::EphemeralSequential).await?;
/// assert_eq!((node.path.as_str(), node.stat.ephemeral_owner), ("/n-0000000000", server.session_id()));
/// # Ok::<(), zklock::driver::RequestError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// The full path, with the sequence number of a sequential node.
    pub path: String,
    /// Its properties.
    pub stat: Stat,
}

impl Created {
    /// Returns a node that was created at this path.
    ///
    /// ```
    /// use zklock::driver::{Created, Stat};
    ///
    /// let created = Created::new("/n-0000000000", Stat::new(41).ephemeral_owner(7));
    /// assert_eq!(created.path, "/n-0000000000");
    /// ```
    pub fn new(path: impl Into<String>, stat: Stat) -> Self {
        Created { path: path.into(), stat }
    }
}
