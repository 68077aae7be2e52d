//! Real servers, alone and together.

mod builder;
mod ensemble;
mod four_letter;
mod server;
mod snapshot;

pub use builder::Builder;
pub use ensemble::Ensemble;
pub use four_letter::ServerSession;
pub use server::ZooKeeper;
