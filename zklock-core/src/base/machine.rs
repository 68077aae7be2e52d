//! A machine that somebody else plays: where a session takes from what it would otherwise take from
//! the computer it runs on.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

/// Work that nobody waits for, or a wait.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Time, tasks, identifiers and a name, for a session that is to live in a world of its own, as in a
/// simulation. All that decides an order in a session comes from here.
pub trait Machine: Send + Sync + fmt::Debug + 'static {
    /// What its clock shows, in nanoseconds since an origin of its own. It never steps back.
    fn nanos(&self) -> u64;

    /// Waits until its clock shows this. A hint: who wakes looks at the clock again.
    fn until(&self, nanos: u64) -> Work;

    /// Runs work in the background.
    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// A number that no other machine gives, and this one not again.
    fn identifier(&self) -> u128;

    /// The wall clock, which people read.
    fn wall_clock(&self) -> SystemTime;

    /// The host's name and the number of the process.
    fn process(&self) -> (String, u32);
}
