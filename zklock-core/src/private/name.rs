//! The name of a lock, checked when compiling and filled in when called.

use std::fmt::Display;

use crate::error::LockError;
use crate::key::{LockName, NameBuilder as KeyBuilder, check_literal};

/// Validates a name or a pattern when compiling.
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

/// A name with its values filled in, or the reason why that cannot be.
#[derive(Debug)]
pub struct Name(Source);

#[derive(Debug)]
enum Source {
    Literal(&'static str),
    Filled(Result<LockName, LockError>),
}

impl Name {
    /// A name without values.
    #[must_use]
    pub const fn literal(name: &'static str) -> Self {
        Name(Source::Literal(name))
    }

    /// A name with values.
    #[must_use]
    pub fn pattern() -> NameBuilder {
        NameBuilder(LockName::build())
    }
}

/// Puts a name together.
#[derive(Clone, Debug)]
pub struct NameBuilder(KeyBuilder);

impl NameBuilder {
    /// Adds text that the programmer wrote.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        NameBuilder(self.0.text(text))
    }

    /// Adds text that the programmer wrote elsewhere.
    #[must_use]
    pub fn prefix(self, text: &(impl AsRef<str> + ?Sized)) -> Self {
        NameBuilder(self.0.text(text.as_ref()))
    }

    /// Adds a value, escaped.
    #[must_use]
    pub fn value(self, value: &dyn Display) -> Self {
        NameBuilder(self.0.value(value))
    }

    /// Ends the name.
    #[must_use]
    pub fn build(self) -> Name {
        Name(Source::Filled(self.0.finish()))
    }
}

impl Name {
    /// The validated name.
    pub(super) fn finish(self) -> Result<LockName, LockError> {
        match self.0 {
            Source::Literal(literal) => LockName::new(literal),
            Source::Filled(name) => name,
        }
    }
}
