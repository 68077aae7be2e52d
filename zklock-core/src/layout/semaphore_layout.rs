//! Which layout the semaphores beside the locks of a layout have.

/// The layout of semaphores.
///
/// ```
/// use zklock::driver::SemaphoreLayout;
///
/// assert_eq!(SemaphoreLayout::default(), SemaphoreLayout::Curator);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SemaphoreLayout {
    /// Like Curator's `InterProcessSemaphoreV2`: a mutex in `locks` and the permits in `leases`,
    /// below the semaphore's directory.
    #[default]
    Curator,
    /// Like kazoo's `Semaphore`: the permits in the semaphore's directory, whose data are the
    /// limit, and a `Lock` beside it.
    Kazoo {
        /// The payload of its nodes. `None`: a JSON description of the process.
        identifier: Option<String>,
    },
}
