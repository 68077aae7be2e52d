//! `zklock run` on a real ZooKeeper: exit codes, and a command that never runs without its lock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "other tests need more of it")]
mod access;
mod background;
mod bed;
mod codes;
mod documented;
mod ends;
mod finds;
mod front;
mod guide;
mod interrupts;
mod jobs;
mod leavers;
mod long;
mod looks;
mod meanwhile;
mod places;
mod schema;
mod unread;
mod users;
mod watches;
