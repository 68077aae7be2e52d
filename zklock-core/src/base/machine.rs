//! A simulated machine: the source of everything that a session otherwise takes from the computer
//! on which it runs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

/// A task in the background, or a wait.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Time, tasks, identifiers and a name for a session in a simulation. Everything that determines
/// the order of events in a session comes from here. A task that waits for a time lets others run
/// meanwhile, and does not look at the clock until it shows that time.
pub trait Machine: Send + Sync + fmt::Debug + 'static {
    /// Returns the time of its clock, in nanoseconds since an origin of its own. It never steps
    /// back.
    fn nanos(&self) -> u64;

    /// Waits until its clock shows this time. This is a hint: a task that wakes reads the clock
    /// again.
    fn until(&self, nanos: u64) -> Work;

    /// Runs work in the background. Its name is for people.
    fn spawn(&self, name: &'static str, work: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Returns a number that is unique among all machines and calls.
    fn identifier(&self) -> u128;

    /// Returns the time of the wall clock, for people to read.
    fn wall_clock(&self) -> SystemTime;

    /// Returns the name of the host and the id of the process.
    fn process(&self) -> (String, u32);

    /// Returns a number of the simulated process that no other machine in this real process has, save
    /// those of the same simulated process: their sessions find each other's locks.
    fn place(&self) -> u64;

    /// Returns the part of the tree that its sessions see: nothing for all of it.
    fn chroot(&self) -> &str {
        ""
    }
}
