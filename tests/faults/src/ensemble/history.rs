//! The history, written as it happens.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use zklock_test_support::monotonic_ns;

/// A file that grows.
#[derive(Debug)]
pub(super) struct Writer {
    file: Mutex<BufWriter<File>>,
    /// Where it lies.
    pub(super) path: PathBuf,
}

impl Writer {
    pub(super) fn new(path: PathBuf) -> Self {
        let file = File::create(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        Writer { file: Mutex::new(BufWriter::new(file)), path }
    }

    /// Writes a line about a client; `what` is `in` or `out`, with a JSON object as it was sent.
    pub(super) fn said(&self, client: &str, what: &str, line: &str) {
        self.write(|at| format!(r#"{{"at_ns":{at},"client":"{client}","{what}":{line}}}"#));
    }

    /// Writes any other line; the moment is added.
    pub(super) fn note(&self, mut line: Value) -> u64 {
        self.write(|at| {
            line["at_ns"] = json!(at);
            line.to_string()
        })
    }

    fn write(&self, line: impl FnOnce(u64) -> String) -> u64 {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let at = monotonic_ns();
        writeln!(file, "{}", line(at)).expect("room on the disk");
        at
    }

    pub(super) fn flush(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().expect("room on the disk");
    }
}
