//! What an implementation provides for the suite.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zklock_core::coordinator::requests::{Coordinator, Reply};

/// An action of a harness.
pub type Step<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Opens sessions on one store, and breaks them. All futures must work outside of any runtime.
pub trait Harness: Send + Sync {
    /// Opens a session on the store that all sessions of the harness share. Its timeout is long
    /// enough that nothing expires on a busy machine.
    fn open(&self) -> Reply<Arc<dyn Coordinator>>;

    /// Makes the server end a session, as if it had expired. A client that is connected learns of
    /// it soon, perhaps after a moment without a connection.
    fn expire(&self, session: i64) -> Step<'_>;

    /// Holds back everything that a session sends from now on, without breaking the connection.
    fn stall(&self, session: i64) -> Step<'_>;

    /// Breaks a session's connection, and keeps it broken. What a stall held back is lost.
    fn disconnect(&self, session: i64) -> Step<'_>;

    /// Lets a session reconnect.
    fn reconnect(&self, session: i64) -> Step<'_>;

    /// Returns the longest time for which an empty container stays after its last child was
    /// deleted.
    fn reaped_within(&self) -> Duration;
}
