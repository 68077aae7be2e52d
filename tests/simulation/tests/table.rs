//! Each deliberate defect is found, or a line says why it cannot be; and each rule and each profile is in `README.md`.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use zklock_simulation::profile::{MIX, named};
use zklock_simulation::rules::ALL;

const README: &str = include_str!("../README.md");
const DEFECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../defects");

/// A defect is found within so many schedules of a profile.
const MOST: u32 = 20_000;

/// The rows of the table that has these columns, without that of its title.
fn rows<const N: usize>(columns: [&str; N]) -> Vec<[&str; N]> {
    let cells = |line: &'static str| -> Option<[&str; N]> {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        line.split(" | ").collect::<Vec<_>>().try_into().ok()
    };
    let mut lines = README.lines().skip_while(|line| cells(line) != Some(columns));
    assert!(lines.next().is_some(), "no table has the columns {columns:?}");
    lines.skip(1).map_while(cells).collect()
}

/// What a line of a file of a defect says of a key.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
    Some(value.trim_matches('"'))
}

/// The texts of all defects, by their names.
fn defects() -> BTreeMap<String, String> {
    let files = fs::read_dir(DEFECTS).unwrap().map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.extension().is_some_and(|kind| kind == "toml"));
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    tables.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
}

fn found() -> Vec<[&'static str; 4]> {
    rows(["defect", "profile", "seed", "by the rule"])
}

#[test]
fn each_defect_is_found_or_a_line_says_why_it_cannot_be() {
    let found: BTreeSet<_> = found().into_iter().map(|[defect, ..]| defect).collect();
    let crates = rows(["crate", "why its defects cannot show"]);
    let crates: Vec<_> = crates.into_iter().map(|[name, _]| name.trim_matches('`')).collect();
    let wrong = |(name, text): (&String, &String)| {
        let file = value(text, "file").unwrap_or_default();
        let is_of = |name: &str| file.split('/').next() == Some(name);
        let reasons = [
            found.contains(name.as_str()),
            value(text, "unseen").is_some_and(|why| !why.is_empty()),
            crates.iter().any(|name| is_of(name)),
        ];
        let many = reasons.into_iter().filter(|is_one| *is_one).count();
        (many != 1).then(|| {
            format!("{name}: {many} of a row, a line `unseen`, and a crate that has a reason")
        })
    };
    let wrong: Vec<_> = defects().iter().filter_map(wrong).collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn each_row_is_of_a_defect_that_is_found_in_time_in_a_profile_of_the_mix() {
    let defects = defects();
    let is_right = |[defect, profile, seed, rule]: &[&str; 4]| {
        defects.contains_key(*defect)
            && MIX.iter().any(|one| one.name == *profile)
            && seed.parse::<u32>().is_ok_and(|seed| seed < MOST)
            && ALL.iter().any(|one| one.name == *rule)
    };
    let wrong: Vec<_> = found().into_iter().filter(|row| !is_right(row)).collect();
    assert_eq!(wrong, [[""; 4]; 0]);
}

#[test]
fn each_rule_finds_a_defect_or_a_line_says_why_it_does_not() {
    let found: BTreeSet<_> = found().into_iter().map(|[.., rule]| rule).collect();
    let excused = rows(["rule", "why it finds none first"]).into_iter().map(|[rule, _]| rule);
    let excused: BTreeSet<_> = excused.collect();
    let all: BTreeSet<_> = ALL.iter().map(|rule| rule.name).collect();
    assert_eq!(all.difference(&found).copied().collect::<BTreeSet<_>>(), excused);
}

#[test]
fn each_profile_is_told_about() {
    let told = rows(["profile", "about"]);
    let told: BTreeSet<_> = told.iter().flat_map(|[names, _]| names.split(", ")).collect();
    let untold: Vec<_> =
        MIX.iter().map(|one| one.name).filter(|name| !told.contains(name)).collect();
    assert_eq!(untold, [""; 0]);
    assert!(told.into_iter().all(|name| named(name).is_some()));
}
