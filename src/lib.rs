//! Distributed locks on Apache ZooKeeper.

pub use zklock_core::backend::memory::Embedded;
#[cfg(feature = "sasl")]
pub use zklock_core::backend::zookeeper::Sasl;
#[cfg(feature = "tls")]
pub use zklock_core::backend::zookeeper::Tls;
pub use zklock_core::backend::zookeeper::{Acl, AclEntry, Permissions};
pub use zklock_core::contender::{Attempt, Contender};
pub use zklock_core::context::{carry, carry_sync};
pub use zklock_core::ends::{OnLost, OnRevoked};
pub use zklock_core::error::{Body, ErrorKind, Holder, LockError};
pub use zklock_core::fenced::Fenced;
pub use zklock_core::guard::{
    Guard, MutexGuard, RwLockReadGuard, RwLockWriteGuard, SemaphorePermit, kind,
};
pub use zklock_core::inspect::{LockEvent, LockEvents, Participant, Site};
pub use zklock_core::key::{IntoLockName, LockName};
pub use zklock_core::layout;
pub use zklock_core::lock::{
    AnyGuard, AnyLock, Exclusive, MultiGuard, MultiLock, Mutex, RwLock, Semaphore,
};
pub use zklock_core::mode::Mode;
pub use zklock_core::observer::{Event, Observer};
pub use zklock_core::options::LockOptions;
pub use zklock_core::owner::Owner;
pub use zklock_core::policy::{Handoffs, RetryPolicy, StopAt};
pub use zklock_core::recipe::LockDriver;
pub use zklock_core::registry::{Installed, SessionRegistry, init};
pub use zklock_core::session::{Held, Session, SessionBuilder, States, Timing};
pub use zklock_core::session_state::SessionState;
pub use zklock_core::template::{LockTemplate, ZkLockTemplate, execute};
pub use zklock_core::token::FencingToken;
pub use zklock_core::view::{Current, GuardView, current, is_held};

#[cfg(feature = "testing")]
pub use zklock_core::testing;

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
