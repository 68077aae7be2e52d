//! Downgrading a writer to a reader.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::on_drop::OnDrop;
use crate::guard::context::NestedTurn;
use crate::guard::releasing::Releasing;
use crate::guard::typed::{Guard, RwLockReadGuard, RwLockWriteGuard};
use crate::local::grant::Grant;
use crate::observe::observer::{Event, Granted, GrantedBy};

impl RwLockWriteGuard {
    /// Turns the write guard into a read guard. No writer gets in between, not even one that waits
    /// already; readers that wait for this writer enter, unless it was asked to release. The read guard
    /// continues the writer's sequence of tokens. The call waits until the writer's node is deleted. Calls in a scope of
    /// this writer that begin during or after the downgrade queue like any other. Observers are told
    /// of the release of the writer, with the time that it held the lock, and then of the grant to
    /// the reader, [by a downgrade](crate::observe::observer::GrantedBy::Downgrade).
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// let lock = zklock::Session::embedded().rw_lock("prices")?;
    /// let writing = lock.write().await?;
    /// let reading = writing.downgrade().await?;
    /// assert!(lock.try_read().await.is_ok());
    /// # drop(reading);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// A [`DowngradeError`], which contains the write guard; `?` drops it, which releases the lock.
    /// Its error is [`ErrorKind::Deadlock`] if a nested call holds the lock again, or if this guard is
    /// nested and a call around it still holds the lock, [`ErrorKind::Unsupported`] if it is nested in a mutex of the same name,
    /// [`ErrorKind::Unauthorized`] if the server refuses to create the new node or to check the present one,
    /// [`ErrorKind::InvalidName`] if another node has the name of the new one (in these cases the
    /// lock is held as before), and [`ErrorKind::Lost`] as soon as the lock is lost, before or
    /// during the downgrade.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    pub async fn downgrade(mut self) -> Result<RwLockReadGuard, DowngradeError> {
        let queue = self.grant.queue.clone();
        let lock = queue.lock_name().clone();
        if self.grant.mode == Mode::Mutex {
            // Whoever waits for the mutex takes the deletion of its node for the grant.
            let why = "a write lock that is nested in a mutex cannot be downgraded; use one kind of \
                       lock for a name";
            return Err(self.stays(LockError::new(ErrorKind::Unsupported, why).on(lock)));
        }
        // From here on, no call nested in this one can acquire the lock for writing.
        let Some(writer) = self.hold.take_only() else {
            if self.hold.grant().is_none() {
                // It was lost in a downgrade before this one.
                let lost = self.grant.lost_error();
                return Err(self.stays(lost.on(lock)));
            }
            let why = match self.turn {
                None => {
                    "a write lock that a nested call holds as well cannot be downgraded; end that \
                     call first"
                }
                Some(_) => {
                    "a nested write lock cannot be downgraded while a call around this one, or one \
                     nested in it, holds it too; end that call first"
                }
            };
            return Err(self.stays(LockError::new(ErrorKind::Deadlock, why).on(lock)));
        };
        self.turn.iter().for_each(NestedTurn::is_last);
        // Also if this is dropped: the writer's hold may be put back meanwhile, and a nested call may hold the
        // lock on by it.
        let outermost = self.turn.is_none().then(|| self.grant.clone());
        let leaving = OnDrop::new(move || outermost.iter().for_each(|writer| writer.has_left()));
        let mut releasing = Releasing::of(&self.grant);
        let reader = match queue.step_down(writer).await {
            Ok(reader) => reader,
            Err((error, writer)) => {
                match writer.grant() {
                    Some(_) => {
                        releasing.cancel();
                        leaving.disarm();
                    }
                    // Nothing is left to release.
                    None => drop(releasing),
                }
                self.hold = writer;
                return Err(self.stays(error.on(lock)));
            }
        };
        // The writer's hold ended where the reader's began.
        releasing.since = reader.grant().map(|grant| grant.since);
        drop(releasing);
        match Guard::new(reader, None) {
            Ok(guard) => {
                guard.begin_span();
                tell_acquired(&guard.grant);
                guard.grant.lease.take(true);
                Ok(guard.in_place_of(&mut self))
            }
            Err(error) => Err(self.stays(error.on(lock))),
        }
    }

    fn stays(self, error: LockError) -> DowngradeError {
        DowngradeError { error, guard: self }
    }
}

/// Tells the observers of the reader, which waited for nobody.
fn tell_acquired(reader: &Grant) {
    let queue = &reader.queue;
    queue.session().events().tell(|| {
        let granted = Granted { by: GrantedBy::Downgrade, ..reader.as_granted(false) };
        Event::acquired(queue.lock_name().clone(), reader.mode, granted, (Duration::ZERO, 1))
    });
}

/// Why a downgrade failed, with the write guard. Dropping it releases the lock.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let prices = session.rw_lock("prices")?;
/// let writing = prices.write().await?;
/// let nested = writing.scope(prices.write()).await?;
/// if let Err(refused) = writing.downgrade().await {
///     assert!(refused.error().is_deadlock()); // The nested call still writes.
///     drop(nested);
///     let reading = refused.into_guard().downgrade().await?;
///     assert!(reading.is_valid());
/// }
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub struct DowngradeError {
    error: LockError,
    guard: RwLockWriteGuard,
}

impl DowngradeError {
    /// Returns the reason.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let locks = zklock::testing::TestLocks::install();
    /// # let session = locks.session().clone();
    /// let writing = session.rw_lock("prices")?.write().await?;
    /// locks.lose();
    /// let outcome = writing.downgrade().await;
    /// assert!(outcome.is_err_and(|refused| refused.error().is_lost()));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn error(&self) -> &LockError {
        &self.error
    }

    /// Returns the write guard, which is still valid unless the lock was lost.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// # let prices = session.rw_lock("prices")?;
    /// # let writing = prices.write().await?;
    /// # let nested = writing.scope(prices.write()).await?;
    /// if let Err(refused) = writing.downgrade().await {
    ///     println!("go on writing: {refused}");
    ///     let writing = refused.into_guard();
    ///     assert!(writing.is_valid());
    /// }
    /// # drop(nested);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn into_guard(self) -> RwLockWriteGuard {
        self.guard
    }
}

impl From<DowngradeError> for LockError {
    /// Releases the lock.
    fn from(refused: DowngradeError) -> Self {
        refused.error
    }
}

impl fmt::Debug for DowngradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DowngradeError").field(&self.error).finish()
    }
}

impl fmt::Display for DowngradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for DowngradeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_lite::future::poll_once;

    use crate::coordinator::memory::{Embedded, Fault, Op};
    use crate::coordinator::request_error::RequestError;
    use crate::session::handle::Session;

    /// Its hold was put back, and a nested call has taken one beside it.
    #[tokio::test(start_paused = true)]
    async fn a_writer_whose_downgrade_is_dropped_while_it_is_refused_has_gone() {
        let store = Embedded::new();
        let session = Session::embedded_builder(&store).open().unwrap();
        let writing = session.rw_lock("a").unwrap().write().await.unwrap();
        let grant = writing.frame().own.grant.clone();
        let faults = store.faults(session.zookeeper_session().unwrap().id);
        faults.delay_replies(Duration::from_millis(50));
        faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Create).path("__READ__"));
        let mut stepping = Box::pin(writing.downgrade());
        assert!(poll_once(&mut stepping).await.is_none());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let nested = grant.hold_again().unwrap();
        drop(stepping);
        assert!(grant.is_left());
        drop(nested);
    }
}
