//! Servers that differ from their leader: they go on showing nodes that are gone.

pub mod check;
pub mod head_age;
pub mod phantom;
