//! Every page of Markdown: its links lead somewhere, the tests and commands that it names are there,
//! its Rust is compiled, and the guide lists it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::root;

/// Where the project is on the web: links from rustdoc have to be absolute.
const WEB: &str = "https://github.com/zklock/zklock/blob/main/";

/// All files with such a name, by their path from the root.
pub(crate) fn files(extension: &str) -> BTreeMap<PathBuf, String> {
    fn add(folder: &Path, extension: &str, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                add(&path, extension, found);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(root()).unwrap().to_path_buf(), text);
            }
        }
    }
    let mut found = BTreeMap::new();
    add(&root(), extension, &mut found);
    found
}

/// Resolves `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{} leads out", path.display()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// A page, taken apart.
#[derive(Default)]
struct Page {
    /// The text, without blocks of code and without what stands between backticks.
    text: String,
    /// What stands between backticks in the text.
    spans: Vec<String>,
    /// The blocks of code: what the fence says, and the lines.
    blocks: Vec<(String, Vec<String>)>,
    /// What a link can name after `#`.
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(source: &str) -> Self {
        let mut page = Page::default();
        let mut fence = None::<&str>;
        let mut prose = String::new();
        for line in source.lines() {
            let start = line.trim_start();
            match fence {
                Some(end) if start.trim_end() == end => fence = None,
                Some(_) => page.blocks.last_mut().unwrap().1.push(line.to_owned()),
                None if start.starts_with("```") => {
                    let length = start.len() - start.trim_start_matches('`').len();
                    fence = Some(&start[..length]);
                    page.blocks.push((start[length..].to_owned(), Vec::new()));
                }
                None => {
                    if let Some((marks, title)) = line.split_once(' ')
                        && (1..=6).contains(&marks.len())
                        && marks.chars().all(|mark| mark == '#')
                    {
                        page.add_heading(title);
                    }
                    let ids = line.split("<a id=\"").skip(1);
                    page.anchors
                        .extend(ids.filter_map(|id| Some(id.split_once('"')?.0.to_owned())));
                    prose.push_str(line);
                    prose.push('\n');
                }
            }
        }
        for (at, part) in prose.split('`').enumerate() {
            if at % 2 == 0 {
                page.text.push_str(part);
            } else {
                page.spans.push(part.replace('\n', " "));
            }
        }
        page
    }

    /// As GitHub and mdBook name a heading: words with hyphens, and a number where it repeats.
    fn add_heading(&mut self, title: &str) {
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        };
        // Of a link, its words count.
        let words = title.split("](").enumerate().map(|(at, part)| match part.split_once(')') {
            Some((_, rest)) if at > 0 => rest,
            _ => part,
        });
        let words: String = words.collect();
        let name: String = words.to_lowercase().chars().filter_map(kept).collect();
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !self.anchors.contains(name)).unwrap();
        self.anchors.insert(free);
    }

    /// Where its links lead: `[words](target)` and `[words]: target`.
    fn links(&self) -> Vec<String> {
        let inline = self.text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let listed = self.text.lines().filter(|line| line.starts_with('['));
        let listed = listed.filter_map(|line| Some(line.split_once("]: ")?.1));
        let links = inline.chain(listed).map(|target| target.trim().to_owned());
        links.filter(|target| !target.is_empty()).collect()
    }
}

fn pages() -> BTreeMap<PathBuf, Page> {
    files("md").into_iter().map(|(path, text)| (path, Page::read(&text))).collect()
}

/// Why a link leads nowhere: of a page, to a path that may end with `#anchor`.
fn broken(pages: &BTreeMap<PathBuf, Page>, from: &Path, target: &str) -> Option<String> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let to = match path {
        "" => from.to_path_buf(),
        path => plain(&from.parent().unwrap().join(path)),
    };
    if !root().join(&to).exists() {
        return Some(format!("{}: {target} is not there", from.display()));
    }
    let found = pages.get(&to).is_none_or(|page| match anchor {
        Some(anchor) => page.anchors.contains(anchor),
        None => true,
    });
    (!found).then(|| format!("{}: {target} names no heading", from.display()))
}

