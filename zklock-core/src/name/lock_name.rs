//! Lock names: relative paths under the session's root, and the rules that keep values from
//! changing their shape.
//!
//! The path is the one that a service in another language writes: `"/zklock/orders/" + id` there
//! and `"orders/{id}"` here are one lock. Slashes that the programmer writes separate segments. A
//! value never adds or removes a segment: characters that cannot be part of a segment are escaped,
//! as `~` and two upper-case hex digits for each byte of their UTF-8. All others stay as they are.
//! The rules are the same in every layout.

use std::cmp::Ordering;
use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::base::pattern::Pattern;
use crate::name::path::ZnodePath;

mod builder;
mod into;
mod rules;

pub use builder::NameBuilder;
pub use into::IntoLockName;
use rules::invalid;
pub use rules::{Flaw, LONGEST_NAME, check_literal};

/// A validated lock name: a relative path under the session's root.
///
/// The path is the one that a Java or Python service writes: under the root `/zklock`,
/// `"/zklock/orders/" + id` there and `"orders/{id}"` here are one lock, for every id that can be a
/// path segment as it is, such as `7`, `007`, `-5`, any UUID or `größe 4`. Everything else is
/// escaped, as `~XX` for each byte of its UTF-8: a slash becomes `~2F`, and
/// [the guide lists the others](https://github.com/zklock/zklock/blob/main/docs/sharing.md#names).
///
/// Two different values never give the same name, and an escape can be decoded. The literal text of
/// a program is never escaped, but checked. These are errors: an empty name, an empty value, an
/// empty segment; in literal text a segment `.`, `..`, `locks` or `leases`, and a character that
/// ZooKeeper refuses; and more than 1,024 bytes.
///
/// The name of one lock may be the beginning of another: `orders` and `orders/7`. These two do not
/// exclude each other. The directory of the second is a child of the first lock's directory, where
/// zklock ignores it. But Curator's lock at `orders` counts every child, and waits until one that
/// sorts before its own sequence number, such as `orders/0` or `orders/-5`, is gone. So Java should
/// not use such an outer lock. zklock logs such a pair once, with both paths, and
/// [`ContenderInfo::why`] names it.
///
/// [`ContenderInfo::why`]: crate::inspect::ContenderInfo::why
///
/// kazoo's semaphore `printers` keeps its inner lock beside it, at `printers-__lock__`. So no other lock
/// should have a name that ends in `-__lock__`: a lock of that name would be this inner lock, and while it
/// is held, no permit of the semaphore can be acquired.
///
/// The rules are also a file of [examples] that Java and Python check; implementations for both are
/// beside it, to be copied.
///
/// [examples]: https://github.com/zklock/zklock/tree/main/tests/vectors
///
/// ```
/// use zklock::LockName;
///
/// assert_eq!(LockName::new("orders/create").unwrap().as_str(), "orders/create");
/// assert!(LockName::new("orders//create").is_err());
/// let of_value = LockName::build().text("orders/").value(&"a/b").finish().unwrap();
/// assert_eq!(of_value.as_str(), "orders/a~2Fb");
/// ```
#[derive(Clone)]
pub struct LockName(Arc<str>, Pattern);

impl LockName {
    /// Validates literal text as a name. Nothing in it is escaped.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockName};
    ///
    /// assert_eq!(LockName::new("orders/create")?.as_str(), "orders/create");
    /// let error = LockName::new("/orders").err();
    /// assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::InvalidName));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn new(name: &str) -> Result<Self, LockError> {
        match check_literal(name.as_bytes(), false) {
            Ok(()) => Ok(LockName(Arc::from(name), Pattern::default())),
            Err(flaw) => Err(invalid(name, flaw)),
        }
    }

    /// Returns a builder for a name of literal text and values.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// let customer = "../7";
    /// let name = LockName::build().text("orders/by-").value(&customer).finish()?;
    /// assert_eq!(name.as_str(), "orders/by-..~2F7");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn build() -> NameBuilder {
        NameBuilder::default()
    }

    /// Returns the name as text, with its escapes.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// let name = LockName::build().text("orders/").value(&"a/b").finish()?;
    /// assert_eq!(name.as_str(), "orders/a~2Fb");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the same text, shared.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use zklock::LockName;
    ///
    /// let label: Arc<str> = LockName::new("orders")?.to_shared();
    /// assert_eq!(&*label, "orders");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn to_shared(&self) -> Arc<str> {
        self.0.clone()
    }

    /// Returns the pattern of the name: what the attribute or `lock_name!` was written with. Metrics
    /// and traces are labelled with it, so it never contains a value. A name that was given as text,
    /// or built, may contain values; its pattern is `{name}`, unless the program
    /// [says](LockName::with_pattern) which it is.
    ///
    /// ```
    /// use zklock::{LockName, lock_name};
    ///
    /// let id = 7;
    /// assert_eq!(lock_name!("orders/{id}")?.pattern(), "orders/{id}");
    /// assert_eq!(LockName::new("orders/7")?.pattern(), "{name}");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn pattern(&self) -> &'static str {
        self.1.text()
    }

    /// Sets the pattern of the name. It changes nothing about the lock.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// let name = LockName::build().text("orders/").value(&7).finish()?;
    /// assert_eq!(name.with_pattern("orders/{id}").pattern(), "orders/{id}");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    #[must_use]
    pub fn with_pattern(self, pattern: &'static str) -> Self {
        LockName(self.0, Pattern::of(pattern))
    }

    /// The pattern, by its number.
    pub(crate) fn pattern_number(&self) -> Pattern {
        self.1
    }

    /// Returns the path of the lock's directory under a root.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockName;
    ///
    /// let path = LockName::new("orders/create")?.path_under(session.root());
    /// assert_eq!(path.as_str(), "/zklock/orders/create");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn path_under(&self, root: &ZnodePath) -> ZnodePath {
        root.join(&self.0)
    }
}

// The same name is the same lock, whatever its pattern.
impl PartialEq for LockName {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for LockName {}

impl Hash for LockName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialOrd for LockName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LockName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
