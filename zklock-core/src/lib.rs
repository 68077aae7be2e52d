//! The machinery of zklock. Use the crate `zklock`, which re-exports what a user needs.

pub mod acquire;
pub mod base;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod cooldown;
pub mod coordinator;
pub mod divergence;
pub mod guard;
pub mod inspect;
pub mod layout;
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