fn assert_none(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        let local = |target: &String| !target.contains(':') && !target.contains("{{");
        let links = page.links();
        wrong.extend(
            links.iter().filter(|target| local(target)).filter_map(|to| broken(&pages, path, to)),
        );
    }
    let sources = files("rs");
    let texts = sources.iter().map(|(path, text)| (path, text.clone()));
    let texts = texts.chain(pages.iter().map(|(path, page)| (path, page.links().join("\n"))));
    for (path, text) in texts.filter(|(path, _)| !path.starts_with("tests/documentation")) {
        for rest in text.split(WEB).skip(1) {
            let end = |c: char| c.is_whitespace() || matches!(c, ')' | '"' | '>' | ']');
            let target = rest.split(end).next().unwrap();
            let why = broken(&pages, Path::new("at-the-root"), target);
            wrong.extend(why.map(|why| format!("{}: {why}", path.display())));
        }
    }
    assert_none("links that lead nowhere", &wrong);
}

/// What the documentation in a file includes.
fn included(path: &Path, text: &str) -> Vec<PathBuf> {
    let names = text.split("doc = include_str!(\"").skip(1);
    let names = names.map(|rest| rest.split_once('"').unwrap().0);
    names.map(|name| plain(&path.parent().unwrap().join(name))).collect()
}

#[test]
fn all_rust_in_a_page_is_compiled() {
    let mut compiled = BTreeSet::new();
    for (path, text) in files("rs") {
        compiled.extend(included(&path, &text));
    }
    let rust = |fence: &str| {
        let words: Vec<_> = fence.split(',').map(str::trim).collect();
        words[0] == "rust" && !words.contains(&"ignore")
    };
    let pages = pages();
    let with = pages.iter().filter(|(_, page)| page.blocks.iter().any(|(fence, _)| rust(fence)));
    let missing = with.filter(|(path, _)| !compiled.contains(*path));
    let missing: Vec<_> = missing.map(|(path, _)| path.display().to_string()).collect();
    assert_none("pages whose Rust no documentation test includes", &missing);
    let guide = pages.iter().filter(|(path, _)| path.starts_with("docs"));
    let ignored =
        guide.filter(|(_, page)| page.blocks.iter().any(|(fence, _)| fence.contains("ignore")));
    let ignored: Vec<_> = ignored.map(|(path, _)| path.display().to_string()).collect();
    assert_none("pages of the guide with Rust that is ignored", &ignored);
}

/// Of a package without documentation tests, none of its pages is compiled: another package includes them.
#[test]
fn what_is_included_is_compiled() {
    let sources = files("rs");
    let sources = sources.iter().filter(|(path, _)| !path.starts_with("tests/documentation"));
    let is_tested = |path: &Path| {
        let folders = path.ancestors().skip(1);
        let mut manifests = folders.map(|folder| root().join(folder).join("Cargo.toml"));
        let manifest = fs::read_to_string(manifests.find(|file| file.exists()).unwrap()).unwrap();
        !manifest.contains("doctest = false")
    };
    let including = sources.filter(|(path, text)| !included(path, text).is_empty());
    let (tested, others): (Vec<_>, Vec<_>) = including.partition(|(path, _)| is_tested(path));
    let mut wrong = Vec::new();
    for (path, text) in others {
        for page in included(path, text) {
            // Some are included with all others of their folder.
            let folder = format!("{}/\", $name", page.parent().unwrap().display());
            let page = format!("{}\"", page.display());
            if !tested.iter().any(|(_, text)| text.contains(&page) || text.contains(&folder)) {
                wrong.push(format!("{}: {page}", path.display()));
            }
        }
    }
    assert_none("pages that no documentation test includes", &wrong);
}

