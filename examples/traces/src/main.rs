//! Prints the spans of two requests: `cargo run --package zklock-traces-example`.

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};

/// In the place of an exporter that sends them to a collector.
#[derive(Debug)]
struct Print;

impl SpanExporter for Print {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        for span in spans {
            let took = span.end_time.duration_since(span.start_time).unwrap_or_default();
            println!("{} took {took:?}, in {}", span.name, span.parent_span_id);
            for attribute in span.attributes.iter().filter(|one| !one.key.as_str().contains('.')) {
                println!("    {} = {}", attribute.key, attribute.value);
            }
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = SdkTracerProvider::builder().with_simple_exporter(Print).build();
    tracing::subscriber::set_global_default(traces::subscriber(&provider))?;
    traces::two_requests().await?;
    provider.shutdown()?;
    Ok(())
}
