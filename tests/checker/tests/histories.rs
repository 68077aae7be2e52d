//! The checker finds what is wrong with a history, and nothing wrong with a good one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Duration;

use zklock_checker::linearizable::{self, Opinion};
use zklock_checker::{History, Rule, check, judge};

fn histories(folder: &str) -> Vec<(String, History)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("histories").join(folder);
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, History::read(BufReader::new(File::open(file).unwrap())).unwrap())
    };
    files.into_iter().map(read).collect()
}

#[test]
fn good_histories_pass() {
    let all = histories("good");
    assert!(all.len() >= 10);
    for (name, history) in all {
        assert_eq!(check(&history), [], "{name}");
        assert!(history.left.is_some() && !history.calls.is_empty(), "{name}");
        for (lock, model, opinion) in linearizable::check(&history, Duration::from_secs(10)) {
            assert_eq!(opinion, Opinion::Yes, "{name}: {lock} as {model}");
        }
    }
}

#[test]
fn every_bad_history_is_refused_for_what_its_name_says() {
    let mut rules = BTreeSet::new();
    for (name, history) in histories("bad") {
        let broken: BTreeSet<Rule> = check(&history).into_iter().map(|found| found.rule).collect();
        let broken: Vec<String> = broken.into_iter().map(|rule| rule.to_string()).collect();
        assert_eq!(broken, [name.split('-').next().unwrap()], "{name}");
        rules.extend(broken);
    }
    assert_eq!(rules.len(), 13, "one for each rule: {rules:?}");
}

#[test]
fn the_independent_checker_refuses_them_too() {
    for (name, history) in histories("bad") {
        // What it knows: who is inside, in which order, with which tokens.
        let knows = ["exclusion", "tokens-backwards", "tokens-repeated", "tokens-of-those"];
        let cannot = ["exclusion-siblings", "exclusion-after-a-kill"];
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if begins(&knows) && !begins(&cannot) || name == "fenced-stale-write" {
            let opinions = linearizable::check(&history, Duration::from_secs(10));
            let refused = opinions.iter().any(|(_, _, opinion)| *opinion == Opinion::No);
            assert!(refused, "{name}: {opinions:?}");
        }
    }
}

#[test]
fn each_rule_says_how_much_it_has_judged() {
    let mut judged = BTreeMap::<Rule, u64>::new();
    for (_, history) in histories("good") {
        let verdict = judge(&history);
        Rule::ALL
            .iter()
            .for_each(|rule| *judged.entry(*rule).or_default() += verdict.judged(*rule));
    }
    let silent: Vec<_> = judged.iter().filter(|(_, judged)| **judged == 0).collect();
    assert!(silent.is_empty(), "{silent:?}");
    // A history about which there is nothing to say.
    let nothing = judge(&History::of([]));
    assert!(Rule::ALL.iter().all(|rule| nothing.judged(*rule) == 0), "{nothing}");
}

/// How many calls the deadline has judged, and how many not.
fn deadlines(folder: &str, name: &str) -> (u64, u64) {
    let (_, history) = histories(folder).into_iter().find(|(one, _)| one == name).unwrap();
    let verdict = judge(&history);
    (verdict.judged(Rule::Deadline), verdict.excused(Rule::Deadline))
}

#[test]
fn a_deadline_excuses_only_who_did_not_run_when_its_time_was_over() {
    assert_eq!(deadlines("good", "deadline-in-time"), (1, 0));
    assert_eq!(deadlines("good", "deadline-while-it-stood-still"), (0, 1));
    assert_eq!(deadlines("good", "deadline-while-a-processor-was-stolen"), (1, 1));
    // It stood still before, or other threads did.
    for name in [
        "deadline-long-after-it-was-stopped",
        "deadline-after-it-waited-for-a-processor",
        "deadline-while-threads-waited-that-it-does-not-need",
    ] {
        let (judged, excused) = deadlines("bad", name);
        assert!(judged > 0 && excused == 0, "{name}: {judged} judged, {excused} excused");
    }
}
