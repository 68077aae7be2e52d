//! Guards and their views; reentrancy; fenced writes.

pub mod context;
pub mod downgrade;
pub mod fenced;
pub mod kind;
pub mod limit;
pub mod permits;
pub mod releasing;
pub mod typed;
pub mod view;
