//! Looking at a lock without acquiring it: its queue, changes of the queue, and asking the holder
//! to release it.

pub mod site;

pub mod break_holder;
pub mod contenders;
pub mod events;
pub mod found;
mod nodes;
mod permits;
pub mod revoke;
pub mod survey;

pub use contenders::ContenderInfo;
pub use events::{LockEvent, LockEvents};
pub use found::LockNames;
pub use site::Site;
pub use survey::Survey;
