//! The permits of a guard: how many there are, and splitting some off.

use crate::guard::typed::{Guard, SemaphorePermit};
#[cfg(doc)]
use crate::guard::view::GuardView;

impl SemaphorePermit {
    /// Returns the number of permits.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let permits = session.semaphore("printers", 3)?.acquire_many(2).await?;
    /// assert_eq!(permits.permits(), 2);
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn permits(&self) -> u32 {
        u32::try_from(self.grant.leases().count()).unwrap_or(u32::MAX)
    }

    /// Splits off this number of permits as a guard of their own, like tokio's
    /// `OwnedSemaphorePermit::split`. Returns `None` if the number is 0, if no permit would be left for this
    /// guard, or if this guard [is not valid](GuardView::is_valid): one that is lost stays lost, also if it
    /// has lost some of its permits only.
    ///
    /// Each permit has a node of its own, in every layout, so this sends no request. Both guards can be
    /// released or lost independently. `hold_at_most` and `warn_holding` count from the grant of all.
    /// A [view](GuardView::view) of this guard shows the permits that are left. Observers are not told of
    /// the split, but of the release of each guard.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let printers = session.semaphore("printers", 3)?;
    /// let mut three = printers.acquire_many(3).await?;
    /// if let Some(two) = three.split(2) {
    ///     assert_eq!((three.permits(), two.permits()), (1, 2));
    ///     two.release().await?;
    /// }
    /// assert!(three.is_valid() && printers.try_acquire_many(2).await.is_ok());
    /// assert!(three.split(1).is_none()); // Nothing would be left of it.
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn split(&mut self, permits: u32) -> Option<SemaphorePermit> {
        if !self.is_valid() {
            return None;
        }
        let part = self.grant.queue.clone().split(&self.grant, permits as usize)?;
        let part = Guard::new(part, None).ok()?.limited_as(self, false).warned_as(self);
        part.begin_span();
        Some(part)
    }
}
