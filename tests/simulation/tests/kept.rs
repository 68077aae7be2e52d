//! The lines of `kept.txt`.

#![allow(clippy::unwrap_used)]

use zklock_simulation::kept::{failures, file};

#[test]
fn what_was_mended_stays_so() {
    assert_eq!(failures(&std::fs::read_to_string(file()).unwrap()), [""; 0]);
}

#[test]
fn a_line_that_cannot_be_run_is_told() {
    assert_eq!(failures("# nothing\n\na_name served mutex: 0:0"), [""; 0]);
    assert_eq!(failures("a_name rule mutex: 0:0").len(), 1);
    assert_eq!(failures("a_name served unknown: 0:0").len(), 1);
    assert_eq!(failures("a_name mutex: 0:0").len(), 1);
}
