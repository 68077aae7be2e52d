//! Readers and writers.

use crate::run;

#[test]
fn writers_are_alone_in_every_part() {
    let output = run("read_write", &["--hold-ms", "40"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches("writers alone: true").count(), 3, "{text}");
    assert_eq!(text.matches(" client ").count(), 30, "{text}");
}

#[test]
fn an_unknown_option_is_refused() {
    let output = run("read_write", &["--bogus"]);
    assert_eq!(output.status.code(), Some(2));
}
