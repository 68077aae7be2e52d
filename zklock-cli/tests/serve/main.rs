//! `zklock serve` on a real ZooKeeper, as a browser asks it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../run/bed.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod bed;
#[path = "../run/documented.rs"]
mod documented;

mod begins;
mod bounds;
mod breaks;
mod client;
mod foreign;
mod live;
mod shows;
