//! Where what is shown comes from: the commit, the compiler and its options.

use std::process::Command;
use std::sync::LazyLock;

/// The compiler and its options.
pub const BUILT: &str = env!("BUILT");

/// All that decides what a schedule does. What is beside it may change during a long run.
const DECIDES: [&str; 6] = [
    "Cargo.lock",
    "Cargo.toml",
    "zklock-core/src",
    "zklock-simulator/src",
    "tests/simulation/src",
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

/// The commit at which a file of results begins, if these schedules would do the same today.
pub fn goes_on(file: &str) -> Option<&str> {
    let commit = file.lines().next()?.strip_prefix("commit ")?;
    (commit == self::commit() || decides_as(commit)).then_some(commit)
}
