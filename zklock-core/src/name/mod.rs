//! Names of locks, and the paths they stand for.

pub mod lock_name;
pub mod path;
