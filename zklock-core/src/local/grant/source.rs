//! Where a grant comes from, and to which it returns.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::{Grant, Hold, Sole};
use crate::acquire::target::Target;
use crate::base::clock::Instant;
use crate::base::error::{Holder, LockError};
use crate::base::pattern::Pattern;
use crate::layout::driver::LockDriver;
use crate::local::waiters::Place;
use crate::session::handle::Session;
use crate::session::releaser::Deletions;

/// The future of [`GrantSource::step_down`]: an error comes with the writer's hold.
pub type SteppingDown = Pin<Box<dyn Future<Output = Result<Hold, (LockError, Hold)>> + Send>>;

/// The queue of a lock: where a grant comes from, and to which it returns.
pub trait GrantSource: Send + Sync + fmt::Debug {
    /// The session.
    fn session(&self) -> &Session;

    /// The lock's nodes.
    fn target(&self) -> &Target;

    /// The lock's name.
    fn lock_name(&self) -> &Arc<str> {
        &self.target().lock
    }

    /// The pattern of its name.
    fn pattern(&self) -> Pattern {
        self.target().pattern
    }

    /// The path of the lock's directory.
    fn path(&self) -> &str {
        self.target().directory.as_str()
    }

    /// The layout.
    fn layout(&self) -> &dyn LockDriver {
        &*self.target().driver
    }

    /// The callers of this process that hold the lock, and the number of waiters ahead of the one
    /// in a place, or of a newcomer.
    fn holder_here(&self, place: Option<Place>) -> Option<Holder>;

    /// Downgrades a writer to a reader. Takes the only hold of a grant, and returns that of another
    /// one.
    fn step_down(self: Arc<Self>, writer: Sole) -> SteppingDown;

    /// Makes some of the permits of a grant a grant of their own. `None` if no permit would be left.
    fn split(self: Arc<Self>, grant: &Grant, permits: usize) -> Option<Hold>;

    /// The holder lost the lock, and acquires it again: what it lost is not in its way.
    fn begin_anew(self: Arc<Self>, grant: &Grant);

    /// The last hold was given back. Returns the deletions of its nodes, unless a caller of this process
    /// is next.
    fn release(self: Arc<Self>, grant: &Grant, now: Instant) -> Deletions;
}
