//! The data of a server that does not run, written by ZooKeeper's own code.

use std::path::Path;

use crate::java;

/// Lays out the data of a server on which the nodes at these paths have had so many children.
pub(super) fn write(data: &Path, counters: &[(String, i32)]) {
    let counters = counters.iter().flat_map(|(path, count)| [path.clone(), count.to_string()]);
    run("Counters.java", data, counters);
}

/// Adds a node that no other server has, of a session that is long over. Its parent must be there.
pub(super) fn plant(data: &Path, path: &str) {
    run("Stray.java", data, [path.to_owned()]);
}

fn run(program: &str, data: &Path, arguments: impl IntoIterator<Item = String>) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java").join(program);
    let mut java = java::command("java");
    java.args(["-cp", &java::server_class_path()]).arg(source).arg(data).args(arguments);
    let output = java.output().unwrap_or_else(|err| panic!("cannot start java: {err}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "no snapshot: {said}");
}
