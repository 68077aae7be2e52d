//! The pure rules of the queue: given the contenders and mine, is the lock held, or whom to watch.

pub mod driver;
pub mod leases;
pub mod mutex;
pub mod parent_mark;
pub mod permits;
pub mod read_write;
pub mod server_time;
pub mod verdict;

pub use driver::LockDriver;
pub use leases::leases;
pub use mutex::mutex;
pub use verdict::Verdict;
