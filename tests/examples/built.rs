//! Where the examples are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The command of an example.
pub(crate) fn example(name: &str) -> Command {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    Command::new(FOLDER.get_or_init(folder).join(name))
}

/// The folder of the built examples. Cargo builds them with most forms of `cargo test`, but not
/// with `cargo test --test examples`; then old ones may lie there.
fn folder() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    // A test lies in `deps` of the profile, a program in the profile's folder itself.
    let profile = own.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).unwrap();
    let folder = profile.join("examples");
    let names = ["driver", "lock_agent", "order_numbers", "read_write", "template"];
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = above.find(|folder| folder.join("Cargo.lock").is_file()).unwrap();
    let sources = [
        "Cargo.toml",
        "Cargo.lock",
        "src",
        "examples",
        "zklock-core",
        "zklock-macros",
        "zklock-simulator",
    ];
    let newest = sources.iter().filter_map(|source| last_change(&root.join(source))).max();
    if names.iter().any(|name| modified(&folder.join(name)) < newest) {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(root).args(["build", "--quiet", "--target-dir"]);
        cargo.arg(profile.parent().unwrap());
        cargo.args(profile.ends_with("release").then_some("--release"));
        cargo.args(names.iter().flat_map(|name| ["--example", *name]));
        assert!(cargo.status().unwrap().success(), "the examples cannot be built");
    }
    folder
}

/// The last change of a file, or of any below a folder.
fn last_change(path: &Path) -> Option<SystemTime> {
    let Ok(entries) = fs::read_dir(path) else { return modified(path) };
    entries.filter_map(|entry| last_change(&entry.ok()?.path())).max()
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok()?.modified().ok()
}
