//! The modes in which a contender acquires a lock.

use std::fmt;

/// The mode in which a contender acquires a lock.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::Mode;
///
/// let _guard = session.rw_lock("prices")?.write().await?;
/// assert_eq!(session.site("prices")?.contenders().await?[0].mode, Mode::Write);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Alone: a mutex.
    Mutex,
    /// Together with other readers.
    Read,
    /// Alone among readers and writers.
    Write,
    /// With as many others as a semaphore has permits.
    Permit,
}

impl Mode {
    /// Returns the mode in one word.
    ///
    /// ```
    /// use zklock::Mode;
    ///
    /// assert_eq!([Mode::Mutex, Mode::Write].map(Mode::as_str), ["mutex", "write"]);
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Mutex => "mutex",
            Mode::Read => "read",
            Mode::Write => "write",
            Mode::Permit => "permit",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
