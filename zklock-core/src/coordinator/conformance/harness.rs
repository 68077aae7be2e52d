//! What a backend brings.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::coordinator::traits::{Coordinator, Reply};

/// Something that a harness does.
pub type Step<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Opens sessions on one store, and breaks them. All futures must run outside any runtime.
pub trait Harness: Send + Sync {
    /// Opens a session on the store that all sessions of the harness share. Its timeout is long
    /// enough for nothing to happen by lapse of time on a machine that is busy.
    fn open(&self) -> Reply<Arc<dyn Coordinator>>;

    /// Makes the server end a session, as if it had expired. A client that is connected learns it
    /// soon, perhaps after a moment without its connection.
    fn expire(&self, session: i64) -> Step<'_>;

    /// Keeps everything that a session sends from now on from arriving, without breaking the
    /// connection.
    fn stall(&self, session: i64) -> Step<'_>;

    /// Breaks a session's connection and keeps it broken. What a stall held back is lost.
    fn disconnect(&self, session: i64) -> Step<'_>;

    /// Lets a session connect again.
    fn reconnect(&self, session: i64) -> Step<'_>;

    /// The longest time that a container stays after its last child went.
    fn reaped_within(&self) -> Duration;
}
