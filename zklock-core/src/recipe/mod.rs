//! The pure rules of the queue: given the contenders and mine, is the lock held, or whom to watch.

pub mod mutex;
pub mod verdict;

pub use mutex::mutex;
pub use verdict::Verdict;
