//! Cooldown: a lock that nobody may take for a while, because its holder was lost (`lock_delay`) or
//! held it only just (`hold_at_least`).
//!
//! The mark in the directory says until when. It is made at the grant, read by who comes next, and
//! goes with the node.

pub mod mark;
pub mod mark_removal;
pub mod marking;
pub mod release_mark;
pub mod server_time;
