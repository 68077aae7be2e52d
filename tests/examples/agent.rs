//! A lock agent to talk with.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::built::example;

/// Long enough for a loaded machine; nothing waits for it unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running agent.
#[derive(Debug)]
pub(crate) struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    unread: Vec<Value>,
}

impl Agent {
    /// Starts an agent on an embedded coordinator.
    pub(crate) fn embedded() -> Self {
        Agent::embedded_with(&[])
    }

    /// The same, with more options.
    pub(crate) fn embedded_with(options: &[&str]) -> Self {
        Agent::on("embedded", options)
    }

    /// Starts an agent on servers.
    pub(crate) fn on(servers: &str, options: &[&str]) -> Self {
        let mut command = example("lock_agent");
        command.args(["--connect", servers]).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines() {
                let line = serde_json::from_str(&line.unwrap()).unwrap();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Agent { child, input, lines, unread: Vec::new() }
    }

    /// Writes a line.
    pub(crate) fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, request: Value) {
        self.write(&request.to_string());
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask(&mut self, request: Value) -> Value {
        let id = request["id"].clone();
        self.send(request);
        self.answer(&id)
    }

    /// Acquires a mutex for as long as it takes.
    pub(crate) fn grant(&mut self, id: u64, lock: &str) -> Value {
        let request = json!({ "id": id, "op": "acquire", "kind": "mutex", "lock": lock });
        let grant = self.ask(request);
        assert_eq!(grant["ok"], true, "{grant}");
        grant
    }

    /// The same. Answers the handle only.
    pub(crate) fn acquire(&mut self, id: u64, lock: &str) -> u64 {
        self.grant(id, lock)["handle"].as_u64().unwrap()
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        self.find(|line| line.get("id") == Some(id))
    }

    /// Waits for a line; the others can still be found later.
    pub(crate) fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&wanted) {
            return self.unread.remove(at);
        }
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap();
            if wanted(&line) {
                return line;
            }
            self.unread.push(line);
        }
    }

    /// Whether a line has come by now.
    pub(crate) fn has(&mut self, wanted: impl Fn(&Value) -> bool) -> bool {
        self.unread.extend(self.lines.try_iter());
        self.unread.iter().any(wanted)
    }

    /// Ends the input. Answers the exit code and all the lines that were not read.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<Value>) {
        drop(self.input.take());
        let code = self.child.wait().unwrap().code();
        self.unread.extend(self.lines.iter());
        (code, std::mem::take(&mut self.unread))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It ends with its input anyway.
        drop(self.input.take());
    }
}
