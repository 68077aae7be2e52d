//! What can be asked of an error: of which kind it is, and whether it helps to try again.

use crate::base::error::{Body, LockError};
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

    /// Returns whether the same call may succeed later, or in another process, and no body has begun: the
    /// lock is busy, ZooKeeper is out of reach, the session is closing, or what was held was taken away
    /// before the body ([`Body::NotStarted`]). For a service, that is worth another try (as an HTTP status,
    /// 503; 409 if the lock [is busy](LockError::is_busy)).
    ///
    /// It says nothing about a body that called what failed and passed the error on. And a
    /// [fenced write](crate::guard::view::GuardView::fenced) that is unavailable may have been
    /// applied: repeat it only where that does no harm.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// use zklock::LockError;
    ///
    /// fn status(error: &LockError) -> u16 {
    ///     match error.is_busy() {
    ///         true => 409,
    ///         false if error.is_temporary() => 503,
    ///         // An error of the program or its configuration, or work that was cut short.
    ///         false => 500,
    ///     }
    /// }
    /// # let held = locks.hold("orders")?;
    /// let busy = session.mutex("orders")?.try_acquire().await;
    /// assert!(busy.is_err_and(|error| status(&error) == 409));
    /// # drop(held);
    /// session.close().await;
    /// let closing = session.mutex("orders")?.acquire().await;
    /// assert!(closing.is_err_and(|error| status(&error) == 503));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn is_temporary(&self) -> bool {
        match self.0.kind {
            ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::Closing => true,
            ErrorKind::Lost | ErrorKind::Revoked | ErrorKind::HeldTooLong => {
                self.0.body == Some(Body::NotStarted)
            }
            _ => false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_temporary_if_it_may_pass_and_no_body_has_begun() {
        let of = |kind| LockError::new(kind, "");
        for kind in [ErrorKind::Busy, ErrorKind::Unavailable, ErrorKind::Closing] {
            assert!(of(kind).is_temporary() && !of(kind).is_permanent(), "{kind:?}");
        }
        for kind in [ErrorKind::Lost, ErrorKind::Revoked, ErrorKind::HeldTooLong] {
            assert!(of(kind).with_body(Body::NotStarted).is_temporary(), "{kind:?}");
            // A guard's: whatever is done under it may have taken effect.
            assert!(!of(kind).is_temporary(), "{kind:?}");
            for body in [Body::Dropped, Body::Finished] {
                assert!(!of(kind).with_body(body).is_temporary(), "{kind:?}, {body:?}");
            }
        }
        for kind in [ErrorKind::InvalidName, ErrorKind::Unauthorized, ErrorKind::Refused] {
            assert!(!of(kind).with_body(Body::NotStarted).is_temporary(), "{kind:?}");
        }
    }
}
