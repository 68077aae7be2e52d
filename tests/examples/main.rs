//! The examples, run as people run them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod agent;
mod built;
mod driver;
mod inspect;
mod lock_agent;
mod lock_agent_ends;
mod order_numbers;
mod read_write;
mod template;
