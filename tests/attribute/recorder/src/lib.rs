//! The library, with a record of what happens around a body, for tests of the attribute.
//!
//! Generated code finds it under the library's name. Only the two functions that run a body are
//! replaced, by functions that record and then call them.

#![allow(missing_docs, missing_debug_implementations)]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod events;

pub use real::*;
