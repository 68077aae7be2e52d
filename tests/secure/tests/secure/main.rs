//! TLS and SASL against real ZooKeeper servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod sasl;
mod tls;
