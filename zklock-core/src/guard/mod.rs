//! What a caller holds, what it can ask of it, and what is held by whom (reentrancy).

pub mod context;
pub mod fenced;
pub mod typed;
pub mod view;
