//! `zklock serve` on a real ZooKeeper, as a browser asks it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../run/access.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod access;
#[path = "../run/bed.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod bed;
#[path = "../run/documented.rs"]
mod documented;
#[path = "../run/front.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod front;

mod begins;
mod bounds;
mod breaks;
mod client;
mod doubts;
mod foreign;
mod live;
mod meanwhile;
mod shows;
