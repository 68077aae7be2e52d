//! The pure rules of the queue: given the contenders and mine, is the lock held, or whom to watch.

pub mod driver;
pub mod leases;
pub mod mutex;
pub mod permits;
pub mod read_write;
pub mod verdict;

pub use driver::LockDriver;
pub use leases::leases;
pub use mutex::mutex;
pub use verdict::Verdict;
