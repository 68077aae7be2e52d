//! Bodies under locks: the template, and what the attribute calls.

pub mod attribute;
pub mod body;
pub mod entry;
pub mod guarded;
pub mod guarded_call;
pub mod kept;
pub mod lock_template;
pub mod template;
