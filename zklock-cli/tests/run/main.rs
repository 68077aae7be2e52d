//! `zklock run` on a real ZooKeeper: exit codes, and a command that never runs without its lock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod bed;
mod codes;
mod documented;
mod ends;
mod guide;
mod jobs;
mod looks;
mod places;
mod schema;
mod users;
mod watches;
