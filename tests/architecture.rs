//! Holds the code to the floors of `ARCHITECTURE.md`.

// What cannot be read fails the test.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of a table, from the ground up.
fn rooms(table: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let head = format!("| floor | files in `{table}` | own |");
    let rows = text.lines().skip_while(|line| *line != head).skip(2);
    let cells = rows.take_while(|line| line.starts_with('|'));
    let files = cells.filter_map(|line| line.split('|').nth(2).map(str::to_owned));
    files
        .flat_map(|cell| {
            cell.split(',').map(|file| file.trim().trim_matches('`').to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, found: &mut BTreeMap<String, String>, base: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found, base);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(base).unwrap().with_extension("");
            let name = name.to_str().unwrap().to_owned();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The code of a file without its comments and its unit tests.
fn code(text: &str) -> String {
    let begins = ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub(super) mod tests {"];
    let end = begins.iter().filter_map(|begin| text.find(begin)).min().unwrap_or(text.len());
    let (text, _) = text.split_at(end);
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn room<'a>(rooms: &'a [String], file: &str) -> Option<(usize, &'a str)> {
    let holds = |room: &str| file == room || file.starts_with(&format!("{room}/"));
    rooms.iter().position(|room| holds(room)).map(|at| (at, rooms[at].as_str()))
}

/// The paths that begin here: one, or those of a group in braces.
fn paths(text: &str) -> Vec<&str> {
    fn first(text: &str) -> &str {
        let end = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
        text.split(end).next().unwrap_or_default()
    }
    let Some(group) = text.strip_prefix('{') else { return vec![first(text)] };
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(first(group[start..at].trim()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(first(group[start..at].trim()));
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The files that a file imports, by `crate::a::b` or, within a folder, by `super::b`.
fn imports(file: &str, text: &str, files: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    let folder: Vec<&str> = file.split('/').collect();
    for (marker, base) in [("crate::", &[][..]), ("super::", &folder[..folder.len() - 1])] {
        for (at, _) in text.match_indices(marker) {
            for path in paths(&text[at + marker.len()..]) {
                let own = path.split("::").filter(|part| !part.is_empty());
                let parts: Vec<&str> = base.iter().copied().chain(own).collect();
                let candidates = (1..=parts.len()).rev().map(|n| parts[..n].join("/"));
                found.extend(candidates.into_iter().find(|candidate| {
                    files.contains_key(candidate) || files.contains_key(&format!("{candidate}/mod"))
                }));
            }
        }
    }
    found
}

fn check(folder: &str, table: &str) {
    let rooms = rooms(table);
    assert!(rooms.len() > 3, "no table of {table}");
    let (mut files, base) = (BTreeMap::new(), root().join(folder));
    sources(&base, &mut files, &base);
    let mut wrong = Vec::new();
    for (file, text) in &files {
        if file == "lib" || file.ends_with("mod") {
            continue;
        }
        let Some((floor, here)) = room(&rooms, file) else {
            wrong.push(format!("{file} is in no room"));
            continue;
        };
        for import in imports(file, &code(text), &files) {
            match room(&rooms, &import) {
                Some((_, there)) if there == here => {}
                Some((below, _)) if below < floor => {}
                Some((_, there)) => {
                    wrong.push(format!("{file} imports {there}, which is above it"))
                }
                None => wrong.push(format!("{file} imports {import}, a folder and not a file")),
            }
        }
    }
    for room in &rooms {
        let empty = !files.keys().any(|file| file == room || file.starts_with(&format!("{room}/")));
        if empty {
            wrong.push(format!("{room} is named and does not exist"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_file_of_the_core_is_in_a_room() {
    let (mut files, base) = (BTreeMap::new(), root().join("zklock-core/src"));
    sources(&base, &mut files, &base);
    let loose: Vec<_> = files.keys().filter(|file| !file.contains('/')).collect();
    assert_eq!(loose, ["lib"]);
}

#[test]
fn imports_of_the_core_go_downwards() {
    check("zklock-core/src", "zklock-core/src");
}

#[test]
fn imports_of_the_macros_go_downwards() {
    check("zklock-macros/src", "zklock-macros/src");
}

#[test]
fn every_time_stands_in_one_table() {
    let (mut files, base) = (BTreeMap::new(), root().join("zklock-core/src"));
    sources(&base, &mut files, &base);
    // A clock begins an hour ago, and a server's time is rounded up: neither is a time to wait.
    let exempt = ["base/times", "base/clock", "cooldown/server_time", "coordinator/memory"];
    files.retain(|file, _| !exempt.iter().any(|exempt| file.starts_with(exempt)));
    files.retain(|file, _| !file.contains("/tests/"));
    let is_time = |rest: &str| {
        let value = rest.split_once('(').map_or("", |(_, value)| value);
        value.starts_with(|c: char| c.is_ascii_digit())
    };
    for (file, text) in &files {
        let code = code(text);
        let times = code.split("Duration::from_").skip(1).filter(|rest| is_time(rest)).count();
        assert_eq!(times, 0, "{file} has a time of its own, which belongs into base/times");
    }
}

/// The log is the application's, and one that is written to a stream which nobody reads any more panics.
#[test]
fn a_line_of_the_log_that_panics_does_no_harm() {
    // Whoever calls these goes on if they panic.
    const CAUGHT: [(&str, usize); 2] =
        [("session/generation/held", 2), ("session/lane/opening", 1)];
    let (folder, mut files) = (root().join("zklock-core/src"), BTreeMap::new());
    sources(&folder, &mut files, &folder);
    for (file, text) in files {
        let code = code(&text);
        let lines = code.match_indices("tracing::").filter(|(at, _)| {
            let rest = &code[at + "tracing::".len()..];
            let is_line = ["error!", "warn!", "info!", "debug!", "trace!"];
            is_line.iter().any(|line| rest.starts_with(line))
        });
        // Each in a closure that is called with it.
        let harmful = lines.filter(|(at, _)| {
            let before: String = code[..*at].chars().rev().take(300).collect();
            !before.contains("unharmed(".chars().rev().collect::<String>().as_str())
        });
        let known = CAUGHT.iter().find(|(known, _)| *known == file).map_or(0, |(_, count)| *count);
        assert_eq!(harmful.count(), known, "lines of the log in {file} that are not `unharmed`");
    }
}
