//! Pure rules: given the contenders and mine, is the lock held, or which node is to be watched.

pub mod leases;
pub mod mutex;
pub mod read_write;

pub use leases::leases;
pub use mutex::mutex;
pub use read_write::{read, write};
