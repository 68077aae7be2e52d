//! The local queue: tasks and threads of one process that acquire the same lock wait in memory, and
//! share one node in ZooKeeper.
//!
//! ```text
//! idle ──join──► fetching ──granted──► held ──release──► held by the next (handoff)
//!  ▲                │ last one left      │ nobody waits, or the lease is lost
//!  └────────────────┴────────────────────┤
//!                                        │ the bound of handoffs is reached
//!                                        └─► asking: is anybody behind? ── no ──► held
//!                                                                       └─ yes ─► fetching anew
//! ```

pub mod callers;
pub mod grant;
pub mod itself;
pub mod kinds;
pub mod limit;
pub mod lock_queue;
pub mod panics;
pub mod permit_queue;
pub mod permits;
pub mod queue;
pub mod singles;
pub mod state;
pub mod todo;
pub mod turn;
pub mod wait;
pub mod waiter;
pub mod waiters;
