//! Cooldown: times in which nobody may acquire a lock, because its holder was lost (`lock_delay`),
//! or for some time after the grant (`hold_at_least`).
//!
//! The mark in the directory says until when. It is written at the grant, read by the next
//! contender, and removed with the node.

pub mod mark;
pub mod mark_removal;
pub mod marking;
pub mod release_mark;
pub mod server_time;
