//! What the library needs: with its default features, the crates in `tests/dependencies.txt` and no others.

// What cannot be run or read fails the test.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A version without what `cargo update` may change.
fn line(version: &str) -> String {
    let numbers: Vec<_> = version.split('.').collect();
    let fixed = numbers.iter().take_while(|number| **number == "0").count() + 1;
    numbers[..fixed.min(numbers.len())].join(".")
}

/// With `BLESS=1` in the environment the list is written anew.
#[test]
fn the_library_needs_no_more_crates_than_are_listed() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["tree", "--package", "zklock", "--edges", "normal,build"]);
    // The same crates on every machine.
    cargo.args(["--target", "x86_64-unknown-linux-gnu", "--locked", "--prefix", "none"]);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let needed: BTreeSet<_> = tree
        .lines()
        .map(|each| {
            let mut words = each.split(' ');
            let (name, version) = (words.next().unwrap(), words.next().unwrap());
            format!("{name} {}", line(version.trim_start_matches('v')))
        })
        .collect();
    let file = root().join("tests/dependencies.txt");
    if std::env::var_os("BLESS").is_some() {
        let lines: String = needed.iter().map(|one| format!("{one}\n")).collect();
        fs::write(&file, lines).unwrap();
    }
    let listed = fs::read_to_string(&file).unwrap();
    let listed: BTreeSet<_> = listed.lines().map(str::to_owned).collect();
    let more: Vec<_> = needed.difference(&listed).collect();
    let fewer: Vec<_> = listed.difference(&needed).collect();
    assert!(more.is_empty(), "each user of the library would build these as well: {more:?}");
    assert!(fewer.is_empty(), "not needed any more, so not to be listed: {fewer:?}");
}
