//! A service whose locks are part of its traces. What a real one needs besides is an exporter that
//! sends the spans to a collector, such as that of the crate `opentelemetry-otlp`.

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Instrument as _, Subscriber, info_span};
use tracing_subscriber::layer::SubscriberExt as _;
use zklock::{LockError, Session, zk_locked};

/// A subscriber that makes OpenTelemetry spans of tracing's, and with them of zklock's. They have the
/// target `zklock` and the level `INFO`.
pub fn subscriber(provider: &SdkTracerProvider) -> impl Subscriber + Send + Sync + use<> {
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders"));
    tracing_subscriber::registry().with(layer)
}

#[zk_locked("orders/{customer}", session = session)]
async fn create_order(session: &Session, customer: u32) -> Result<(), LockError> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(())
}

/// Two requests for the same customer: the second waits for the first.
///
/// # Errors
///
/// Of the locks.
pub async fn two_requests() -> Result<(), LockError> {
    let session = Session::embedded();
    let request = |number: u32| create_order(&session, 7).instrument(info_span!("request", number));
    let (first, second) = tokio::join!(request(1), request(2));
    first.and(second)
}
