//! What is said about a lock before there is a name, by a template or an attribute.

use std::sync::Arc;

use crate::base::error::LockError;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::layout::driver::{LockDriver, unsupported};
use crate::lock::any::AnyLock;
use crate::lock::mutex::Mutex;
use crate::lock::rwlock::RwLock;
use crate::lock::semaphore::Semaphore;
use crate::name::lock_name::LockName;
use crate::session::handle::Session;

/// Which kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A read/write lock, for reading.
    Read,
    /// A read/write lock, for writing.
    Write,
    /// A semaphore.
    Permits {
        /// With so many permits.
        limit: u32,
        /// Of which so many are taken.
        permits: u32,
    },
}

/// Which kind of lock, in which layout, and what is set of its options.
#[derive(Clone, Debug)]
pub struct LockSpec {
    /// The kind.
    pub kind: Kind,
    /// What goes over the session's defaults.
    pub options: LockOptions,
    /// The layout, if it is not the session's.
    pub driver: Option<Arc<dyn LockDriver>>,
}

impl LockSpec {
    /// A mutex as the session says.
    pub const MUTEX: Self =
        LockSpec { kind: Kind::Mutex, options: LockOptions::new(), driver: None };

    /// The lock of a name.
    ///
    /// # Errors
    ///
    /// What the layout cannot do, and those of [`Semaphore::new`].
    pub fn lock(&self, session: &Session, name: LockName) -> Result<AnyLock, LockError> {
        let rw_lock = |name| {
            let lock = RwLock::new(session, name).with_options(self.options);
            match &self.driver {
                Some(driver) => lock.shared_driver(driver.clone()),
                None => Ok(lock),
            }
        };
        Ok(match self.kind {
            Kind::Mutex => {
                let lock = Mutex::new(session, name).with_options(self.options);
                AnyLock::Mutex(match &self.driver {
                    Some(driver) => lock.shared_driver(driver.clone())?,
                    None => lock,
                })
            }
            Kind::Read => AnyLock::Read(rw_lock(name)?),
            Kind::Write => AnyLock::Write(rw_lock(name)?),
            Kind::Permits { limit, permits } => {
                if let Some(driver) = &self.driver {
                    return Err(unsupported(&**driver, Mode::Permit).on(name.to_shared()));
                }
                let semaphore = Semaphore::new(session, name, limit)?.with_options(self.options);
                AnyLock::Permits(semaphore, permits)
            }
        })
    }
}
