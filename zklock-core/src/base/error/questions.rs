//! What can be asked of an error: of which kind it is, and whether it helps to try again.

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;

impl LockError {
    /// Returns whether somebody else holds the lock.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// # let _held = locks.hold("orders")?;
    /// let busy = session.mutex("orders")?.try_acquire().await;
    /// assert!(busy.is_err_and(|error| error.is_busy()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_busy(&self) -> bool {
        self.0.kind == ErrorKind::Busy
    }

    /// Returns whether the lock was held and lost.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// locks.lose();
    /// assert!(guard.release().await.is_err_and(|error| error.is_lost()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_lost(&self) -> bool {
        self.0.kind == ErrorKind::Lost
    }

    /// Returns whether the lock was held, and the body ended because somebody asked for its
    /// release.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockError};
    ///
    /// assert!(LockError::new(ErrorKind::Revoked, "").is_revoked());
    /// assert!(!LockError::new(ErrorKind::Lost, "").is_revoked());
    /// ```
    pub fn is_revoked(&self) -> bool {
        self.0.kind == ErrorKind::Revoked
    }

    /// Returns whether the lock was held for longer than
    /// [`hold_at_most`](crate::base::options::LockOptions::hold_at_most). [`body`](LockError::body)
    /// says whether the body was dropped or finished.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockError};
    ///
    /// assert!(LockError::new(ErrorKind::HeldTooLong, "").is_held_too_long());
    /// assert!(!LockError::new(ErrorKind::Lost, "").is_held_too_long());
    /// ```
    pub fn is_held_too_long(&self) -> bool {
        self.0.kind == ErrorKind::HeldTooLong
    }

    /// Returns whether ZooKeeper could not be reached, or did not answer in time, or the failure is another
    /// one of the kind [`Unavailable`](ErrorKind::Unavailable).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// use std::time::Duration;
    ///
    /// locks.begin_outage();
    /// let outcome = session.mutex("orders")?.acquire_timeout(Duration::from_millis(20)).await;
    /// assert!(outcome.is_err_and(|error| error.is_unavailable()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable
    }

    /// Returns whether the caller would certainly have waited for itself.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// let reading = prices.read().await?;
    /// // The writer would wait for this reader, and this reader for the writer.
    /// let nested = reading.scope(prices.write()).await;
    /// assert!(nested.is_err_and(|error| error.is_deadlock()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_deadlock(&self) -> bool {
        self.0.kind == ErrorKind::Deadlock
    }

    /// Returns whether the session is draining or closed.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// session.close().await;
    /// assert!(session.mutex("orders")?.acquire().await.is_err_and(|error| error.is_closing()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_closing(&self) -> bool {
        self.0.kind == ErrorKind::Closing
    }

    /// Returns whether trying again is useless without a change of the program or its
    /// configuration.
    ///
    /// `false` does not mean that trying again is harmless: after `Lost`, `Revoked` and `HeldTooLong` the
    /// body may have taken effect ([`body`](LockError::body)). Nor that it helps: `Closing` is not
    /// permanent, but a closed session does not open again.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert!(session.mutex("orders/..").is_err_and(|error| error.is_permanent()));
    /// ```
    pub fn is_permanent(&self) -> bool {
        !matches!(
            self.0.kind,
            ErrorKind::Busy
                | ErrorKind::Lost
                | ErrorKind::Revoked
                | ErrorKind::HeldTooLong
                | ErrorKind::Unavailable
                | ErrorKind::Closing
        )
    }
}
