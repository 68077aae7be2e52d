//! Which crates the library needs, and with which features: with its default features, on Linux, those in
//! `tests/dependencies.txt` and no others; and those in `tests/dependencies.example.txt` besides, which the
//! first `cargo run --example order_numbers` builds for the examples and the tests. Versions, and the crates
//! of this repository, are not compared.

// What cannot be run or read fails the test.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The name and the features in a line such as `serde v1.0.229|default,std (*)`, unless it is a crate of
/// this repository.
fn foreign(line: &str) -> Option<String> {
    let (package, features) = line.split_once('|')?;
    let (name, _) = package.split_once(' ')?;
    let features = features.trim_end_matches("(*)").trim();
    let ours = name == "zklock" || name.starts_with("zklock-");
    (!ours).then(|| format!("{name} {features}").trim_end().to_owned())
}

/// The crates that the library needs along these edges, with these features besides.
fn needed(edges: &str, features: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["tree", "--package", "zklock", "--edges", edges]);
    cargo.args(["--features", features]);
    // The same crates on every machine. Not `--offline`: one of another kind may have to fetch some of
    // them; where the library was built, none is missing.
    cargo.args(["--target", "x86_64-unknown-linux-gnu", "--locked", "--prefix", "none"]);
    let output = cargo.args(["--format", "{p}|{f}"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().filter_map(foreign).collect()
}

/// With `BLESS=1` in the environment the list is written anew.
fn compare(needed: &BTreeSet<String>, list: &str, who: &str) {
    let file = root().join(list);
    if std::env::var_os("BLESS").is_some() {
        let lines: String = needed.iter().map(|one| format!("{one}\n")).collect();
        fs::write(&file, lines).unwrap();
    }
    let listed = fs::read_to_string(&file).unwrap();
    let listed: BTreeSet<_> = listed.lines().map(str::to_owned).collect();
    let more: Vec<_> = needed.difference(&listed).collect();
    let fewer: Vec<_> = listed.difference(needed).collect();
    assert!(
        more.is_empty() && fewer.is_empty(),
        "{who} needs other crates or features than {list} lists, because of a change here or because \
         `cargo update` took a version that needs others.\n\
         not listed, and built: {more:?}\n\
         listed, and not needed: {fewer:?}\n\
         If this is intended: BLESS=1 cargo test --package zklock --test dependencies"
    );
}

#[test]
fn the_library_needs_no_more_crates_and_features_than_are_listed() {
    compare(&needed("normal,build", ""), "tests/dependencies.txt", "each user of the library");
}

#[test]
fn an_example_needs_no_more_crates_and_features_besides_than_are_listed() {
    let besides = &needed("normal,build,dev", "") - &needed("normal,build", "");
    compare(&besides, "tests/dependencies.example.txt", "the first run of an example");
}

/// Each service has its own exporter.
#[test]
fn metrics_need_the_facade_and_no_exporter() {
    let needed = needed("normal,build", "metrics");
    let names: BTreeSet<_> = needed.iter().filter_map(|one| one.split(' ').next()).collect();
    assert!(names.contains("metrics"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("exporter")), "{names:?}");
}
