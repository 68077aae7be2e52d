//! One real server.

mod builder;
mod four_letter;
mod server;

pub use builder::Builder;
pub use four_letter::ServerSession;
pub use server::ZooKeeper;
