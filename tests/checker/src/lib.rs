//! Decides whether a history of locks kept their promises.
//!
//! A history is what drivers of `lock_agent` sent and heard, one JSON object a line; the README of
//! this crate has the format. [`check`] sorts it once and passes over it once, so millions of
//! operations take seconds. [`linearizable`] asks an independent checker about small ones.

mod calls;
mod history;
mod line;
pub mod linearizable;
mod models;
mod parts;
mod rules;
mod spans;
mod trouble;

pub use calls::{Call, Outcome, Refusal};
pub use history::{History, Hold, Mode, Token};
pub use line::{Answer, Left, Line, Request, Start};
pub use rules::{Rule, Violation, check};
pub use trouble::Removal;
