//! What guarded functions do, under the strictest lints, in editions 2021 and 2024.

#![deny(warnings, clippy::all, clippy::pedantic, rust_2018_idioms, unused, let_underscore_drop)]
#![deny(
    unsafe_op_in_unsafe_fn,
    missing_docs,
    unreachable_pub,
    trivial_casts,
    trivial_numeric_casts
)]
#![allow(clippy::unnecessary_wraps, clippy::missing_errors_doc)]

mod choices;
mod drops;
mod functions;
mod futures;
mod generated;
mod inference;
mod lints;
mod methods;
mod modes;
mod names;
mod neighbours;
mod options;
mod params;
mod patterns;
mod send;
mod support;
