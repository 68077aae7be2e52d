//! The shelf: what a session has in use, one resident for each lock, found by a key.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

/// A lock that this process holds or waits for.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// let _guard = session.mutex("orders")?.acquire().await?;
/// let held = &session.held()[0];
/// assert!(held.granted && &*held.lock == "orders");
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// The lock's name.
    pub lock: Arc<str>,
    /// False for somebody who waits for it.
    pub granted: bool,
    /// Since how long.
    pub since: Duration,
    /// The task or thread, as the runtime or the system numbers it.
    pub who: String,
    /// What the caller said of itself, where the lock was made.
    pub label: Option<Arc<str>>,
}

impl Held {
    /// Describes a holder or a waiter.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use zklock::Held;
    ///
    /// let who = ("task 7".to_owned(), None);
    /// let held = Held::new(Arc::from("orders"), true, Duration::from_secs(3), who);
    /// assert_eq!(held.who, "task 7");
    /// ```
    pub fn new(
        lock: Arc<str>,
        granted: bool,
        since: Duration,
        (who, label): (String, Option<Arc<str>>),
    ) -> Self {
        Held { lock, granted, since, who, label }
    }
}

/// What the session keeps for a lock that is in use.
pub trait Resident: Any + Send + Sync + fmt::Debug {
    /// Who holds and who waits.
    fn held(&self) -> Vec<Held>;

    /// Fails everybody who waits: nothing is granted any more.
    fn close(self: Arc<Self>);

    /// Leases were lost, perhaps the one of this lock.
    fn leases_lost(self: Arc<Self>);
}

/// The residents of a session. They live as long as somebody uses them.
#[derive(Debug, Default)]
pub struct Shelf {
    residents: Mutex<HashMap<Arc<str>, Weak<dyn Resident>>>,
    left: Notify,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Weak<dyn Resident>>> {
        self.residents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The resident under a key, made if there is none.
    pub fn resident<R: Resident>(
        &self,
        key: &str,
        make: impl FnOnce(Arc<str>) -> Arc<R>,
    ) -> Arc<R> {
        let mut residents = self.lock();
        if let Some(found) = residents.get(key).and_then(Weak::upgrade)
            && let Ok(found) = (found as Arc<dyn Any + Send + Sync>).downcast::<R>()
        {
            return found;
        }
        let key: Arc<str> = Arc::from(key);
        let made = make(key.clone());
        let weak: Weak<R> = Arc::downgrade(&made);
        residents.insert(key, weak);
        made
    }

    /// Forgets the resident under a key if it is gone; a resident calls it when it goes.
    pub fn forget(&self, key: &str) {
        let mut residents = self.lock();
        if residents.get(key).is_some_and(|resident| resident.strong_count() == 0) {
            residents.remove(key);
        }
    }

    /// Notes that somebody let go of something.
    pub fn left(&self) {
        self.left.notify_waiters();
    }

    fn all(&self) -> Vec<Arc<dyn Resident>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Everything that is held or waited for.
    pub fn held(&self) -> Vec<Held> {
        let mut held: Vec<_> = self.all().iter().flat_map(|resident| resident.held()).collect();
        held.sort_by_key(|held| Reverse(held.since));
        held
    }

    /// Fails everybody who waits.
    pub fn close(&self) {
        for resident in self.all() {
            resident.close();
        }
    }

    /// Tells everybody that leases were lost.
    pub fn leases_lost(&self) {
        for resident in self.all() {
            resident.leases_lost();
        }
    }

    /// Waits until nothing is held.
    pub async fn until_empty(&self) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if self.held().is_empty() {
                return;
            }
            left.await;
        }
    }
}
