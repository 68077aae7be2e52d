//! Real servers, alone and together.

mod builder;
mod counters;
mod ensemble;
mod four_letter;
mod server;

pub use builder::Builder;
pub use ensemble::Ensemble;
pub use four_letter::ServerSession;
pub use server::ZooKeeper;
