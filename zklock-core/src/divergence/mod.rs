//! Servers that differ from their leader: they still show nodes that are deleted.

pub mod check;
pub mod head_age;
pub mod phantom;
