//! Distributed locks on Apache ZooKeeper.
//!
//! Only one call of an annotated function runs at a time, in all processes that use the same
//! ZooKeeper. Java services that use Apache Curator can take the same lock.
//!
//! ```
//! use zklock::{LockError, Session, zk_locked};
//!
//! #[zk_locked("orders/{customer}", timeout = "2s", retries = 2)]
//! async fn create_order(customer: u64) -> Result<String, LockError> {
//!     // For each customer, only one caller in all processes is here.
//!     Ok(format!("an order of {customer}"))
//! }
//!
//! # zklock::blocking::block_on(async {
//! // With a server: `Session::connect("zk1:2181,zk2:2181").await?`.
//! zklock::init(Session::embedded());
//! assert_eq!(create_order(7).await?, "an order of 7");
//! # Ok::<(), LockError>(()) }).unwrap();
//! ```
//!
//! A call makes at most `retries` tries of at most `timeout` each, so this one waits at most 4 s.
//! The body never begins without the lock, except where the option `condition` is false.
//!
//! # Where to find what
//!
//! | | |
//! | --- | --- |
//! | [`zk_locked`] | the attribute, with all its options |
//! | [`ZkLockTemplate`], [`execute`], [`LockTemplate`] | a block of code under a lock |
//! | [`Mutex`], [`RwLock`], [`Semaphore`], [`MultiLock`] | the locks, made by a [`Session`] |
//! | [`Guard`], [`GuardView`], [`current`] | a held lock: its fencing token, whether it is valid, when it is lost |
//! | [`carry`], [`carry_sync`] | a spawned task, or a closure on another thread, that belongs to the body |
//! | [`Session`], [`SessionBuilder`], [`SessionRegistry`] | connections to ZooKeeper, and where the attribute finds them |
//! | [`LockOptions`] | how a lock is acquired and held |
//! | [`LockError`], [`ErrorKind`] | why a lock could not be acquired, or what happened to the body |
//! | [`Site`], [`LockEvent`], [`Observer`] | who holds a lock and who waits; events for logs and metrics |
//! | [`LockName`], [`lock_name!`] | lock names that contain values |
//! | [`layout`] | how locks are stored: locks shared with kazoo and others |
//! | [`driver`] | for implementing a layout or a coordinator |
//! | `testing` | with the feature `testing`: locks for users' tests, without a server |
//!
//! # Read on
//!
//! [The guide](https://github.com/zklock/zklock/blob/main/docs/README.md), with
//! [recipes](https://github.com/zklock/zklock/blob/main/docs/recipes.md) for axum, tonic, jobs,
//! transactions and a leader; what a guard knows when the network fails
//! ([held, suspect, lost](https://github.com/zklock/zklock/blob/main/docs/lost.md)), and what
//! protects when that is too late
//! ([fencing tokens](https://github.com/zklock/zklock/blob/main/docs/fencing.md));
//! [sharing locks with Java and Python](https://github.com/zklock/zklock/blob/main/docs/sharing.md).
//! For people who run a service: what to check
//! [before production](https://github.com/zklock/zklock/blob/main/docs/production.md), and
//! [what to do about a stuck lock](https://github.com/zklock/zklock/blob/main/docs/runbook.md).

pub use zklock_core::base::cancel_policy::{OnLost, OnRevoked};
pub use zklock_core::base::error::{Body, Holder, LockError};
pub use zklock_core::base::error_kind::ErrorKind;
pub use zklock_core::base::label::Label;
pub use zklock_core::base::mode::Mode;
pub use zklock_core::base::options::LockOptions;
pub use zklock_core::base::owner::Owner;
pub use zklock_core::base::policy::{Handoffs, Requeue, StopAt};
pub use zklock_core::base::session_state::SessionState;
pub use zklock_core::base::token::{FencingToken, ParseTokenError};
pub use zklock_core::coordinator::access::{AclEntry, Permissions};
pub use zklock_core::coordinator::memory::{Embedded, EmbeddedOptions};
pub use zklock_core::coordinator::zookeeper::Acl;
#[cfg(feature = "sasl")]
pub use zklock_core::coordinator::zookeeper::Sasl;
#[cfg(feature = "tls")]
pub use zklock_core::coordinator::zookeeper::Tls;
pub use zklock_core::guard::context::{carry, carry_sync};
pub use zklock_core::guard::downgrade::DowngradeError;
pub use zklock_core::guard::fenced::Fenced;
pub use zklock_core::guard::kind;
pub use zklock_core::guard::typed::{
    Guard, MutexGuard, RwLockReadGuard, RwLockWriteGuard, SemaphorePermit,
};
pub use zklock_core::guard::view::{Current, GuardView, current, is_held_in_scope};
pub use zklock_core::inspect::{ContenderInfo, LockEvent, LockEvents, LockNames, Site, Survey};
pub use zklock_core::lock::{
    AnyGuard, AnyLock, LockInfo, MultiGuard, MultiLock, Mutex, RwLock, Semaphore,
};
pub use zklock_core::name::lock_name::{IntoLockName, LockName, NameBuilder};
pub use zklock_core::name::path::ZnodePath;
pub use zklock_core::observe::observer::{Event, GrantedBy, LossReason, Observer};
pub use zklock_core::run::lock_template::{BoxFuture, LockTemplate, LockTemplateExt};
pub use zklock_core::run::template::{ZkLockTemplate, execute, execute_fallible};
pub use zklock_core::session::registry::{Installed, SessionRegistry, init};
pub use zklock_core::session::{
    LocalContender, Session, SessionBuilder, States, Timing, ZooKeeperSession,
};

