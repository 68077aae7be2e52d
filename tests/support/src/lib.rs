//! Real ZooKeeper servers and a frame proxy for tests.
//!
//! - [`ZooKeeper`] starts a server with its own port and folder, [`Ensemble`] several that make one
//!   service and can be cut from each other. They end with the test process, however that ends.
//! - [`Proxy`] stands between clients and a server, counts and logs what passes, and breaks it on
//!   demand: cuts, silence, delays, and rules on single frames.
//! - [`peers`] runs Apache Curator's and kazoo's locks beside ours.
//! - [`Certificates`] are for servers that speak TLS.
//! - [`Warnings`] collects what is logged.
//! - [`RawClient`] speaks to a server frame by frame, without the library under test.
//!
//! Everything here blocks and uses threads only, so it works with any runtime or none. Whatever
//! cannot go on panics with one line that says why: a test has no better way to fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken test bed must fail the test at once"
)]

mod certificates;
mod clock;
mod control;
mod java;
mod lock;
mod long;
mod measured;
pub mod peers;
mod port;
mod process;
mod proxy;
mod raw_client;
mod scratch;
mod warnings;
mod wire;
mod zookeeper;

pub use certificates::Certificates;
pub use clock::monotonic_ns;
pub use control::{BOUND, Control, Late};
pub use long::is_long;
pub use measured::measured;
pub use port::ReservedPort;
pub use proxy::{Action, Chaos, Cut, Direction, Frame, Matcher, Proxy, Rule};
pub use raw_client::{CreateMode, RawClient, RawError, Reply, SessionKey};
pub use warnings::Warnings;
pub use wire::OpCode;
pub use zookeeper::{Builder, Ensemble, ServerSession, ZooKeeper};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
