//! The page of `zklock serve` in a real browser: Chromium, driven by chromedriver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../run/bed.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod bed;
mod browser;
#[path = "../serve/client.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod client;

mod breaks;
mod looks;
mod restarts;