/// The layouts that the crate provides: how a lock is stored in ZooKeeper.
pub mod layout {
    pub use zklock_core::layout::{
        Curator, HostNodes, Kazoo, MaxLeases, Numbered, OneNode, ReadWriteNodes, Removed,
    };
}

/// For custom layouts: how nodes are named and created, and which of them holds the lock.
/// `examples/driver.rs` implements one. For custom coordinators: the requests to ZooKeeper, and what
/// opens sessions.
///
/// Nothing in this module is needed to use locks.
pub mod driver {
    // Of hidden methods, which a wrapper may pass on at its own risk.
    #[doc(hidden)]
    pub use zklock_core::base::clock::Instant;
    pub use zklock_core::coordinator::connector::Connector;
    pub use zklock_core::coordinator::link::Link;
    pub use zklock_core::coordinator::node::{Created, NodeKind, Stat};
    pub use zklock_core::coordinator::operation::Operation;
    pub use zklock_core::coordinator::request_error::RequestError;
    pub use zklock_core::coordinator::requests::{Coordinator, Reply};
    pub use zklock_core::coordinator::watch::{Watch, WatchEvent};
    pub use zklock_core::layout::contender::{Attempt, Contender};
    pub use zklock_core::layout::driver::LockDriver;
    #[doc(hidden)]
    pub use zklock_core::layout::kinds::Sign;
    pub use zklock_core::layout::new_node::{NewNode, Proof};
    pub use zklock_core::layout::rules::{leases, mutex, mutex_among_hidden_writers, read, write};
    pub use zklock_core::layout::semaphore_layout::SemaphoreLayout;
    pub use zklock_core::layout::to_driver::ToDriver;
    pub use zklock_core::layout::verdict::Verdict;
}

/// Locks for users' tests, fault injection on the embedded coordinator, and a simulated ZooKeeper.
#[cfg(feature = "testing")]
pub mod testing {
    pub use zklock_core::coordinator::memory::{Fault, Faults, Logged, Op};
    pub use zklock_core::testing::TestLocks;
    pub use zklock_simulator::sim::{Process, Running, World, sim, sim_with_servers};
}

/// Metrics of locks and sessions, with the feature `metrics`: counters, histograms and gauges on the facade of
/// the crate `metrics`. The guide lists them: `docs/metrics.md`.
#[cfg(feature = "metrics")]
pub mod metrics {
    pub use zklock_core::observe::gauges::{buckets, sample};
    pub use zklock_core::observe::metrics::{Metric, MetricKind, all};
}

#[cfg(feature = "blocking")]
pub use zklock_core::blocking;

#[cfg(feature = "macros")]
pub use zklock_macros::{lock_name, zk_locked};

#[doc(hidden)]
pub use zklock_core::__private;

/// The code in the guide to sharing locks, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/sharing.md")]
#[derive(Debug)]
pub struct Sharing;

/// The code in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[derive(Debug)]
pub struct Readme;

/// The code in the guide to sessions and locks, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/locks.md")]
#[derive(Debug)]
pub struct Locks;

/// The code in the guide to fencing, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/fencing.md")]
#[derive(Debug)]
pub struct Fencing;

/// The code in the guide to what a guard knows, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/lost.md")]
#[derive(Debug)]
pub struct Lost;

/// The code in the quick start, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/quick-start.md")]
#[derive(Debug)]
pub struct QuickStart;

/// The code in the guide to upgrades, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/upgrades.md")]
#[derive(Debug)]
pub struct Upgrades;

/// The code in the guide to watches, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/watching.md")]
#[derive(Debug)]
pub struct Watching;
