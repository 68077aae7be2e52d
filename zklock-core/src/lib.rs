//! The machinery of zklock. Use the crate `zklock`, which re-exports what a user needs.

pub mod clock;
pub mod deadline;
pub mod error;
pub mod first;
pub mod mode;
pub mod owner;
pub mod session_state;
pub mod token;

pub mod path;

pub mod contender;
pub mod coordinator;
pub mod ends;
pub mod key;
pub mod policy;

pub mod backend;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod layout;
pub mod observer;
pub mod options;
pub mod recipe;

pub mod session;

pub mod registry;

pub mod acquire;
pub mod lease;
pub mod nested;
pub mod note;
pub mod who;

pub mod local;

pub mod context;
pub mod guard;
pub mod view;

pub mod inspect;

pub mod fenced;
pub mod lock;

#[cfg(feature = "blocking")]
pub mod blocking;
pub mod body;
pub mod kept;
pub mod template;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[doc(hidden)]
#[path = "private/mod.rs"]
pub mod __private;
