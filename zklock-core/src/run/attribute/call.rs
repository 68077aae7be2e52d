//! What an attribute says, and the lock that follows from it.

use super::name::{Name, NameBuilder, Text, Value};
use super::options::ToOptions;
use super::session::ToSession;
use crate::base::error::LockError;
use crate::layout::to_driver::ToDriver;
use crate::lock::multi::MultiLock;
use crate::lock::spec::{Kind, LockSpec};
use crate::run::entry::Entry;
use crate::run::guarded::Guarded;
use crate::session::handle::Session;
use crate::session::registry::SessionRegistry;

/// What an attribute says: which lock, and how it is taken.
#[derive(Debug)]
pub struct Call(Option<Wanted>);

#[derive(Debug)]
struct Wanted {
    /// Until it is taken.
    name: Option<Name>,
    /// The names of further locks, taken as one with the first.
    also: Vec<Name>,
    session: Option<Result<Session, LockError>>,
    spec: LockSpec,
    once: bool,
}

/// The value of a `condition`.
#[must_use]
pub const fn condition(condition: bool) -> bool {
    condition
}

impl Call {
    /// Takes a lock as the session's defaults say.
    #[must_use]
    pub const fn new(name: Name) -> Self {
        Call(Some(Wanted {
            name: Some(name),
            also: Vec::new(),
            session: None,
            spec: LockSpec::MUTEX,
            once: false,
        }))
    }

    /// Takes several locks as one, whose names differ in the last segment.
    #[must_use]
    pub fn several(start: NameBuilder, keys: &[&dyn Value]) -> Self {
        let mut names = keys.iter().map(|key| start.clone().value(*key).build());
        let name = names.next().unwrap_or_else(|| start.clone().build());
        Self::new(name).with(|wanted| wanted.also = names.collect())
    }

    /// Takes no lock: the condition that the programmer wrote is false.
    #[must_use]
    pub const fn without() -> Self {
        Call(None)
    }

    /// The lock, unless the condition was false.
    pub(super) fn entry(&mut self) -> Option<Result<Entry, LockError>> {
        // Where it is: to move it costs as much as what it says.
        let wanted = self.0.as_mut()?;
        let name = wanted.name.take()?;
        Some(wanted.entry(name).map_err(LockError::before_body))
    }

    /// The lock about to be taken, unless the condition was false.
    pub(super) fn guarded(&mut self) -> Option<Guarded> {
        Some(match self.entry()? {
            Ok(entry) => entry.guarded(),
            Err(error) => Guarded::failed(error),
        })
    }

    fn with(mut self, change: impl FnOnce(&mut Wanted)) -> Self {
        if let Some(wanted) = &mut self.0 {
            change(wanted);
        }
        self
    }

    /// Options, which those of an earlier call override.
    #[must_use]
    pub fn options(self, options: impl ToOptions) -> Self {
        let options = options.to_options();
        self.with(|wanted| wanted.spec.options = wanted.spec.options.or(options))
    }

    /// Takes it for reading.
    #[must_use]
    pub fn read(self) -> Self {
        self.with(|wanted| wanted.spec.kind = Kind::Read)
    }

    /// Takes it for writing.
    #[must_use]
    pub fn write(self) -> Self {
        self.with(|wanted| wanted.spec.kind = Kind::Write)
    }

    /// Takes one permit of a semaphore with so many.
    #[must_use]
    pub fn semaphore(self, limit: u32) -> Self {
        self.with(|wanted| wanted.spec.kind = Kind::Semaphore { limit })
    }

    /// Which session.
    #[must_use]
    pub fn session(self, session: &(impl ToSession + ?Sized)) -> Self {
        self.with(|wanted| wanted.session = Some(session.to_session()))
    }

    /// Asks once, without waiting for others.
    #[must_use]
    pub fn try_once(self, once: bool) -> Self {
        self.with(|wanted| wanted.once = once)
    }

    /// What it is taken for.
    #[must_use]
    pub fn label(self, label: &(impl Text + ?Sized)) -> Self {
        self.with(|wanted| wanted.spec.options = wanted.spec.options.label(label.as_ref()))
    }

    /// How the lock is laid out in ZooKeeper.
    #[must_use]
    pub fn driver(self, driver: impl ToDriver) -> Self {
        self.with(|wanted| wanted.spec.driver = Some(driver.to_driver()))
    }
}

impl Wanted {
    /// Makes the lock.
    fn entry(&mut self, name: Name) -> Result<Entry, LockError> {
        let name = name.0?;
        let session = self.session.take();
        let session = session.unwrap_or_else(|| SessionRegistry::global().session(None));
        let session = session.map_err(|error| error.on(name.to_shared()))?;
        let once = self.once;
        let lock = |name| self.spec.lock(&session, name);
        if self.also.is_empty() {
            let lock = lock(name)?;
            let wait = if once { lock.once()? } else { lock.tries() };
            return Ok(Entry::one(lock, wait));
        }
        let also = self.also.iter().map(|also| also.0.clone());
        let mut names = also.collect::<Result<Vec<_>, _>>()?;
        names.push(name);
        // A transfer from an account to itself takes one lock.
        names.sort();
        names.dedup();
        let locks = MultiLock::new(names.into_iter().map(lock).collect::<Result<Vec<_>, _>>()?)?;
        let wait = if once { locks.once()? } else { locks.tries() };
        Ok(Entry::several(locks, wait))
    }
}
