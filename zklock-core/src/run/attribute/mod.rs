//! What generated code calls. Not for people: anything in here may change.

mod answer;
mod call;
mod label;
mod name;
mod options;
mod output;
mod run;
mod session;

#[doc(hidden)]
pub use ::std;

pub use answer::{FromLockError, MapError, Skip, SkipBusy, busy_or, map_err, pointer};
pub use call::{Call, condition};
pub use label::Label;
pub use name::{Literal, Name, NameBuilder, Text, Value, check_pattern, constant};
pub use options::ToOptions;
pub use output::{Choose, Output};
#[cfg(feature = "blocking")]
pub use run::run_blocking;
pub use run::{Returns, never, run};
pub use session::ToSession;

#[doc(hidden)]
pub use crate::base::cancel_policy::{OnLost, OnRevoked};
#[doc(hidden)]
pub use crate::base::options::LockOptions;
#[doc(hidden)]
pub use crate::base::pattern::StaticPattern;
#[doc(hidden)]
pub use crate::base::policy::StopAt;
#[doc(hidden)]
pub use crate::layout::to_driver::ToDriver;