/// Not everybody reaches the project on the web, but whoever reads a page may have it in a clone.
#[test]
fn what_is_installed_comes_from_a_clone_first() {
    const GIT: &str = "--git https://github.com/zklock/zklock";
    let texts = files("md").into_iter().filter(|(path, _)| path != Path::new("CHANGELOG.md"));
    let mut wrong = Vec::new();
    for (path, text) in texts {
        for (at, _) in text.match_indices(GIT) {
            let is_command = text[at + GIT.len()..].starts_with(" zklock-cli");
            let first =
                if is_command { "cargo install --path " } else { "cargo add zklock --path " };
            if !text[..at].contains(first) {
                wrong.push(format!("{}: {first}is not before {GIT}", path.display()));
            }
        }
        // It is not published.
        let published = ["docs.rs/zklock", "crates.io/crates/zklock"];
        wrong.extend(
            published
                .iter()
                .filter(|link| text.contains(**link))
                .map(|link| format!("{}: {link} is not there", path.display())),
        );
    }
    assert_none("commands and links for which the web is needed", &wrong);
}

/// Those with features: without this, docs.rs documents the default ones.
#[test]
fn the_published_documentation_has_all_features() {
    for manifest in ["Cargo.toml", "zklock-core/Cargo.toml"] {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        let table = text.split("[package.metadata.docs.rs]\n").nth(1).unwrap_or_default();
        assert!(table.starts_with("all-features = true\n"), "{manifest}");
    }
}

/// A name of five words or more between backticks is that of a test. Three dots stand for the rest.
#[test]
fn the_tests_that_a_page_names_exist() {
    let sources: String = files("rs").into_values().collect();
    let tests: BTreeSet<_> =
        sources.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next()).collect();
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        for span in &page.spans {
            let name = span.trim_end_matches('…');
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if name.matches('_').count() < 4 || !name.chars().all(word) {
                continue;
            }
            let found = if name == span {
                tests.contains(name)
            } else {
                tests.iter().any(|test| test.starts_with(name))
            };
            if !found {
                wrong.push(format!("{}: {span}", path.display()));
            }
        }
    }
    assert_none("tests that do not exist", &wrong);
}

/// In the last column of their tables.
#[test]
fn each_promise_failure_and_incident_names_its_test() {
    for file in ["failures", "guarantees", "runbook"] {
        let page = fs::read_to_string(root().join(format!("docs/{file}.md"))).unwrap();
        let (mut in_table, mut rows) = (false, 0);
        for line in page.lines() {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            match cells.last() {
                _ if !line.starts_with('|') => in_table = false,
                Some(&("tests" | "staged by")) => in_table = true,
                Some(last) if in_table && !last.starts_with("---") => {
                    assert!(last.contains('`') && last.contains('_'), "{file}: {}", cells[0]);
                    rows += 1;
                }
                _ => {}
            }
        }
        assert!(rows > 5, "{file} has {rows} rows with a test");
    }
}

#[test]
fn the_commands_that_a_page_names_exist() {
    let args = fs::read_to_string(root().join("zklock-cli/src/args.rs")).unwrap();
    let list = args.split_once("enum Command {").unwrap().1.split_once("\n}").unwrap().0;
    let variants = list.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(char::is_uppercase));
    let names = variants.filter_map(|line| line.split(|c: char| !c.is_alphanumeric()).next());
    let names: BTreeSet<_> = names.map(str::to_lowercase).collect();
    assert!(names.contains("run") && names.contains("show"), "{names:?}");

    let mut wrong = Vec::new();
    for (path, page) in pages() {
        let blocks = page.blocks.iter().filter(|(fence, _)| matches!(&**fence, "sh" | "console"));
        let lines = blocks.flat_map(|(_, lines)| lines);
        for code in page.spans.iter().chain(lines) {
            let starts = code.trim_start_matches("$ ").strip_prefix("zklock ");
            let word = starts.and_then(|rest| rest.split_whitespace().next());
            let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
            if let Some(word) = word.filter(is_name).filter(|word| !names.contains(*word)) {
                wrong.push(format!("{}: zklock {word}", path.display()));
            }
        }
    }
    assert_none("commands that do not exist", &wrong);
}

