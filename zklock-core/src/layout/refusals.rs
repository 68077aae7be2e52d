//! Why a driver is refused: the errors of those that cannot do what is asked of them.

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::layout::driver::LockDriver;

/// The error of a driver that returns what is not accepted.
pub(super) fn refuse(driver: &dyn LockDriver, what: String) -> LockError {
    let error =
        LockError::new(ErrorKind::InvalidOption, format!("the driver {} {what}", driver.name()));
    error.aside(format!("{driver:?}"))
}

/// The error of a driver that does not parse its own names.
pub fn unread(driver: &dyn LockDriver, name: &str) -> LockError {
    let what = "does not parse the name of a node of its own; `parse` must accept every name that begins \
                with `prefix`";
    refuse(driver, what.to_owned()).aside(format!("{driver:?}: the name is {name:?}"))
}

/// The error of a mode that a layout does not have.
pub fn unsupported(driver: &dyn LockDriver, mode: Mode) -> LockError {
    let why = format!("the layout {} does not support the mode {mode}", driver.name());
    LockError::new(ErrorKind::Unsupported, why).aside(format!("{driver:?}"))
}

/// The error of a layout whose directories cannot keep marks.
pub fn unmarked(driver: &dyn LockDriver) -> LockError {
    let why = format!(
        "`lock_delay` and `hold_at_least` need a layout with one holder, whose node has a unique \
         name, in a directory that stays, such as Curator's; {} is not such a layout",
        driver.name()
    );
    LockError::new(ErrorKind::Unsupported, why).aside(format!("{driver:?}"))
}

/// The error of two layouts in one directory. They may exclude each other all the same, as one that removes
/// directories and the one that it wraps.
pub fn mixed(present: &dyn LockDriver, wanted: &dyn LockDriver) -> LockError {
    let (name, wanted_name) = (present.name(), wanted.name());
    let but = if name == wanted_name {
        // Such as kazoo's with another identifier.
        "with other settings; use the same for all".to_owned()
    } else {
        format!("and {wanted_name} is another, which need not exclude it; use one layout for all")
    };
    let why = format!(
        "this process already uses it in the layout {name}, {but} (a custom driver says in \
         `is_same_layout` which others are the same)"
    );
    LockError::new(ErrorKind::InvalidOption, why).aside(format!("{present:?}, {wanted:?}"))
}
