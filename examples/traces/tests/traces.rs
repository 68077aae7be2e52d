//! What OpenTelemetry gets.

// What cannot be had fails the test.
#![allow(clippy::unwrap_used, missing_docs)]

use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

fn of(spans: &[SpanData], name: &str) -> Vec<SpanData> {
    spans.iter().filter(|span| span.name == name).cloned().collect()
}

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|one| one.key.as_str() == key);
    found.unwrap().value.to_string()
}

#[tokio::test]
async fn waits_and_holds_are_spans_inside_the_requests() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let _installed = tracing::subscriber::set_default(traces::subscriber(&provider));
    traces::two_requests().await.unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let requests = of(&spans, "request");
    assert_eq!(requests.len(), 2);
    for name in ["zklock.acquire", "zklock.hold"] {
        let of_locks = of(&spans, name);
        assert_eq!(of_locks.len(), 2, "{name}");
        for span in of_locks {
            let is_inside = |request: &SpanData| {
                request.span_context.span_id() == span.parent_span_id
                    && request.span_context.trace_id() == span.span_context.trace_id()
            };
            assert!(requests.iter().any(is_inside), "{name}");
            assert_eq!(attribute(&span, "pattern"), "orders/{customer}");
            assert_eq!(attribute(&span, "lock"), "orders/7");
        }
    }
    let outcomes = of(&spans, "zklock.acquire");
    let mut outcomes: Vec<_> = outcomes.iter().map(|span| attribute(span, "outcome")).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["handoff", "node"]);
}
