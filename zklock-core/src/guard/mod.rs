//! Guards and their views; reentrancy; fenced writes.

pub mod context;
pub mod downgrade;
pub mod fenced;
pub mod limit;
pub mod typed;
pub mod view;
