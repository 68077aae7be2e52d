//! The events of the session.

use serde_json::{Value, json};
use tokio::sync::mpsc::WeakUnboundedSender;
use zklock::{Event, Observer, States};

use crate::clock::now_ns;
use crate::output::Output;

/// Reports the session's state, the present one first.
pub(crate) async fn tell(mut states: States, output: Output) {
    while let Some(state) = states.next().await {
        output.send(json!({ "event": "state", "state": state.as_str(), "at_ns": now_ns() }));
    }
}

/// Reports why locks are lost.
#[derive(Debug)]
pub(crate) struct Losses(pub(crate) WeakUnboundedSender<Value>);

impl Observer for Losses {
    fn event(&self, event: &Event) {
        if let Event::Lost { lock, czxid, reason, .. } = event
            && let Some(output) = self.0.upgrade()
        {
            let (czxid, why) = (format!("{czxid:x}"), format!("{reason:?}"));
            let loss = json!({ "event": "loss", "lock": &**lock, "czxid": czxid, "why": why,
                "at_ns": now_ns() });
            // Fails once nobody reads any more.
            let _ = output.send(loss);
        }
    }
}
