//! Which crates the library needs: with its default features, on Linux, those in `tests/dependencies.txt` and
//! no others. Only their names are compared, without the crates of this repository: versions and features
//! change with `cargo update`.

// What cannot be run or read fails the test.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The name in a line such as `serde v1.0.229 (*)`, unless it is a crate of this repository.
fn foreign(line: &str) -> Option<String> {
    let name = line.split(' ').next().filter(|name| !name.is_empty())?;
    (name != "zklock" && !name.starts_with("zklock-")).then(|| name.to_owned())
}

/// With `BLESS=1` in the environment the list is written anew.
#[test]
fn the_library_needs_no_more_crates_than_are_listed() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["tree", "--package", "zklock", "--edges", "normal,build"]);
    // The same crates on every machine. Not `--offline`: one of another kind may have to fetch some of
    // them; where the library was built, none is missing.
    cargo.args(["--target", "x86_64-unknown-linux-gnu", "--locked", "--prefix", "none"]);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let needed: BTreeSet<_> = tree.lines().filter_map(foreign).collect();
    let file = root().join("tests/dependencies.txt");
    if std::env::var_os("BLESS").is_some() {
        let lines: String = needed.iter().map(|one| format!("{one}\n")).collect();
        fs::write(&file, lines).unwrap();
    }
    let listed = fs::read_to_string(&file).unwrap();
    let listed: BTreeSet<_> = listed.lines().map(str::to_owned).collect();
    let more: Vec<_> = needed.difference(&listed).collect();
    let fewer: Vec<_> = listed.difference(&needed).collect();
    assert!(
        more.is_empty() && fewer.is_empty(),
        "the library needs other crates than tests/dependencies.txt lists, because of a change here or \
         because `cargo update` took a version that needs others.\n\
         not listed, and each user of the library builds them: {more:?}\n\
         listed, and not needed: {fewer:?}\n\
         If this is intended: BLESS=1 cargo test --package zklock --test dependencies"
    );
}
