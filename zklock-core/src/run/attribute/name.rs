//! The name of a lock, which is checked at compile time and filled in at each call.

use std::fmt::Display;
use std::sync::OnceLock;

use crate::base::error::LockError;
use crate::base::pattern::{Pattern, StaticPattern};
use crate::name::lock_name::{LockName, NameBuilder as KeyBuilder, check_literal};

/// Validates a name or a pattern at compile time.
///
/// # Panics
///
/// When compiling, with a sentence that says what is accepted.
#[track_caller]
#[allow(clippy::panic)]
pub const fn check_pattern(literal: &str) {
    if let Err(flaw) = check_literal(literal.as_bytes(), true) {
        panic!("{}", flaw.message());
    }
}

/// Validates the name in a constant at compile time.
///
/// # Panics
///
/// When compiling, with a sentence that says what is accepted.
#[track_caller]
#[allow(clippy::panic)]
#[must_use]
pub const fn constant(name: &'static str) -> &'static str {
    let (bytes, mut at) = (name.as_bytes(), 0);
    while at < bytes.len() {
        if matches!(bytes[at], b'{' | b'}') {
            panic!(
                "a constant is a whole name; values are written in a literal: \"orders/{{id}}\""
            );
        }
        at += 1;
    }
    if let Err(flaw) = check_literal(bytes, false) {
        panic!("{}", flaw.message());
    }
    name
}

/// A name with its values filled in, or the reason why it is not accepted.
#[derive(Debug)]
pub struct Name(pub(super) Result<LockName, LockError>);

impl Name {
    /// Returns the name, for callers that need nothing else.
    ///
    /// # Errors
    ///
    /// The error of the values.
    pub fn made(self) -> Result<LockName, LockError> {
        self.0
    }
}

/// A name without values, which is made at the first call of a function and shared by all its
/// calls.
#[derive(Debug)]
pub struct Literal(&'static str, OnceLock<LockName>);

impl Literal {
    /// The literal text.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Literal(name, OnceLock::new())
    }

    /// The name for one call.
    #[must_use]
    pub fn name(&self) -> Name {
        let Literal(name, made) = self;
        Name(match made.get() {
            Some(name) => Ok(name.clone()),
            None => LockName::new(name)
                .map(|fresh| made.get_or_init(|| fresh.with_pattern(name)).clone()),
        })
    }
}

impl Name {
    /// A name with values.
    #[must_use]
    pub fn of(pattern: &StaticPattern) -> NameBuilder {
        NameBuilder(KeyBuilder::of(pattern.get()))
    }

    /// A name that is a constant.
    #[must_use]
    pub fn constant(name: &'static str) -> NameBuilder {
        NameBuilder(KeyBuilder::of(Pattern::of(name))).text(name)
    }
}

/// Puts a name together.
#[derive(Clone, Debug)]
pub struct NameBuilder(KeyBuilder);

impl NameBuilder {
    /// Adds literal text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        NameBuilder(self.0.text(text))
    }

    /// Adds text that is literal elsewhere, such as a namespace.
    #[must_use]
    pub fn prefix(self, text: &(impl Text + ?Sized)) -> Self {
        NameBuilder(self.0.text(text.as_ref()))
    }

    /// Adds a value, escaped.
    #[must_use]
    pub fn value(self, value: &dyn Value) -> Self {
        NameBuilder(self.0.value(&value))
    }

    /// Returns the finished name.
    #[must_use]
    pub fn build(self) -> Name {
        Name(self.0.finish())
    }
}

/// Values that can be filled into a name or a label.
#[diagnostic::on_unimplemented(
    message = "a value in a lock's name or label is written with `Display`, which `{Self}` does not implement",
    label = "this cannot be written as text",
    note = "name a field of it that can: `{{order.id}}`, or an expression: `key = order.id()`"
)]
pub trait Value: Display {}

#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized> Value for T {}

/// Values that can be a namespace or a label.
#[diagnostic::on_unimplemented(
    message = "a namespace or a label is a string, which `{Self}` is not",
    label = "this is not a string"
)]
pub trait Text: AsRef<str> {}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + ?Sized> Text for T {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_literal_is_made_once_and_refused_every_time() {
        let (good, bad) = (Literal::new("orders"), Literal::new("a//b"));
        let made = || good.name().0.unwrap().to_shared();
        assert!(Arc::ptr_eq(&made(), &made()));
        for _ in 0..2 {
            assert!(bad.name().0.is_err());
        }
    }
}
