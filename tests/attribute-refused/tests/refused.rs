//! What is refused, and what is said: one file per mistake in `refused/`, beside it what rustc says.
//!
//! With `BLESS=1` in the environment the test writes there what rustc says now, and fails.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs, thread};

use serde_json::Value;

#[test]
fn every_mistake_is_told_once_and_where_it_is() {
    let cases = files("rs");
    assert!(cases.len() > 110, "{} mistakes", cases.len());
    let crates = crates();
    let (accepted, said) = compile(Path::new("tests/accepted/sound.rs"), &crates);
    assert!(accepted, "nothing can be compiled against what is built:\n{said}");
    let (left, wrong) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()));
    let check = || {
        loop {
            let Some(case) = left.lock().unwrap().next() else { return };
            if let Some(message) = differs(&case, &crates) {
                wrong.lock().unwrap().push(message);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().unwrap().get() {
            scope.spawn(check);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let of_nothing: Vec<_> =
        files("stderr").into_iter().filter(|said| !said.with_extension("rs").is_file()).collect();
    assert!(of_nothing.is_empty(), "no mistake is beside {of_nothing:?}");
}

/// The files of the mistakes that end like this.
fn files(extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir("tests/refused").unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|its| its == extension));
    files.sort_unstable();
    files
}

/// The arguments that tell rustc where the crates are that a case uses.
///
/// A test that builds them once more takes minutes. So it asks cargo where they are, with the packages
/// for which cargo built this test: with others it could choose other features, and build.
fn crates() -> Vec<String> {
    let packages = env::var("ZKLOCK_PACKAGES");
    let packages = packages.as_deref().unwrap_or("--package=zklock-attribute-refused-tests");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--no-run", "--message-format=json", "--quiet"]).args(packages.split(' '));
    // Where cargo built this test, and how: in `PROFILE/deps` of its folder.
    let profile = env::current_exe().unwrap();
    let profile = profile.ancestors().nth(2).unwrap().file_name().unwrap();
    let profile = if profile == "debug" { "dev".as_ref() } else { profile };
    cargo.arg("--profile").arg(profile);
    cargo.arg("--target-dir").arg(Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap());
    cargo.current_dir(root());
    let output = cargo.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let built: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file_of = |name: &str| {
        let of_it = |message: &&Value| {
            message["target"]["name"] == name
                && message["target"]["kind"][0] != "custom-build"
                && message["profile"]["test"] == false
        };
        let files =
            built.iter().filter(of_it).flat_map(|message| message["filenames"].as_array().unwrap());
        let files = files.map(|file| file.as_str().unwrap());
        let files: Vec<_> = files.filter(|file| !file.ends_with(".rmeta")).collect();
        assert_eq!(files.len(), 1, "{name}: {files:?}");
        files[0]
    };
    let crates = ["zklock_attribute_recorder", "async_trait", "tokio", "tracing"];
    let arguments = crates.map(|name| {
        let file = file_of(name);
        let folder = Path::new(file).parent().unwrap().display();
        let used_as = if name == crates[0] { "zklock" } else { name };
        [format!("--extern={used_as}={file}"), format!("-Ldependency={folder}")]
    });
    arguments.into_iter().flatten().collect()
}

/// Whether rustc compiles a case, and what it says.
fn compile(case: &Path, crates: &[String]) -> (bool, String) {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args([
        "--edition=2024",
        "--crate-type=bin",
        "--emit=metadata",
        "-Adead_code",
        "--out-dir",
    ]);
    rustc.arg(env!("CARGO_TARGET_TMPDIR")).args(crates);
    // As cargo: the crates know their sources by a path from there.
    rustc.arg(Path::new("tests/attribute-refused").join(case)).current_dir(root());
    let output = rustc.output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// What is said of a case, if that is not what is written beside it.
fn differs(case: &Path, crates: &[String]) -> Option<String> {
    let (accepted, said) = compile(case, crates);
    let said = tidy(&said);
    if accepted {
        return Some(format!("{} is not refused; rustc says:\n{said}", case.display()));
    }
    let beside = case.with_extension("stderr");
    let expected = fs::read_to_string(&beside).unwrap_or_default();
    if without_margin(&said) == without_margin(&expected) {
        return None;
    }
    if env::var_os("BLESS").is_some() {
        fs::write(&beside, &said).unwrap();
    }
    Some(format!("{}: rustc says\n{said}\nexpected is\n{expected}", case.display()))
}

/// Without what differs between machines, and without the lines of other files: they move.
fn tidy(said: &str) -> String {
    let mut lines = Vec::new();
    let mut elsewhere = false;
    for line in said.replace("tests/attribute-refused/", "").trim_end().lines() {
        let start = line.trim_start();
        if ["error: aborting due to", "Some errors have detailed", "For more information about"]
            .iter()
            .any(|dropped| line.starts_with(dropped))
        {
            continue;
        }
        let place = ["--> ", "::: "].iter().find_map(|arrow| start.strip_prefix(arrow));
        if let Some(place) = place {
            elsewhere = !place.starts_with("tests/refused/");
            if elsewhere {
                let arrow = &line[..line.len() - place.len()];
                lines.push(format!("{arrow}{}", without_lines(place)));
                continue;
            }
        }
        let of_source =
            start.starts_with(|first: char| first.is_ascii_digit() || "|.".contains(first));
        elsewhere &= place.is_some() || of_source;
        if elsewhere {
            let number = |letter: char| if letter.is_ascii_digit() { ' ' } else { letter };
            let source = line.find('|').unwrap_or(line.len());
            lines.push(line[..source].chars().map(number).collect::<String>() + &line[source..]);
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n").trim_end().to_owned() + "\n"
}

/// A place in a file of the standard library or of this project.
fn without_lines(place: &str) -> String {
    let file = place.split(':').next().unwrap_or_default();
    if let Some((_, library)) = file.split_once("/library/") {
        return format!("$RUST/{library}");
    }
    format!("$WORKSPACE/{file}")
}

/// The margin before `|` is as wide as the longest number of a line, also of one that was left out.
fn without_margin(said: &str) -> String {
    let line = |line: &str| {
        let start = line.trim_start();
        let number = start.trim_start_matches(|letter: char| letter.is_ascii_digit());
        format!("{}{}\n", &start[..start.len() - number.len()], number.trim_start())
    };
    said.lines().map(line).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}
