//! The directory of a lock's queue.

use std::sync::Arc;
use std::time::SystemTime;

use crate::acquire::setback::refused;
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::times;
use crate::cooldown::mark::Mark;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::layout::driver::LockDriver;
use crate::name::lock_name::{IntoLockName, LockName};
use crate::name::path::ZnodePath;
use crate::session::generation::Generation;
use crate::session::handle::Session;

/// The queue of a lock, seen from outside. Returned by [`Session::site`] for the session's layout;
/// a lock with another layout has its own method `site`.
///
/// ```
/// # zklock::blocking::block_on(async {
/// let session = zklock::Session::embedded();
/// let _guard = session.mutex("orders/create")?.acquire().await?;
/// for contender in session.site("orders/create")?.contenders().await? {
///     println!("{} {}: {}", contender.mode, contender.node, contender.owner);
/// }
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) session: Session,
    pub(crate) name: LockName,
    pub(crate) directory: ZnodePath,
    pub(crate) driver: Arc<dyn LockDriver>,
    /// Whether it is the inner lock of a semaphore.
    pub(crate) inner: bool,
    /// How many nodes of the queue are read.
    pub(crate) most: usize,
    /// What the directory's data said when this queue was found.
    pub(crate) mark: Mark,
}

impl Site {
    /// The queue of a lock, in the given directory.
    pub(crate) fn at(
        session: &Session,
        name: LockName,
        directory: ZnodePath,
        driver: Arc<dyn LockDriver>,
    ) -> Self {
        let (session, most, mark) = (session.clone(), usize::MAX, Mark::default());
        Site { session, name, directory, driver, inner: false, most, mark }
    }

    /// Returns the path of the lock's directory.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.site("orders/create")?.path(), "/zklock/orders/create");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn path(&self) -> &str {
        self.directory.as_str()
    }

    /// Returns the [name](crate::layout::driver::LockDriver::name) of this queue's layout, for display.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.site("orders")?.layout(), "Curator");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn layout(&self) -> String {
        self.driver.name()
    }

    /// Returns whether this queue is the inner lock of a semaphore, whose contenders wait for a permit.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert!(!session.site("orders")?.is_inner());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn is_inner(&self) -> bool {
        self.inner
    }

    /// Returns until when nobody else is granted the lock, by the server's clock: because its last holder
    /// was lost ([`lock_delay`](crate::base::options::LockOptions::lock_delay)), or because it is kept from
    /// the grant on ([`hold_at_least`](crate::base::options::LockOptions::hold_at_least)). The time may be in
    /// the past. It is that of the moment when [`Session::sites`] returned this queue, and `None` for any
    /// other queue. A [survey](Site::survey) reads it anew.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// use std::time::Duration;
    /// use zklock::LockOptions;
    ///
    /// let kept = LockOptions::new().hold_at_least(Duration::from_secs(60));
    /// let _guard = session.mutex("nightly")?.with_options(kept).acquire().await?;
    /// assert!(session.sites("nightly").await?[0].unavailable_until().is_some());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn unavailable_until(&self) -> Option<SystemTime> {
        self.mark.until()
    }

    /// Returns this queue, of which only the first `most` nodes are read, at least one: who holds the lock,
    /// and who is next. For a quick look at a long queue. The [events](Site::events) are those of these
    /// nodes, too.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let _readers = [session.rw_lock("prices")?.read().await?];
    /// let survey = session.site("prices")?.head(100).survey().await?;
    /// assert_eq!((survey.queue.len(), survey.unread.len()), (1, 0));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    pub fn head(self, most: usize) -> Self {
        Site { most: most.max(1), ..self }
    }

    pub(crate) fn path_of(&self, node: &str) -> String {
        format!("{}/{node}", self.directory)
    }

    /// Lists the names of all nodes in the lock's directory, contenders or not, in no order. Costs one request,
    /// however long the queue is.
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// let site = session.site("orders")?;
    /// assert!(site.children().await?.is_empty());
    /// let guard = session.mutex("orders")?.acquire().await?;
    /// assert!(guard.node_path().ends_with(&site.children().await?[0]));
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`contenders`](Site::contenders).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the call only reads.
    pub async fn children(&self) -> Result<Vec<String>, LockError> {
        self.look(async |generation| self.list(&**generation.coordinator()).await).await
    }

    /// The children of the directory; none if it is not there.
    pub(crate) async fn list(
        &self,
        coordinator: &dyn Coordinator,
    ) -> Result<Vec<String>, RequestError> {
        match coordinator.children(self.path()).await {
            Err(RequestError::NoNode) => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// Runs a read for at most `timeout × retries` of the session's defaults, and repeats it if the
    /// connection breaks meanwhile.
    pub(crate) async fn look<T, F>(
        &self,
        look: impl Fn(Arc<Generation>) -> F,
    ) -> Result<T, LockError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let clock = self.session.clock().clone();
        let deadline = Deadline::after(clock.clone(), self.session.settings().longest_wait());
        // All in one ZooKeeper session: what it has sent is done before what it sends again.
        let served = self.session.served();
        let lane = served.lane();
        let looking = async {
            loop {
                let generation = lane.ready().await?;
                match look(generation.clone()).await {
                    Ok(seen) => return Ok(seen),
                    Err(error) if error.is_definite() => {
                        let other = LockError::new(ErrorKind::Unavailable, error.in_short());
                        let told = refused(error.clone());
                        let told = told.unwrap_or_else(|| other.because(error));
                        return Err(told.at(self.path()));
                    }
                    Err(_) => {
                        generation.pause(times::FAILED_LOOK).await;
                    }
                }
            }
        };
        let unanswered = || {
            let error = LockError::new(ErrorKind::Unavailable, "ZooKeeper did not answer in time");
            lane.trouble().into_iter().fold(error, LockError::because)
        };
        let looked = deadline.bound(looking).await.unwrap_or_else(|_| Err(unanswered()));
        looked.map_err(|error| error.on(self.name.to_shared()))
    }
}

impl Session {
    /// Returns the queue of a mutex or read/write lock in the session's layout, to look at it without
    /// acquiring the lock. Of a semaphore, and in most other layouts, it is empty: use
    /// [`LockInfo::site`](crate::lock::LockInfo::site) or [`Session::sites`].
    ///
    /// ```
    /// # zklock::blocking::block_on(async {
    /// # let session = zklock::Session::embedded();
    /// assert!(session.site("orders")?.contenders().await?.is_empty());
    /// assert!(session.site("orders/").is_err());
    /// # Ok::<(), zklock::LockError>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn site(&self, name: impl IntoLockName) -> Result<Site, LockError> {
        let name = name.into_lock_name()?;
        let directory = name.path_under(self.root());
        Ok(Site::at(self, name, directory, self.driver().clone()))
    }
}
