//! Incidents: a lock is stuck, `zklock why` names the cause, and the command that it advises frees the
//! lock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod directories;
mod doctor;
#[path = "../run/documented.rs"]
mod documented;
mod holders;
mod others;
mod quorum;
mod scene;
mod second;
mod servers;
mod tells;
mod ticks;
