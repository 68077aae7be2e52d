//! Layouts on real ZooKeeper servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "shared with other tests")]
#[path = "../../../server/tests/server/bed.rs"]
mod bed;

mod behaviours;
mod beside;
mod exclusive;
mod look;
mod lost_replies;
mod names;
mod overflow;
mod places;
mod upgrades;
