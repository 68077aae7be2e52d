//! The coordinator on a real Apache ZooKeeper, through the crate `zookeeper-client`.
//!
//! What that client does and does not do is measured; the traps that shape this module are:
//!
//! - Its requests go out when its methods are called, but the futures they return borrow; see
//!   `sent`.
//! - While it is disconnected, requests wait until it is connected again or gives up. There is no
//!   timeout of its own; whoever waits brings one.
//! - Its session ends when the last clone of its client is dropped, and a reply that is under way
//!   holds one. A reply that is neither polled nor dropped keeps the session open.

mod acl;
mod connect_string;
mod connector;
mod coordinator;
mod error;
mod options;
mod probe;
#[cfg(any(feature = "tls", feature = "sasl"))]
mod secure;
mod sent;
mod watch;

pub use acl::{Acl, AclEntry, Permissions};
pub use connect_string::validate_connect_string;
pub use connector::ZooKeeperConnector;
pub use coordinator::ZooKeeperCoordinator;
pub use options::{Auth, ZooKeeperOptions};
#[cfg(feature = "sasl")]
pub use secure::Sasl;
#[cfg(feature = "tls")]
pub use secure::Tls;
