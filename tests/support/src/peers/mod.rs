//! Locks of other languages on the same ZooKeeper: Apache Curator (Java) and kazoo (Python).
//!
//! Their programs are in `tests/peers`; its README has the protocol.
//!
//! ```no_run
//! use std::time::Duration;
//! use zklock_test_support::{ZooKeeper, peers::{Curator, LockKind}};
//!
//! let server = ZooKeeper::shared();
//! let agent = Curator::compile().agent(&server.addr(), Duration::from_secs(10));
//! let grant = agent.acquire(LockKind::Mutex, "/a", None).held();
//! agent.release(&grant).unwrap();
//! ```

mod agent;
mod answer;
mod bench;
mod curator;
mod install;
mod kazoo;
mod run;

pub use agent::{Agent, Pending};
pub use answer::{Grant, LockKind, Outcome};
pub use bench::{Figures, Load};
pub use curator::Curator;
pub use kazoo::Kazoo;
pub use run::Run;
