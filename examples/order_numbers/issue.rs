//! Issuing one order number.

use std::io;
use std::thread;
use std::time::Duration;

use zklock::{LockError, zk_locked};

use crate::counter::Counter;

/// The halves of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Unlocked,
    Locked,
}

impl Half {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Half::Unlocked => "unlocked",
            Half::Locked => "locked",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Half::Unlocked => "Without the lock",
            Half::Locked => "With #[zk_locked(\"createOrder\", timeout = \"60s\", retries = 2)]",
        }
    }

    /// Issues an order number in the way of this half.
    pub(crate) fn issue(self, counter: &Counter) -> Result<u64, OrderError> {
        match self {
            Half::Unlocked => issue(counter),
            Half::Locked => issue_locked(counter),
        }
    }
}

/// Reads the last number, adds one, writes it back.
///
/// Files block a thread, so this function and the next are plain, and run where that is allowed. An async
/// body that awaits a write elsewhere can be dropped at that await, and then its lock is free before the
/// number is written.
fn issue(counter: &Counter) -> Result<u64, OrderError> {
    let number = counter.read()? + 1;
    // Here a service would check the stock or query a database; other workers run meanwhile.
    thread::sleep(Duration::from_micros(50));
    counter.write(number)?;
    Ok(number)
}

/// The same, but only one call at a time, in all processes.
///
/// A call waits for all that are ahead of it. The timeout is generous, so that a slow disk makes
/// the demonstration slow and not fail: at most 2 × 60 s = 2 min.
#[zk_locked("createOrder", timeout = "60s", retries = 2)]
fn issue_locked(counter: &Counter) -> Result<u64, OrderError> {
    issue(counter)
}

/// Why no order number was issued.
#[derive(Debug)]
pub(crate) enum OrderError {
    Lock(LockError),
    Counter(io::Error),
}

impl From<LockError> for OrderError {
    fn from(error: LockError) -> Self {
        OrderError::Lock(error)
    }
}

impl From<io::Error> for OrderError {
    fn from(error: io::Error) -> Self {
        OrderError::Counter(error)
    }
}

impl std::fmt::Display for OrderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OrderError::Lock(error) => {
                // As it is asked for: `{:#}` says who holds the lock.
                std::fmt::Display::fmt(error, f)?;
                write!(f, " (code {})", error.code())
            }
            OrderError::Counter(error) => write!(f, "the file of the order number: {error}"),
        }
    }
}

impl std::error::Error for OrderError {}
