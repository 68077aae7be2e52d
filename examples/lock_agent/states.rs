//! The events of the session.

use serde_json::json;
use zklock::States;

use crate::clock::now_ns;
use crate::output::Output;

/// Reports the session's state, the present one first.
pub(crate) async fn tell(mut states: States, output: Output) {
    while let Some(state) = states.next().await {
        output.send(json!({ "event": "state", "state": state.as_str(), "at_ns": now_ns() }));
    }
}
