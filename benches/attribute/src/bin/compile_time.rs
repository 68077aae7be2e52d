//! What the compiler needs for 100 functions: plain, with `#[tracing::instrument]`, and with
//! `#[zk_locked]`.
//!
//! It writes three small packages below the folder that is its argument, builds what they depend on
//! once, and then times `cargo check` and `cargo build` of the package alone, in turn.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FUNCTIONS: usize = 100;
const ROUNDS: usize = 7;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The three, by their attribute.
const KINDS: [(&str, &str); 3] = [
    ("plain", ""),
    ("instrument", "#[tracing::instrument(skip_all)]"),
    ("zk_locked", "#[zklock::zk_locked(\"orders/{id}\", timeout = \"2s\", retries = 2)]"),
];

/// A program of guarded functions that are all called, so that code is made for each.
fn source(attribute: &str, round: usize) -> String {
    let mut text = format!("// {round}\nuse zklock::LockError;\n");
    let mut calls = String::new();
    for number in 0..FUNCTIONS {
        let _ = write!(
            text,
            "\n{attribute}\nasync fn order_{number}(id: u64, items: Vec<String>) -> \
             Result<String, LockError> {{\n    tokio::task::yield_now().await;\n    \
             let mut text = format!(\"order {{id}}\");\n    for item in &items {{\n        \
             text.push_str(item);\n    }}\n    Ok(text)\n}}\n"
        );
        let _ = writeln!(calls, "    all.push(Box::pin(order_{number}({number}, Vec::new())));");
    }
    let _ = write!(
        text,
        "\ntype Call = std::pin::Pin<Box<dyn Future<Output = Result<String, LockError>> + Send>>;\n\
         \nfn main() {{\n    let mut all: Vec<Call> = Vec::new();\n{calls}    \
         println!(\"{{}}\", all.len());\n}}\n"
    );
    text
}

fn manifest(name: &str, root: &Path) -> String {
    format!(
        "[package]\nname = \"compile-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[dependencies]\nzklock = {{ path = {root:?} }}\n\
         tokio = {{ version = \"1\", features = [\"rt\"] }}\n\
         tracing = {{ version = \"0.1\", features = [\"attributes\"] }}\n"
    )
}

fn cargo(command: &str, package: &Path, target: &Path) -> Outcome<Duration> {
    let started = Instant::now();
    let status = Command::new("cargo")
        .args([command, "--quiet", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "0")
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("cargo {command} failed in {}", package.display()).into());
    }
    Ok(started.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Outcome<()> {
    let usage = "usage: compile_time <an empty folder to work in>";
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or(usage)?);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let target = folder.join("target");
    for (name, attribute) in KINDS {
        let package = folder.join(name);
        fs::create_dir_all(package.join("src"))?;
        fs::write(package.join("Cargo.toml"), manifest(name, &root))?;
        fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"))?;
        fs::write(package.join("src/main.rs"), source(attribute, 0))?;
        cargo("check", &package, &target)?;
        cargo("build", &package, &target)?;
    }
    println!(
        "seconds for {FUNCTIONS} functions, median of {ROUNDS}; in brackets the ratio to plain"
    );
    for command in ["check", "build"] {
        let mut times = KINDS.map(|_| Vec::new());
        for round in 1..=ROUNDS {
            for ((name, attribute), times) in KINDS.iter().zip(&mut times) {
                let package = folder.join(name);
                fs::write(package.join("src/main.rs"), source(attribute, round))?;
                times.push(cargo(command, &package, &target)?);
            }
        }
        let medians = times.map(median);
        let plain = medians[0].as_secs_f64();
        for ((name, _), time) in KINDS.iter().zip(medians) {
            let time = time.as_secs_f64();
            println!("cargo {command}, {name:<12} {time:>7.2} ({:.2})", time / plain);
        }
    }
    Ok(())
}
