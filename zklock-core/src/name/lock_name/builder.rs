//! Names of literal text and values, which are escaped.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use super::LockName;
use super::rules::{Flaw, LONGEST_NAME, check_segment, invalid};
use crate::base::error::LockError;
#[cfg(doc)]
use crate::base::error_kind::ErrorKind;
use crate::base::pattern::Pattern;
use crate::name::path::is_refused;

/// Builds a name of literal text and values. Returned by [`LockName::build`].
///
/// ```
/// use zklock::LockName;
///
/// let mut name = LockName::build().text("accounts");
/// for part in ["eu", "a7"] {
///     name = name.text("/").value(&part);
/// }
/// assert_eq!(name.finish()?.as_str(), "accounts/eu/a7");
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NameBuilder {
    name: String,
    /// Where the present segment begins.
    start: usize,
    /// Where the first value of the present segment begins, not escaped.
    value: Option<usize>,
    /// The `~` of the present segment that would begin an escape which nobody wrote, if two digits
    /// follow.
    tildes: Vec<usize>,
    flaw: Option<Flaw>,
    pattern: Pattern,
}

impl NameBuilder {
    /// Begins a name that was written as this pattern.
    pub(crate) fn of(pattern: Pattern) -> Self {
        NameBuilder { pattern, ..NameBuilder::default() }
    }

    /// Adds literal text; its slashes separate segments.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// assert_eq!(LockName::build().text("orders/create").finish()?.as_str(), "orders/create");
    /// assert!(LockName::build().text("orders//create").finish().is_err());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn text(mut self, text: &str) -> Self {
        for (i, piece) in text.split('/').enumerate() {
            if i > 0 {
                self.end_segment();
                self.name.push('/');
                self.start = self.name.len();
            }
            if piece.chars().any(is_refused) {
                self.flaw.get_or_insert(Flaw::Refused);
            }
            self.name.push_str(piece);
        }
        self
    }

    /// Adds a value, escaped, so that it never adds or removes a segment.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// let order = |id: &str| LockName::build().text("orders/").value(&id).finish();
    /// assert_eq!(order("007")?.as_str(), "orders/007");
    /// assert_eq!(order("0/7")?.as_str(), "orders/0~2F7");
    /// assert!(order("").is_err());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn value(mut self, value: &dyn Display) -> Self {
        let mut text = String::new();
        if write!(text, "{value}").is_err() {
            self.flaw.get_or_insert(Flaw::Unwritable);
            return self;
        }
        // A value of megabytes is refused at the end anyway, so it need not be escaped.
        if text.len() > LONGEST_NAME {
            self.flaw.get_or_insert(Flaw::TooLong);
            return self;
        }
        if text.is_empty() {
            self.flaw.get_or_insert(Flaw::EmptyValue);
        }
        self.note_tildes();
        for c in text.chars() {
            if c == '/' || is_refused(c) {
                escape(c, &mut self.name);
                continue;
            }
            self.value.get_or_insert(self.name.len());
            if c == '~' {
                self.tildes.push(self.name.len());
            }
            self.name.push(c);
        }
        self
    }

    /// Returns the finished name.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// let of = |customer: &str| LockName::build().text("orders/").value(&customer).finish();
    /// assert_eq!(of("smith")?.as_str(), "orders/smith");
    /// assert!(of("").is_err());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if a value is empty or its `Display` fails, the name is too long, or the
    /// literal text breaks a rule.
    pub fn finish(mut self) -> Result<LockName, LockError> {
        if self.name.is_empty() {
            self.flaw.get_or_insert(Flaw::Empty);
        }
        self.end_segment();
        if self.name.len() > LONGEST_NAME {
            self.flaw.get_or_insert(Flaw::TooLong);
        }
        match self.flaw {
            Some(flaw) => Err(invalid(&self.name, flaw)),
            None => Ok(LockName(Arc::from(self.name), self.pattern)),
        }
    }

    /// Remembers a literal `~` at the end, which could become an escape together with a value.
    fn note_tildes(&mut self) {
        for at in self.name.len().saturating_sub(2).max(self.start)..self.name.len() {
            if self.name.as_bytes()[at] == b'~' && !self.tildes.contains(&at) {
                self.tildes.push(at);
            }
        }
    }

    fn end_segment(&mut self) {
        for at in std::mem::take(&mut self.tildes).into_iter().rev() {
            let digits = self.name.as_bytes().get(at + 1..at + 3);
            if digits.is_some_and(|digits| digits.iter().all(is_digit)) {
                self.name.insert_str(at + 1, "7E");
            }
        }
        let name = self.name.as_bytes();
        let Err(flaw) = check_segment(name, self.start, name.len(), false) else {
            self.value = None;
            return;
        };
        // Escaping the first character of the value is enough.
        match self.value.take() {
            Some(at) => {
                let tail = self.name.split_off(at);
                let mut chars = tail.chars();
                if let Some(c) = chars.next() {
                    escape(c, &mut self.name);
                }
                self.name.push_str(chars.as_str());
            }
            None => {
                self.flaw.get_or_insert(flaw);
            }
        }
    }
}

/// Whether the byte can be a digit of an escape.
pub(super) fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'F')
}

fn escape(c: char, out: &mut String) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "~{byte:02X}");
    }
}
