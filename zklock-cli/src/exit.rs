//! What the exit codes say.

use zklock::{ErrorKind, LockError};

use crate::text::printable;

/// Something is wrong with the lock (`why`) or the ensemble (`doctor`), or nothing was done (`break`).
pub(crate) const PROBLEM: u8 = 1;
/// The lock was lost, or held for as long as it may be; the command was ended.
pub(crate) const LOST: u8 = 124;
/// zklock itself failed: a wrong argument, a refused access, a name that cannot be one.
pub(crate) const OWN: u8 = 125;
/// The command is there and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command is not there.
pub(crate) const NOT_FOUND: u8 = 127;
/// Somebody else holds the lock (`EX_TEMPFAIL` of sysexits.h), unless `--on-busy` says another.
pub(crate) const BUSY: u8 = 75;
/// ZooKeeper does not answer (`EX_UNAVAILABLE` of sysexits.h).
pub(crate) const UNREACHABLE: u8 = 69;

/// Why the command ends before it did what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    /// A failure of zklock itself.
    pub(crate) fn own(message: impl Into<String>) -> Self {
        Failure { code: OWN, message: message.into() }
    }

    /// A lock that was not acquired.
    pub(crate) fn of_acquire(error: &LockError, on_busy: u8) -> Self {
        let code = if error.kind() == ErrorKind::Busy { on_busy } else { code_of(error) };
        // It may name a holder, as its node does.
        Failure { code, message: printable(&format!("{error:#}")) }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Failure::of_acquire(&error, BUSY)
    }
}

fn code_of(error: &LockError) -> u8 {
    match error.kind() {
        ErrorKind::Busy => BUSY,
        ErrorKind::Unavailable | ErrorKind::Closing => UNREACHABLE,
        ErrorKind::Lost => LOST,
        _ => OWN,
    }
}