/// Somebody decides by it whether to read on. What does not fit is in the guide.
#[test]
fn the_readme_is_short() {
    let readme = fs::metadata(root().join("README.md")).unwrap().len();
    assert!(readme <= 9_000, "README.md has {readme} bytes, and at most 9,000 are wanted");
}

/// Its codes, and the words by which the page finds an incident.
#[test]
fn the_runbook_has_everything_that_why_can_say() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (fields, runbook) = (read("zklock-cli/JSON.md"), read("docs/runbook.md"));
    let codes = fields.lines().find(|line| line.starts_with("| `code` |")).unwrap();
    let codes: Vec<_> = codes.split('`').skip(3).step_by(2).collect();
    assert!(codes.len() >= 10, "{codes:?}");
    let missing = codes.iter().filter(|code| !runbook.contains(&format!("| `{code}` |")));
    let missing: Vec<_> = missing.map(|code| (*code).to_owned()).collect();
    assert_none("what `zklock why` can say and docs/runbook.md has not", &missing);

    let sources = ["problems", "directory", "lasting"]
        .map(|file| read(&format!("zklock-cli/src/why/{file}.rs")));
    let source = sources.concat();
    // A text that goes on in the next line ends with a backslash there.
    let said: Vec<_> = source.split("\\\n").map(str::trim_start).collect();
    let said = said.concat().to_lowercase();
    let rows = runbook.lines().filter(|line| line.starts_with("| ") && line.contains("` |"));
    let quoted = rows.flat_map(|row| row.split('"').skip(1).step_by(2));
    let unsaid = quoted.filter(|words| !said.contains(&words.to_lowercase()));
    let unsaid: Vec<_> = unsaid.map(str::to_owned).collect();
    assert_none("what docs/runbook.md quotes and `zklock why` does not say", &unsaid);
}

/// So that whoever finds the cause there finds the way out, too.
#[test]
fn the_picture_of_the_runbook_has_every_cause() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (fields, picture) = (read("zklock-cli/JSON.md"), read("docs/pictures/runbook.svg"));
    let codes = fields.lines().find(|line| line.starts_with("| `code` |")).unwrap();
    let named: BTreeSet<_> = codes.split('`').skip(3).step_by(2).collect();
    let drawn = picture.split("class=\"m code\"").skip(1).filter_map(|rest| {
        let (_, text) = rest.split_once('>')?;
        Some(text.split_once('<')?.0.split(", "))
    });
    assert_eq!(drawn.flatten().collect::<BTreeSet<_>>(), named);
}

#[test]
fn every_picture_is_shown_with_words_for_those_who_do_not_see_it() {
    let mut shown = BTreeSet::new();
    for (path, page) in pages() {
        for rest in page.text.split("![").skip(1) {
            let (words, target) = rest.split_once("](").unwrap();
            assert!(words.split_whitespace().count() >= 4, "{}: {words:?}", path.display());
            let target = target.split_once(')').unwrap().0;
            shown.insert(plain(&path.parent().unwrap().join(target)));
        }
    }
    let drawn = files("svg").into_keys().filter(|path| path.starts_with("docs"));
    let hidden = drawn.filter(|path| !shown.contains(path));
    let hidden: Vec<_> = hidden.map(|path| path.display().to_string()).collect();
    assert_none("pictures that no page shows", &hidden);
}

#[test]
fn the_fields_of_json_name_each_code_of_why_and_of_doctor() {
    let fields = fs::read_to_string(root().join("zklock-cli/JSON.md")).unwrap();
    let mut codes = fields.lines().filter(|line| line.starts_with("| `code` |"));
    let sources = files("rs");
    for (folder, calls) in [
        ("zklock-cli/src/why", &["Problem::new(", "add("][..]),
        ("zklock-cli/src/doctor", &["Check::well(", "Check::wrong(", "Check::note("]),
    ] {
        let line = codes.next().unwrap();
        let named: BTreeSet<_> = line.split('`').skip(3).step_by(2).collect();
        let its = sources.iter().filter(|(path, _)| path.starts_with(folder));
        let told = its.flat_map(|(_, source)| {
            calls.iter().flat_map(|call| source.split(call).skip(1)).filter_map(|behind| {
                Some(behind.trim_start().strip_prefix('"')?.split_once('"')?.0)
            })
        });
        assert_eq!(named, told.collect(), "{folder}");
    }
}

