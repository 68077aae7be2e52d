//! Distributed locks on Apache ZooKeeper.
//!
//! You annotate a function, and it runs in one place at a time, in all processes that use the same
//! ZooKeeper. Java services that use Apache Curator can take the same lock.
//!
//! ```
//! use zklock::{LockError, Session, zk_locked};
//!
//! #[zk_locked("orders/{customer}", timeout = "2s", retries = 2)]
//! async fn create_order(customer: u64) -> Result<String, LockError> {
//!     // Only one caller in the whole fleet is here, for each customer.
//!     Ok(format!("an order of {customer}"))
//! }
//!
//! # zklock::blocking::block_on(async {
//! // `Session::connect("zk1:2181,zk2:2181").await?` where there is a server.
//! zklock::init(Session::embedded());
//! assert_eq!(create_order(7).await?, "an order of 7");
//! # Ok::<(), LockError>(()) }).unwrap();
//! ```
//!
//! A call is tried `retries` times, at most `timeout` each, so this one waits at most 4 s. The body
//! never runs without the lock.
//!
//! # Where to find what
//!
//! | | |
//! | --- | --- |
//! | [`zk_locked`] | the attribute, with all its options |
//! | [`ZkLockTemplate`], [`execute`] | a block of code under a lock |
//! | [`Mutex`], [`RwLock`], [`Semaphore`], [`MultiLock`] | the locks, made by a [`Session`] |
//! | [`Guard`], [`GuardView`], [`current`] | what is held: its token, whether it is valid, when it is lost |
//! | [`Session`], [`SessionBuilder`], [`SessionRegistry`] | connections to ZooKeeper |
//! | [`LockOptions`] | how a lock is taken and held |
//! | [`LockError`], [`ErrorKind`] | why a lock was not to be had, or what became of a body |
//! | [`Site`], [`LockEvent`], [`Observer`] | who holds a lock and who waits; what happens to it |
//! | [`LockName`], [`lock_name!`] | names of locks that are made of values |
//! | [`layout`] | locks that are shared with kazoo and with others |
//! | [`driver`] | for those who write a layout of their own |
//! | `testing` | with the feature `testing`: locks for your tests, without a server |
//!
//! # Read on
//!
//! [Recipes](https://github.com/zklock/zklock/blob/main/docs/attribute.md) for axum, tonic, jobs and
//! transactions; what a guard knows when the network fails
//! ([held, suspect, lost](https://github.com/zklock/zklock/blob/main/docs/lost.md)), and what protects
//! when it knows too late ([fencing tokens](https://github.com/zklock/zklock/blob/main/docs/fencing.md));
//! [Java and Python](https://github.com/zklock/zklock/blob/main/docs/sharing.md).

pub use zklock_core::base::cancel_policy::{OnLost, OnRevoked};
pub use zklock_core::base::error::{Body, ErrorKind, Holder, LockError};
pub use zklock_core::base::mode::Mode;
pub use zklock_core::base::options::LockOptions;
pub use zklock_core::base::owner::Owner;
pub use zklock_core::base::policy::{Handoffs, RetryPolicy, StopAt};
pub use zklock_core::base::session_state::SessionState;
pub use zklock_core::base::token::FencingToken;
pub use zklock_core::coordinator::memory::Embedded;
#[cfg(feature = "sasl")]
pub use zklock_core::coordinator::zookeeper::Sasl;
#[cfg(feature = "tls")]
pub use zklock_core::coordinator::zookeeper::Tls;
pub use zklock_core::coordinator::zookeeper::{Acl, AclEntry, Permissions};
pub use zklock_core::guard::context::{carry, carry_sync};
pub use zklock_core::guard::fenced::Fenced;
pub use zklock_core::guard::typed::{
    Guard, MutexGuard, RwLockReadGuard, RwLockWriteGuard, SemaphorePermit, kind,
};
pub use zklock_core::guard::view::{Current, GuardView, current, is_held};
pub use zklock_core::inspect::{LockEvent, LockEvents, Participant, Site};
pub use zklock_core::lock::{AnyGuard, AnyLock, MultiGuard, MultiLock, Mutex, RwLock, Semaphore};
pub use zklock_core::name::lock_name::{IntoLockName, LockName};
pub use zklock_core::observe::observer::{Event, Observer};
pub use zklock_core::run::template::{LockTemplate, ZkLockTemplate, execute};
pub use zklock_core::session::registry::{Installed, SessionRegistry, init};
pub use zklock_core::session::{Held, Session, SessionBuilder, States, Timing};

/// The layouts of locks in ZooKeeper that are shipped.
pub mod layout {
    pub use zklock_core::layout::{
        Curator, HostNodes, Kazoo, MaxLeases, Numbered, OneNode, ReadWriteNodes, Removed,
    };
}

/// For those who write a layout of their own: how nodes are named and made, and who holds.
/// `examples/driver.rs` is one.
///
/// What is in here is not needed to use locks.
pub mod driver {
    pub use zklock_core::coordinator::traits::{NodeKind, RequestError};
    pub use zklock_core::layout::contender::{Attempt, Contender};
    pub use zklock_core::layout::driver::{LockDriver, NewNode, Proof, SemaphoreLayout};
    pub use zklock_core::layout::rules::{leases, mutex, read, write};
    pub use zklock_core::layout::verdict::Verdict;
}

/// Locks for tests of your own, and faults on the embedded coordinator.
#[cfg(feature = "testing")]
pub mod testing {
    pub use zklock_core::coordinator::memory::{Fault, Faults, Logged, Op};
    pub use zklock_core::testing::TestLocks;
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

/// The code in the guide to watches, compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/watching.md")]
#[derive(Debug)]
pub struct Watching;
