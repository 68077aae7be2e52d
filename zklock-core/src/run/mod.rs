//! Bodies under locks: the template, and what the attribute calls.

pub mod attribute;
pub mod body;
pub mod guarded;
pub mod kept;
pub mod template;
