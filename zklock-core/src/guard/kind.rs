//! The kinds of guards.

use crate::base::mode::Mode;

/// A kind of guard. Only the types of this module implement it.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::{Guard, kind};
///
/// fn describe<K: kind::Kind>(guard: &Guard<K>) -> String {
///     format!("{} as {}", guard.lock_name(), K::MODE)
/// }
/// let guard = session.rw_lock("prices")?.read().await?;
/// assert_eq!(describe(&guard), "prices as read");
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub trait Kind: sealed::Sealed + Send + Sync + 'static {
    /// The mode of the guard's node.
    const MODE: Mode;
}

/// The only holder of a [`Mutex`](crate::lock::Mutex).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::{Guard, kind};
///
/// let guard: Guard<kind::Alone> = session.mutex("orders")?.acquire().await?;
/// assert!(guard.is_valid());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub enum Alone {}

/// A reader of a [`RwLock`](crate::lock::RwLock).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::{Guard, kind};
///
/// let prices = session.rw_lock("prices")?;
/// let readers: Vec<Guard<kind::Reading>> = vec![prices.read().await?, prices.read().await?];
/// assert!(readers.iter().all(|reader| reader.is_valid()));
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub enum Reading {}

/// The writer of a [`RwLock`](crate::lock::RwLock).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::{Guard, kind};
///
/// let writer: Guard<kind::Writing> = session.rw_lock("prices")?.write().await?;
/// let reader: Guard<kind::Reading> = writer.downgrade().await?;
/// assert!(reader.is_valid());
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub enum Writing {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! kinds {
    ($($kind:ident: $mode:ident),*) => {$(
        impl sealed::Sealed for $kind {}
        impl Kind for $kind {
            const MODE: Mode = Mode::$mode;
        }
    )*};
}

/// A holder of permits of a [`Semaphore`](crate::lock::Semaphore).
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::{Guard, kind};
///
/// let two: Guard<kind::Sharing> = session.semaphore("printers", 3)?.acquire_many(2).await?;
/// assert_eq!(two.permits(), 2);
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub enum Sharing {}

kinds!(Alone: Mutex, Reading: Read, Writing: Write, Sharing: Permit);
