//! Distributed locks on Apache ZooKeeper.

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
pub use zklock_core::layout::LockDriver;
pub use zklock_core::layout::contender::{Attempt, Contender};
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
