//! What users read: each public item has an example, and the pages say what is there.

// What cannot be read fails the test.
#![allow(clippy::unwrap_used)]

mod examples;
mod logs;
mod pages;

use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
