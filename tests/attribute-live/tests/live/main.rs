//! Guarded functions on the embedded coordinator.

// What cannot be had fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod axum_handlers;
mod cancelled;
mod choices;
mod drivers;
mod journal;
mod lost;
mod modes;
mod revoked;
mod send;
mod server;
mod testing;
mod tonic_service;
