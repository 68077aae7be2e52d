//! Every option is wherever people look for it, and tried in every way.

// Of the modules of the macros it reads the names only.
#![allow(missing_docs, dead_code)]

use std::{fs, path::PathBuf};

#[path = "../../../zklock-macros/src/options.rs"]
mod options;
#[path = "../../../zklock-macros/src/suggest.rs"]
mod suggest;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The sources in a folder and below, but not what is made of them.
fn sources(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(sources(&format!("{folder}/{name}")));
        } else if name.ends_with(".rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
    found
}

/// Whether an attribute in the text has the option, with a value or bare.
fn uses(text: &str, option: &str) -> bool {
    let follows = |rest: &str| rest.is_empty() || rest.starts_with([' ', ',', '(']);
    let calls = text.split("zk_locked(").skip(1);
    calls.filter_map(|call| call.split(")]").next()).any(|call| {
        let mut parts = call.split(option);
        let mut before = parts.next().unwrap_or_default();
        parts.any(|after| {
            let starts = before.ends_with([' ', '(', '\n']);
            before = after;
            starts && follows(after)
        })
    })
}

fn missing(folder: &str) -> Vec<&'static str> {
    let sources = sources(folder);
    let tried = |option: &&str| sources.iter().any(|source| uses(source, option));
    options::names().into_iter().filter(|option| !tried(option)).collect()
}

#[test]
fn every_option_has_an_expansion_a_running_test_and_a_mistake() {
    for folder in [
        "zklock-macros/expansions",
        "tests/attribute/tests/behaviour",
        "tests/attribute-refused/tests/refused",
    ] {
        assert_eq!(missing(folder), [""; 0], "in {folder}");
    }
}

#[test]
fn every_option_is_in_the_table_and_has_its_section() {
    let reference = read("zklock-macros/options.md");
    for option in options::names() {
        let row = format!("| [`{option}`](#{option}) |");
        assert!(reference.contains(&row), "{option} in the table");
        assert!(reference.contains(&format!("\n## `{option}`\n")), "{option} has no section");
    }
}

#[test]
fn there_are_many_cases() {
    let guarded: usize = sources("tests/attribute/tests/behaviour")
        .iter()
        .map(|source| source.matches("#[zk_locked(").count())
        .sum();
    assert!(guarded >= 40, "{guarded} guarded functions run, in each edition");
    let refused = sources("tests/attribute-refused/tests/refused").len();
    assert!(refused >= 40, "{refused} mistakes");
}

#[test]
fn the_macros_need_nothing_heavy() {
    let manifest = read("zklock-macros/Cargo.toml");
    let needed = manifest.split("[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let names: Vec<&str> = needed.split_whitespace().filter(|word| word.contains('.')).collect();
    let allowed = ["humantime", "proc-macro2", "quote", "syn"].map(|n| format!("{n}.workspace"));
    assert_eq!(names, allowed);
}
