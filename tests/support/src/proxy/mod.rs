//! A proxy between clients and a server that can break what passes through it.

mod acceptor;
mod chaos;
mod connection;
mod forward;
mod frame;
mod handle;
mod parse;
mod pump;
mod rule;
mod state;

pub use chaos::Chaos;
pub use frame::{Direction, Frame};
pub use handle::Proxy;
pub use rule::{Action, Cut, Matcher, Rule};

pub(crate) use state::Framing;