/// The documentation of `ErrorKind` includes the page.
#[test]
fn the_page_of_errors_has_every_kind_with_its_code() {
    let read = |path: &str| fs::read_to_string(root().join("zklock-core").join(path)).unwrap();
    let (page, source) = (read("errors.md"), read("src/base/error_kind.rs"));
    let told = source.split("ErrorKind::").filter_map(|rest| {
        let (kind, rest) = rest.split_once(" => (\"")?;
        Some((kind, rest.split_once('"')?.0))
    });
    let rows: Vec<_> = told.map(|(kind, code)| format!("| `{kind}` | `{code}` |")).collect();
    assert!(rows.len() >= 15, "{rows:?}");
    let missing: Vec<_> = rows.iter().filter(|row| !page.contains(*row)).cloned().collect();
    assert_none("kinds of errors that zklock-core/errors.md has not", &missing);
    let listed = page.lines().filter(|line| line.starts_with("| `") && line.contains("` | `1"));
    assert_eq!(listed.count(), rows.len(), "the page lists each kind once");
}

/// What the first cells of a page's tables name.
fn named(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|line| line.split('|').nth(1));
    let names = cells.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`')));
    names.map(str::to_owned).collect()
}

/// The documentation of `LockOptions` includes the page.
#[test]
fn the_page_of_options_has_every_option() {
    let read = |path: &str| fs::read_to_string(root().join("zklock-core").join(path)).unwrap();
    let source = read("src/base/options.rs");
    let fields = source.lines().filter_map(|line| line.strip_prefix("    pub "));
    let fields = fields.filter_map(|line| line.split_once(": Option<"));
    let fields: BTreeSet<_> = fields.map(|(name, _)| name.to_owned()).collect();
    assert!(fields.len() >= 17, "{fields:?}");
    assert_eq!(named(&read("lock-options.md")), fields);
}

/// The documentation of `Session::from_env` includes the page.
#[test]
fn the_page_of_environment_variables_has_every_variable() {
    let read = |path: &str| fs::read_to_string(root().join("zklock-core").join(path)).unwrap();
    let source = read("src/session/environment.rs");
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let asked = ["get(\"", "duration(\"", "file(\""]
        .iter()
        .flat_map(|ask| source.split(ask).skip(1))
        .filter_map(|rest| rest.split_once("\")?"));
    let asked: BTreeSet<_> = asked.map(|(name, _)| format!("ZKLOCK_{name}")).collect();
    assert!(asked.len() >= 13, "{asked:?}");
    assert_eq!(named(&read("environment.md")), asked);
}

#[test]
fn the_guide_lists_every_page() {
    let pages = pages();
    let summary = Path::new("docs/SUMMARY.md");
    let listed = pages[summary].links();
    let listed: BTreeSet<_> = listed.iter().map(|to| plain(&Path::new("docs").join(to))).collect();
    let written = pages.keys().filter(|path| path.starts_with("docs") && *path != summary);
    let missing = written.filter(|path| !listed.contains(*path));
    let missing: Vec<_> = missing.map(|path| path.display().to_string()).collect();
    assert_none("pages that docs/SUMMARY.md does not list", &missing);
}

#[test]
fn a_page_is_read_as_it_is_shown() {
    let page = Page::read(
        "# A [link](a.md) and `code`\n\n```sh\n# no heading [x](none.md)\n```\n\n## Twice\n## Twice\n\
         `[no](link.md)` <a id=\"here\"></a> [yes](b.md#x) `two\nwords`\n\n[c]: c.md\n",
    );
    let anchors: Vec<_> = page.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["a-link-and-code", "here", "twice", "twice-1"]);
    assert_eq!(page.links(), ["a.md", "b.md#x", "c.md"]);
    assert_eq!(page.spans, ["code", "[no](link.md)", "two words"]);
    assert_eq!(page.blocks[0].0, "sh");
}
