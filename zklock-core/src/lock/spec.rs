//! A lock without a name yet, as a template or an attribute describes it.

use std::sync::Arc;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::layout::driver::LockDriver;
use crate::layout::refusals::unsupported;
use crate::lock::any::AnyLock;
use crate::lock::mutex::Mutex;
use crate::lock::rwlock::RwLock;
use crate::lock::semaphore::Semaphore;
use crate::name::lock_name::LockName;
use crate::session::handle::Session;

/// The kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A read/write lock, for reading.
    Read,
    /// A read/write lock, for writing.
    Write,
    /// A semaphore.
    Semaphore {
        /// The limit of the semaphore.
        limit: u32,
    },
}

/// The kind, the layout and the options of a lock.
#[derive(Clone, Debug)]
pub struct LockSpec {
    /// The kind.
    pub kind: Kind,
    /// The number of permits to acquire, of a semaphore.
    pub permits: u32,
    /// Overrides of the session's defaults.
    pub options: LockOptions,
    /// The layout, if it is not the session's.
    pub driver: Option<Arc<dyn LockDriver>>,
}

impl LockSpec {
    /// A mutex with the session's defaults.
    pub const MUTEX: Self =
        LockSpec { kind: Kind::Mutex, permits: 1, options: LockOptions::new(), driver: None };

    /// Returns the lock with a name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a semaphore with a
    /// layout of locks; [`ErrorKind::InvalidOption`] for several permits of what is no semaphore, and those of
    /// [`Session::semaphore`].
    pub fn lock(&self, session: &Session, name: LockName) -> Result<AnyLock, LockError> {
        let (options, driver) = (self.options, self.driver.clone());
        if self.permits != 1 && !matches!(self.kind, Kind::Semaphore { .. }) {
            let why =
                format!("only a semaphore has {} permits: call `semaphore`, too", self.permits);
            return Err(LockError::new(ErrorKind::InvalidOption, why).on(name.to_shared()));
        }
        let rw_lock = |name| RwLock::new(session, name).with_options(options);
        Ok(match self.kind {
            Kind::Mutex => {
                let mutex = Mutex::new(session, name).with_options(options);
                AnyLock::Mutex(mutex.laid_out(driver))
            }
            Kind::Read => AnyLock::Read(rw_lock(name).laid_out(driver)),
            Kind::Write => AnyLock::Write(rw_lock(name).laid_out(driver)),
            Kind::Semaphore { limit } => {
                if let Some(driver) = driver {
                    return Err(unsupported(&*driver, Mode::Permit).on(name.to_shared()));
                }
                let semaphore = Semaphore::new(session, name, limit)?.with_options(options);
                AnyLock::Permits(semaphore, self.permits)
            }
        })
    }
}
