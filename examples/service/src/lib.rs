//! A shop and its bank, as a service of which any number of processes may run: they share the data,
//! and `#[zk_locked]` keeps them apart. See `main.rs` for how to start it.

mod answer;
mod handlers;
mod store;

pub use handlers::app;
pub use store::Store;
