//! Folders for the data of servers and compiled peers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// Returns the folder below which everything is put: `tmp` of cargo's target folder.
///
/// Not the system's temporary folder, which may be in memory: a server without a disk under it
/// would make every measurement wrong.
pub(crate) fn base() -> PathBuf {
    if let Some(dir) = env::var_os("ZKLOCK_TEST_DIR") {
        return PathBuf::from(dir);
    }
    let exe = env::current_exe().unwrap_or_default();
    let target = exe.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    target.map_or_else(env::temp_dir, Path::to_path_buf).join("tmp")
}

/// Creates a new, empty folder that no other process uses.
pub(crate) fn create(label: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = base();
    fs::create_dir_all(&base)
        .unwrap_or_else(|err| panic!("cannot create the folder {}: {err}", base.display()));
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("{label}-{}-{number}", process::id()));
        match fs::create_dir(&dir) {
            Ok(()) => return dir,
            // Left by an earlier process with this id whose watchdog was killed too.
            Err(err) if err.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(err) => panic!("cannot create the folder {}: {err}", dir.display()),
        }
    }
}
