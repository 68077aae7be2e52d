//! Tests only: see `tests/`. What the documentation of the attribute shows is compiled here, where
//! the crates are that it speaks of.

/// The code in the page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/attribute.md")]
#[derive(Debug)]
pub struct Page;
