//! The machinery of zklock.
