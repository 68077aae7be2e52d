//! The data: plain files that all processes share, in place of a database.
//!
//! Files block a thread. A write that another thread did, as `spawn_blocking` and `tokio::fs` arrange,
//! would be awaited, and a handler can be dropped at an await, when its client hangs up: its lock would be
//! free before the write is done. So files are used in place, after the runtime was told.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// A folder of numbers. Nothing in this type keeps two writers apart.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    latency: Duration,
}

impl Store {
    /// Opens the data in a folder. Every read takes `latency`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created.
    pub fn open(folder: impl Into<PathBuf>, latency: Duration) -> io::Result<Self> {
        let folder = folder.into();
        for part in ["accounts", "jobs", "orders"] {
            fs::create_dir_all(folder.join(part))?;
        }
        Ok(Store { folder, latency })
    }

    /// Returns the balance of an account, if there is one.
    pub(crate) async fn balance(&self, account: u64) -> io::Result<Option<u64>> {
        self.read(&self.account(account)).await
    }

    /// Sets balances. There is no await in this function: a caller that is cancelled has set all or
    /// none. (A database would do it in a transaction.)
    pub(crate) fn set_balances(&self, balances: &[(u64, u64)]) -> io::Result<()> {
        let mut all = balances.iter();
        in_place(|| all.try_for_each(|(account, balance)| write(&self.account(*account), *balance)))
    }

    /// Returns the number of the last order.
    pub(crate) async fn last_order(&self) -> io::Result<u64> {
        Ok(self.read(&self.folder.join("orders/last")).await?.unwrap_or_default())
    }

    /// Adds an order with a unique number. One that is taken counts as used from then on: a process that is killed
    /// between the two writes costs one order, and not every later one. It moves the counter only forwards, since
    /// who comes too late, when others have the lock, finds a number that is taken, too.
    pub(crate) fn add_order(&self, number: u64, customer: u64) -> io::Result<()> {
        let order = self.folder.join(format!("orders/{number}"));
        let last = self.folder.join("orders/last");
        in_place(|| {
            let mut options = fs::OpenOptions::new();
            let added = options.write(true).create_new(true).open(&order);
            let added = added.and_then(|mut order| write!(order, "{customer}"));
            if order.exists() && number > read(&last)?.unwrap_or_default() {
                write(&last, number)?;
            }
            added
        })
    }

    /// Returns whether a job was done.
    pub(crate) async fn is_done(&self, job: u64) -> io::Result<bool> {
        Ok(self.read(&self.job(job)).await?.is_some())
    }

    /// Records that a job was done.
    pub(crate) fn done(&self, job: u64) -> io::Result<()> {
        in_place(|| write(&self.job(job), 1))
    }

    fn account(&self, account: u64) -> PathBuf {
        self.folder.join(format!("accounts/{account}"))
    }

    fn job(&self, job: u64) -> PathBuf {
        self.folder.join(format!("jobs/{job}"))
    }

    async fn read(&self, path: &Path) -> io::Result<Option<u64>> {
        let number = in_place(|| read(path))?;
        // A number that was read may be out of date when it is used: this is what the locks
        // prevent.
        tokio::time::sleep(self.latency).await;
        Ok(number)
    }
}

/// Lets other tasks go on in other threads meanwhile; a runtime with one thread has none.
#[expect(
    clippy::disallowed_methods,
    reason = "the runtime is asked whether it has several threads"
)]
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
    }
}

fn read(path: &Path) -> io::Result<Option<u64>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.parse().map_err(io::Error::other)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(path: &Path, number: u64) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, number.to_string())?;
    fs::rename(new, path)
}
