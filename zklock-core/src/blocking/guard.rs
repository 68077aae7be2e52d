//! Releasing guards on a blocked thread.

use crate::base::error::LockError;
use crate::blocking::park::block_on;
use crate::guard::downgrade::DowngradeError;
use crate::guard::kind::Kind;
use crate::guard::typed::{Guard, RwLockReadGuard, RwLockWriteGuard};
use crate::lock::any::AnyGuard;
use crate::lock::multi::MultiGuard;

impl<K: Kind> Guard<K> {
    /// Releases the lock, and blocks this thread until the node is deleted.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// session.mutex("orders")?.blocking_acquire()?.blocking_release()?;
    /// assert!(session.local_contenders().is_empty());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`release`](Guard::release).
    pub fn blocking_release(self) -> Result<(), LockError> {
        block_on(self.release())
    }
}

impl RwLockWriteGuard {
    /// Turns a write guard into a read guard, and blocks this thread meanwhile.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let prices = session.rw_lock("prices")?;
    /// let reading = prices.blocking_write()?.blocking_downgrade()?;
    /// assert!(prices.blocking_try_read().is_ok() && reading.is_valid());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`downgrade`](RwLockWriteGuard::downgrade).
    pub fn blocking_downgrade(self) -> Result<RwLockReadGuard, DowngradeError> {
        block_on(self.downgrade())
    }
}

impl AnyGuard {
    /// Releases the lock, and blocks this thread until the node is deleted.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// let lock: zklock::AnyLock = session.mutex("orders")?.into();
    /// lock.blocking_acquire()?.blocking_release()?;
    /// assert!(session.local_contenders().is_empty());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`release`](AnyGuard::release).
    pub fn blocking_release(self) -> Result<(), LockError> {
        block_on(self.release())
    }
}

impl MultiGuard {
    /// Releases all locks, and blocks this thread until the nodes are deleted.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// # let locks = [session.mutex("accounts/7")?, session.mutex("accounts/3")?];
    /// # let both = zklock::MultiLock::new(locks)?;
    /// both.blocking_acquire()?.blocking_release()?;
    /// assert!(session.local_contenders().is_empty());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`release`](MultiGuard::release).
    pub fn blocking_release(self) -> Result<(), LockError> {
        block_on(self.release())
    }
}
