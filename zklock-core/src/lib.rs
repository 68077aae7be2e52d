//! The machinery of zklock. Use the crate `zklock`, which re-exports what a user needs.
//!
//! **Only `zklock` is the API.** The modules here are public for the other crates of the project and its
//! tests; names and types that `zklock` does not re-export may change in any release. Those of which it
//! re-exports nothing are not in the published documentation.

#[cfg_attr(docsrs, doc(hidden))]
pub mod acquire;
pub mod base;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg_attr(docsrs, doc(hidden))]
pub mod cooldown;
pub mod coordinator;
#[cfg_attr(docsrs, doc(hidden))]
pub mod divergence;
pub mod guard;
pub mod inspect;
pub mod layout;
#[cfg_attr(docsrs, doc(hidden))]
pub mod local;
pub mod lock;
pub mod name;
pub mod observe;
pub mod run;
pub mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[doc(hidden)]
pub use run::attribute as __private;
