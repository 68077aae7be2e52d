//! Decides whether a history of locks kept their promises.
//!
//! A history is what drivers of `lock_agent` sent and heard, one JSON object a line; the README of
//! this crate has the format. [`judge`] sorts it once and passes over it once, so millions of
//! operations take seconds, and says how much each rule has seen. [`linearizable`] asks an independent checker about small ones.

mod calls;
mod history;
mod line;
pub mod linearizable;
mod models;
mod parts;
mod rules;
mod spans;
mod trouble;
mod verdict;

pub use calls::{Call, Outcome, Refusal};
pub use history::{History, Hold, Mode, Token};
pub use line::{Answer, Left, Line, Request, Start};
pub use rules::{check, judge};
pub use trouble::Removal;
pub use verdict::{Count, Rule, Verdict, Violation};
