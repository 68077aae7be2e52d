//! Events, for logs, and what is made of them: metrics; spans, for traces.

#[cfg(feature = "metrics")]
pub mod gauges;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod observer;
pub mod spans;
