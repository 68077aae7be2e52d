//! The demonstration with the order numbers.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::built::example;
use crate::run;

/// The counts of both halves: issued, repeated, lost.
fn counts(stdout: &[u8]) -> Vec<[u64; 3]> {
    let text = String::from_utf8_lossy(stdout);
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("issued "));
    let count = |part: &str| part.split(' ').next_back().unwrap().parse().unwrap();
    lines
        .map(|line| {
            let counts: Vec<u64> = line.split(", ").map(count).collect();
            counts.try_into().unwrap()
        })
        .collect()
}

/// A folder for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn numbers_repeat_without_the_lock_and_never_with_it() {
    let folder = Folder::new("zklock-test-orders");
    let output = example("order_numbers").env("TMPDIR", &folder.0).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let counts = counts(&output.stdout);
    let [[issued, repeated, lost], locked] = counts[..] else { panic!("{output:?}") };
    assert!(issued == 500 && repeated > 0 && lost == repeated, "{output:?}");
    assert_eq!(locked, [500, 0, 0], "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Embedded coordinator"));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "files are left behind");
}

#[test]
fn as_many_orders_are_issued_as_asked_for() {
    let output = run("order_numbers", &["--workers", "3", "--orders", "7"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(counts(&output.stdout)[1], [21, 0, 0]);
}

#[test]
fn a_command_line_without_sense_is_refused() {
    for args in [&["--workers", "0"][..], &["--orders", "x"], &["--processes", "2"], &["--bogus"]] {
        let output = run("order_numbers", args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn help_names_every_option() {
    let output = run("order_numbers", &["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    for option in ["--workers", "--orders", "--connect", "--processes"] {
        assert!(help.contains(option), "{option}");
    }
}

#[test]
fn a_server_that_is_not_there_is_a_clear_error_in_every_form() {
    // Port 1 is not served. Side by side, because each waits for its connect timeout.
    let start = |(name, more): (&str, &[&str])| {
        let mut command = example(name);
        command.args(["--connect", "127.0.0.1:1"]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let forms: [(&str, &[&str]); 4] = [
        ("order_numbers", &[]),
        ("order_numbers", &["--processes", "2"]),
        ("template", &[]),
        ("read_write", &[]),
    ];
    for child in forms.map(start) {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("127.0.0.1:1"), "{error}");
    }
}

#[test]
fn a_reader_that_goes_away_is_an_error_and_no_panic() {
    let mut command = example("order_numbers");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.starts_with("order_numbers: ") && !error.contains("panicked"), "{error}");
}
