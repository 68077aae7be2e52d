//! The last order number, in a plain file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that contains one number. Reading and writing are two steps, and nothing in this type
/// keeps others out in between.
#[derive(Clone, Debug)]
pub(crate) struct Counter(PathBuf);

impl Counter {
    /// Creates the file; the last number is 0.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        let counter = Counter(path);
        fs::File::create_new(&counter.0)?;
        counter.write(0)?;
        Ok(counter)
    }

    /// Uses a file that exists.
    pub(crate) fn at(path: PathBuf) -> Self {
        Counter(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn read(&self) -> io::Result<u64> {
        let text = fs::read_to_string(&self.0)?;
        text.trim().parse().map_err(|error| {
            let what = format!("{}: {text:?} is no number: {error}", self.0.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }

    /// Overwrites the number, in one call and always with the same number of bytes, so that a
    /// reader in the half without a lock may find an old number but never a broken one.
    pub(crate) fn write(&self, number: u64) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(&self.0)?;
        file.write_all(format!("{number:020}\n").as_bytes())
    }
}
