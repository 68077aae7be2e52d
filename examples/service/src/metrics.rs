//! `/metrics`, for Prometheus.

use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use zklock::Session;

/// Collects the metrics of this process, in buckets that know the lease of the session.
///
/// # Errors
///
/// If the process has a recorder already.
pub fn recorder(session: &Session) -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    if let Some(timing) = session.timing() {
        // Not those of the program, which has histograms of its own.
        let ours = Matcher::Prefix("zklock_".to_owned());
        builder = builder.set_buckets_for_metric(ours, &zklock::metrics::buckets(&timing))?;
    }
    builder.install_recorder()
}

/// The route.
pub fn metrics(recorder: PrometheusHandle) -> Router {
    let render = async move || {
        zklock::metrics::sample();
        recorder.render()
    };
    Router::new().route("/metrics", get(render))
}
