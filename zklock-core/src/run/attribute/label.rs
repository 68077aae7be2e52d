//! A label with its values filled in.

use std::fmt::Write as _;

use super::name::Value;

/// Text with values.
#[derive(Clone, Debug, Default)]
pub struct Label(String);

impl Label {
    /// No text yet.
    #[must_use]
    pub fn pattern() -> Self {
        Label::default()
    }

    /// Adds literal text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0.push_str(text);
        self
    }

    /// Adds a value. What it has written when it fails is kept: nobody is kept from a lock by its
    /// label.
    #[must_use]
    pub fn value(mut self, value: &dyn Value) -> Self {
        let _ = write!(self.0, "{value}");
        self
    }
}

impl AsRef<str> for Label {
    fn as_ref(&self) -> &str {
        &self.0
    }
}
