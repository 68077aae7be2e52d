//! What a script needs of the ensemble on which it runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use zklock_core::coordinator::requests::Coordinator;

use crate::ensemble::Access;

/// How many sessions a script has at a time.
pub const SLOTS: usize = 3;

/// Something that takes time.
pub type Work<'a, T = ()> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An ensemble on which scripts run. Each slot has its own way to its server.
pub trait Bed: Send + Sync {
    /// Opens a session in a slot, for somebody who has credentials and lets others do so much. One
    /// that is to expire by itself has a short timeout.
    fn open(&self, slot: usize, access: Access, short: bool) -> Work<'_, Arc<dyn Coordinator>>;

    /// From now on what a slot asks is lost, or what it is answered, and the connection stays.
    fn silence(&self, slot: usize, to_server: bool) -> Work<'_>;

    /// Waits until so many requests of a slot have been lost.
    fn lost(&self, slot: usize, requests: usize) -> Work<'_>;

    /// From now on what a slot asks does not get through, or what it is answered, or both, and the connection
    /// stays.
    fn pause(&self, slot: usize, to_server: bool, to_client: bool) -> Work<'_>;

    /// What did not get through does, and what comes after it.
    fn resume(&self, slot: usize) -> Work<'_>;

    /// Breaks the connection of a slot and keeps it broken. What was silenced is lost.
    fn cut(&self, slot: usize) -> Work<'_>;

    /// Lets a slot connect again, to another server where there are several.
    fn heal(&self, slot: usize, server: usize) -> Work<'_>;

    /// Ends the session of a slot from outside.
    fn expire(&self, slot: usize, session: i64) -> Work<'_>;

    /// Waits until a short session that is cut off has expired for sure.
    fn outlive(&self) -> Work<'_>;

    /// Waits until every container has gone that must go.
    fn reap(&self) -> Work<'_>;

    /// A directory of its own for the next script: it exists, and nothing was ever made in it. Or, if
    /// it is to be nearly full, so much that few numbers are left.
    fn root(&self, full: bool) -> Work<'_, String>;
}
