//! What the guide says of the log, beside what the sources log.

use std::fs;

use super::root;
use crate::pages::files;

/// How many lines before a macro its text may be, where it has a name.
const BEFORE: usize = 10;

/// The macros of `tracing` of a level, each with the lines before it in one line.
fn logged(level: &str) -> Vec<String> {
    let start = format!("tracing::{}!(", level.to_lowercase());
    let mut logged = Vec::new();
    for (_, source) in files("rs").iter().filter(|(path, _)| path.starts_with("zklock-core/src")) {
        for (at, _) in source.match_indices(&start) {
            let before = source[..at].rmatch_indices('\n').nth(BEFORE).map_or(0, |(at, _)| at);
            let end = source[at..].find(");").map_or(source.len(), |end| at + end);
            // A string goes on in the next line.
            let mut lines = source[before..end].split("\\\n");
            let first = lines.next().unwrap().to_owned();
            logged.push(lines.fold(first, |text, line| text + line.trim_start()));
        }
    }
    logged
}

/// By its level and its text somebody looks for a line.
#[test]
fn each_line_of_the_log_that_the_guide_quotes_is_logged_with_its_level() {
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let (mut quoted, mut missing) = (0, Vec::new());
    for level in ["ERROR", "WARN", "INFO"] {
        let logged = logged(level);
        let row = format!("| `{level}` | ");
        for line in page.lines().filter_map(|line| line.strip_prefix(&row)) {
            let says = line.split(" | ").next().unwrap();
            for text in says.split('"').skip(1).step_by(2) {
                quoted += 1;
                let has_all =
                    |line: &String| text.split('…').all(|part| line.contains(part.trim()));
                if !logged.iter().any(has_all) {
                    missing.push(format!("{level}: {text}"));
                }
            }
        }
    }
    assert!(quoted > 20, "{quoted}");
    assert_eq!(missing, [""; 0]);
}
