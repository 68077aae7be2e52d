//! Work that is done once for all test processes, and kept.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::scratch;

/// Returns the folder with the peers' sources of a language.
pub(super) fn sources(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers").join(language)
}

/// Returns a folder that `make` has filled for this `key`, in this process or an earlier one.
///
/// # Errors
///
/// Whatever `make` says; the next process tries again.
pub(super) fn once(
    name: &str,
    key: &[u8],
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    let base = scratch::base();
    let folder = base.join(format!("{name}-{:016x}", hasher.finish()));
    let done = folder.join(".done");
    fs::create_dir_all(&base).expect("the target folder is ours");
    let lock = File::create(base.join(format!("{name}.lock"))).expect("the folder is ours");
    flock(&lock, FlockOperation::LockExclusive).expect("the file system has locks");
    if !done.exists() {
        // What an interrupted process left.
        _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("the folder is ours");
        make(&folder)?;
        fs::write(&done, "").expect("the folder is ours");
    }
    Ok(folder)
}
