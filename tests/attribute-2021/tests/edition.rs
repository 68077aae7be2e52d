//! What guarded functions do, in edition 2021, where an edition decides: when temporaries are dropped, what
//! a future borrows, how types are inferred. With the feature `all`, `behaviour` has the other tests too.

#![deny(warnings, clippy::all, clippy::pedantic, rust_2018_idioms, unused, let_underscore_drop)]
#![deny(unsafe_op_in_unsafe_fn, missing_docs, unreachable_pub)]
#![allow(clippy::unnecessary_wraps, clippy::missing_errors_doc)]

#[path = "../../attribute/tests/behaviour/drops/mod.rs"]
mod drops;
#[path = "../../attribute/tests/behaviour/functions.rs"]
mod functions;
#[path = "../../attribute/tests/behaviour/futures.rs"]
mod futures;
#[path = "../../attribute/tests/behaviour/inference.rs"]
mod inference;
#[path = "../../attribute/tests/behaviour/methods.rs"]
mod methods;
#[path = "../../attribute/tests/behaviour/params.rs"]
mod params;
#[path = "../../attribute/tests/behaviour/patterns.rs"]
mod patterns;
#[path = "../../attribute/tests/behaviour/support.rs"]
mod support;
