//! Where what is shown comes from: the commit, the compiler and its options.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::{fs, io};

/// The compiler and its options.
pub const BUILT: &str = env!("BUILT");

/// All that decides what a schedule does. What is beside it may change during a long run.
const DECIDES: [&str; 12] = [
    "Cargo.lock",
    "Cargo.toml",
    "src",
    "zklock-core/src",
    "zklock-core/Cargo.toml",
    "zklock-macros/src",
    "zklock-macros/Cargo.toml",
    "zklock-simulator/src",
    "zklock-simulator/Cargo.toml",
    "tests/simulation/src",
    "tests/simulation/build.rs",
    "tests/simulation/Cargo.toml",
];

fn git(arguments: &[&str]) -> Option<String> {
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let out = Command::new("git").arg("-C").arg(tree).args(arguments).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Whether a commit decides as the tree does.
fn decides_as(commit: &str) -> bool {
    let same = ["diff", "--quiet", commit, "--"];
    git(&same.into_iter().chain(DECIDES).collect::<Vec<_>>()).is_some()
}

/// The commit, and whether what decides was changed since.
pub fn commit() -> &'static str {
    static COMMIT: LazyLock<String> = LazyLock::new(|| {
        let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
        if decides_as("HEAD") { commit } else { format!("{commit}-dirty") }
    });
    &COMMIT
}

/// The commit at which a file of results begins, if these schedules would do the same today. Nobody knows what a
/// tree was like that had no commit of its own.
pub fn goes_on(file: &str) -> Option<&str> {
    let commit = file.lines().next()?.strip_prefix("commit ")?;
    decides_as(commit).then_some(commit)
}

/// Writes a file of results, which is there as it was or as it is to be, whenever this ends.
///
/// # Errors
///
/// Where it cannot be written.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    fs::write(&new, text)?;
    fs::rename(&new, file)
}
