//! The coordinator on a real Apache ZooKeeper, through the crate `zookeeper-client`.
//!
//! The behaviour of that library was measured. These traps shape this module:
//!
//! - It sends a request when its method is called, but the returned future borrows; see `sent`.
//! - While it is disconnected, requests wait until it is connected again or gives up. It has no
//!   timeout of its own; the caller needs one.
//! - Its session ends when the last clone of its client is dropped, and a pending reply holds a
//!   clone. A reply that is neither polled nor dropped keeps the session open, for a session timeout after it
//!   was closed; see `coordinator/client_task`.

mod acl;
mod connect_string;
mod connector;
mod coordinator;
mod error;
mod options;
mod probe;
#[cfg(feature = "sasl")]
mod sasl;
mod sent;
#[cfg(feature = "tls")]
mod tls;
mod watch;

pub use acl::Acl;
pub use connect_string::validate_connect_string;
pub use connector::ZooKeeperConnector;
pub use coordinator::ZooKeeperCoordinator;
pub use options::{Auth, ZooKeeperOptions};
#[cfg(feature = "sasl")]
pub use sasl::Sasl;
#[cfg(feature = "tls")]
pub use tls::Tls;
