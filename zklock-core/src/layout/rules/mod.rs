//! Pure rules: given the contenders and one's own node, whether the lock is held, or which node to
//! watch.

pub mod behind;
pub mod leases;
pub mod mutex;
pub mod read_write;

pub use leases::leases;
pub use mutex::{mutex, mutex_among_hidden_writers};
pub use read_write::{read, write};
