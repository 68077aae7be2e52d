//! Schedules that showed something once, and must not again: the lines of `kept.txt`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::chooser::{Chooser, Streams};
use crate::found::told;
use crate::profile::{Profile, named};
use crate::rules::{ALL, Rule};
use crate::schedule::run;

/// Where they are.
pub fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kept.txt")
}

/// The line of a schedule in which a rule did not hold.
pub fn line(name: &str, rule: Rule, profile: &Profile, choices: &Streams) -> String {
    format!("{name} {} {} {choices}", rule.name, profile.text())
}

/// Adds a line.
///
/// # Errors
///
/// Where the file cannot be read or written, or has this name already.
pub fn keep(line: &str) -> io::Result<()> {
    let name = |line: &str| line.split(' ').next().map(str::to_owned);
    let old = fs::read_to_string(file())?;
    if old.lines().any(|old| name(old) == name(line)) {
        return Err(io::Error::other("this name is there already"));
    }
    writeln!(OpenOptions::new().append(true).open(file())?, "{line}")
}

/// Runs all lines of a text, but comments. Returns what does not hold.
pub fn failures(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(failure).collect()
}

fn failure(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [name, rule, profile, choices] = words[..] else {
        return Some(format!("no schedule: {line}"));
    };
    if ALL.iter().all(|known| known.name != rule) {
        return Some(format!("no rule: {line}"));
    }
    let (Some(profile), Ok(choices)) = (named(profile), choices.parse::<Streams>()) else {
        return Some(format!("no profile, or no choices: {line}"));
    };
    let violation = run(Chooser::streams(choices.clone()), &profile, false).violation?;
    Some(format!("{name}: {}", told(&violation, &format!("{} {choices}", profile.text()))))
}
