//! Events, for logs and metrics.

pub mod observer;
