//! Names of locks, and their paths.

pub mod lock_name;
pub mod path;
