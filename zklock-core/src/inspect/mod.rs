//! Looking at a lock without taking it: who is in its queue, what happens there, and the wish that
//! its holder let go.

pub mod site;

pub mod contenders;
pub mod events;
pub mod revoke;

pub use contenders::Participant;
pub use events::{LockEvent, LockEvents};
pub use site::Site;
