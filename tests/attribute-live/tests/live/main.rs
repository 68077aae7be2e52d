//! Guarded functions on the embedded coordinator, and on real servers.

// What cannot be had fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod axum_handlers;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../../../server/tests/server/bed.rs"]
mod bed;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../../../server/tests/server/busy.rs"]
mod busy;
mod cancelled;
mod choices;
mod drivers;
mod journal;
mod leader;
mod lost;
mod modes;
mod network;
mod revoked;
mod send;
mod server;
mod testing;
mod tonic_service;
