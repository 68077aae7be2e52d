//! Each rule is a sentence of the documentation.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use zklock_simulation::rules::ALL;

/// Where users look: the guide and what is beside it, and the documentation in the source.
const DOCUMENTS: [&str; 6] =
    ["README.md", "docs", "zklock-macros", "src", "zklock-core", "zklock-simulator/src"];

fn add(path: &Path, texts: &mut Vec<String>) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| add(&entry.unwrap().path(), texts));
        return;
    }
    let kind = path.extension().and_then(|kind| kind.to_str());
    if !matches!(kind, Some("md" | "rs")) {
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| match kind {
        Some("rs") => {
            let line = line.trim_start();
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
        }
        _ => Some(line),
    });
    texts.push(plain(&lines.collect::<Vec<_>>().join("\n")));
}

/// Without emphasis, targets of links, and what wraps lines.
fn plain(text: &str) -> String {
    let text = text.replace("**", "");
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find('[') {
        plain += &rest[..start];
        rest = &rest[start + 1..];
        let Some(end) = rest.find(']') else { continue };
        let (words, after) = (&rest[..end], &rest[end + 1..]);
        plain += words;
        let target = after.strip_prefix('(').and_then(|target| target.find(')'));
        rest = target.map_or(after, |target| &after[target + 2..]);
    }
    plain += rest;
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_rule_is_a_sentence_of_the_documentation() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut texts = Vec::new();
    DOCUMENTS.iter().for_each(|path| add(&root.join(path), &mut texts));
    let says = |says: &str| texts.iter().any(|text| text.contains(&plain(says)));
    let made_up: Vec<_> =
        ALL.iter().filter(|rule| !says(rule.says)).map(|rule| (rule.name, rule.says)).collect();
    assert_eq!(made_up, [("", ""); 0]);
}

#[test]
fn a_sentence_is_found_however_it_is_set() {
    let text = plain("a **bold** one, [`linked`](a.md#b)\n   and [`Shown`] [`Kind`](crate::Kind).");
    assert_eq!(text, "a bold one, `linked` and `Shown` `Kind`.");
}
