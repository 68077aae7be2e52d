//! A shop and its bank, as a service that may run in any number of processes: they share the data,
//! and `#[zk_locked]` keeps them apart. See `main.rs` for how to start it.

mod answer;
mod handlers;
mod metrics;
mod store;

pub use handlers::app;
pub use metrics::{metrics, recorder};
pub use store::Store;
