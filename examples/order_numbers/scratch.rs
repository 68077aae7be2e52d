//! A folder for the files of one run.

use std::path::PathBuf;
use std::{env, fs, io, process};

/// The folder, which is removed with all its files when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> io::Result<Self> {
        let folder = env::temp_dir().join(format!("zklock-order-numbers-{}", process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Scratch(folder))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("order_numbers: {} is left behind: {error}", self.0.display());
        }
    }
}
