//! Servers whose sequence numbers are nearly used up.

use std::path::Path;

use crate::java;

/// Lays out the data of a server on which the nodes at these paths have had so many children.
pub(super) fn write(data: &Path, counters: &[(String, i32)]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/Counters.java");
    let mut java = java::command("java");
    java.args(["-cp", &java::server_class_path()]).arg(source).arg(data);
    for (path, count) in counters {
        java.arg(path).arg(count.to_string());
    }
    let output = java.output().unwrap_or_else(|err| panic!("cannot start java: {err}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "no snapshot: {said}");
}
