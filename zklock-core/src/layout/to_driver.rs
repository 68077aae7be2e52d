//! What is given as a layout.

use std::sync::Arc;

use crate::layout::driver::LockDriver;

#[diagnostic::on_unimplemented(
    message = "`driver` is a layout: a value of a type that is a `zklock::driver::LockDriver`",
    label = "this is not a layout",
    note = "those that are shipped are in `zklock::layout`: `driver = zklock::layout::Kazoo::default()`"
)]
/// What is accepted as a layout: a [`LockDriver`], or one that was chosen at run time.
///
/// ```
/// # fn main() -> Result<(), zklock::LockError> {
/// use std::sync::Arc;
/// use zklock::Session;
/// use zklock::driver::LockDriver;
/// use zklock::layout::{Curator, Kazoo};
///
/// let kazoo = true;
/// let layout: Arc<dyn LockDriver> =
///     if kazoo { Arc::new(Kazoo::default()) } else { Arc::new(Curator) };
/// let mutex = Session::embedded().mutex("orders")?.with_driver(layout);
/// # Ok(())
/// # }
/// ```
pub trait ToDriver {
    /// Returns the driver.
    ///
    /// ```
    /// use zklock::driver::ToDriver;
    /// use zklock::layout::Curator;
    ///
    /// let driver = Curator.to_driver();
    /// assert_eq!(format!("{driver:?}"), "Curator");
    /// ```
    fn to_driver(self) -> Arc<dyn LockDriver>;
}

#[diagnostic::do_not_recommend]
impl<D: LockDriver> ToDriver for D {
    fn to_driver(self) -> Arc<dyn LockDriver> {
        Arc::new(self)
    }
}

impl ToDriver for Arc<dyn LockDriver> {
    fn to_driver(self) -> Arc<dyn LockDriver> {
        self
    }
}
