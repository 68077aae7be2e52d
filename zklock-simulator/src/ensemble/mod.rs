//! A simulated ZooKeeper ensemble, and the client of it, behind the library's traits.
//!
//! The servers agree as ZooKeeper's do: a leader makes transactions of requests, a majority logs
//! them, and each server applies them when it hears so, watches and all. The client has the timers and
//! the quirks of `zookeeper-client`. Between them is a network in which every connection keeps its
//! order, and in which everything can be late or lost. All that is not sure is chosen in the world.

mod chosen;
mod client;
mod connector;
mod control;
mod coordinator;
mod drive;
mod election;
mod frames;
mod hear;
mod history;
mod journal;
mod known;
mod machine;
mod meddle;
mod network;
mod opening;
mod options;
mod prepare;
mod queue;
mod quorum;
mod repeated;
mod serve;
mod server;
mod shared;
mod tracker;
mod tree;
mod txn;
mod waiting;
mod watches;

pub use connector::Connecting;
pub use control::{Ensemble, Tally};
pub use journal::{Gone, Life};
pub use options::{Options, Weather};
pub use txn::Access;
