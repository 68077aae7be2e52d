//! Guards and their views; reentrancy; fenced writes.

pub mod context;
pub mod fenced;
pub mod typed;
pub mod view;
