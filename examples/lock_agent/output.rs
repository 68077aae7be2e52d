//! The lines that are written.

use std::io::{self, Write};

use serde_json::Value;
use tokio::sync::mpsc::{
    UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel,
};
use tokio::task::{JoinHandle, spawn_blocking};

/// Receives the replies and events of all tasks, and writes them line by line.
#[derive(Clone)]
pub(crate) struct Output(UnboundedSender<Value>);

impl Output {
    /// Starts writing. The task ends when the last clone is dropped, or at the first line that
    /// cannot be written.
    pub(crate) fn start() -> (Self, JoinHandle<io::Result<()>>) {
        let (sender, lines) = unbounded_channel();
        (Output(sender), spawn_blocking(move || write(lines)))
    }

    pub(crate) fn send(&self, line: Value) {
        // Fails once nobody reads any more, which ends the agent elsewhere.
        let _ = self.0.send(line);
    }

    /// The same, which does not keep the writer.
    pub(crate) fn downgrade(&self) -> WeakUnboundedSender<Value> {
        self.0.downgrade()
    }
}

fn write(mut lines: UnboundedReceiver<Value>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    while let Some(line) = lines.blocking_recv() {
        let mut line = line.to_string();
        line.push('\n');
        out.write_all(line.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}
