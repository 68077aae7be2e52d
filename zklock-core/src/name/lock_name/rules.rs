//! The rules for literal text.

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
#[cfg(doc)]
use crate::name::path::is_refused;

/// The longest name, in bytes of UTF-8 and with its escapes.
pub const LONGEST_NAME: usize = 1024;

/// A reason why a name is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The name is empty.
    Empty,
    /// Two slashes in a row, or one at an end.
    EmptySegment,
    /// An empty value.
    EmptyValue,
    /// A value that cannot be written as text.
    Unwritable,
    /// A segment `.` or `..`.
    Dots,
    /// A character that ZooKeeper refuses.
    Refused,
    /// A segment `locks` or `leases`.
    Reserved,
    /// Longer than [`LONGEST_NAME`].
    TooLong,
}

impl Flaw {
    /// Returns the sentence that says what is accepted.
    pub const fn message(self) -> &'static str {
        match self {
            Flaw::Empty => "a lock name may not be empty; write for instance \"orders/create\"",
            Flaw::EmptySegment => {
                "a lock name may not have an empty segment: it is a relative path such as \
                 \"orders/create\", without a slash at either end"
            }
            Flaw::EmptyValue => {
                "a value in a lock name may not be empty; calls whose value is missing would share \
                 one lock"
            }
            Flaw::Unwritable => {
                "a value in a lock name could not be written as text: its `Display` failed"
            }
            Flaw::Dots => "a segment of a lock name may not be `.` or `..`",
            Flaw::Refused => {
                "a lock name may not contain control characters, private-use characters or \
                 characters beyond U+FFFF, which ZooKeeper refuses"
            }
            Flaw::Reserved => {
                "a segment of a lock name may not be `locks` or `leases`, where the semaphore of \
                 the outer name keeps its nodes"
            }
            Flaw::TooLong => "a lock name may be at most 1024 bytes long",
        }
    }
}

/// Shows only the beginning of a name, which may be very long.
pub(super) fn invalid(name: &str, flaw: Flaw) -> LockError {
    let shown: String = name.chars().take(64).collect();
    let more = if shown.len() < name.len() { "…" } else { "" };
    let detail = format!("{shown:?}{more} is not a lock name: {}", flaw.message());
    LockError::new(ErrorKind::InvalidName, detail)
}

/// Checks literal text; `const`, so that the attribute checks it at compile time. In a pattern,
/// `{…}` stands for a value, and `{{` and `}}` for braces.
pub const fn check_literal(text: &[u8], pattern: bool) -> Result<(), Flaw> {
    if text.is_empty() {
        return Err(Flaw::Empty);
    }
    if text.len() > LONGEST_NAME {
        return Err(Flaw::TooLong);
    }
    let (mut at, mut start, mut values) = (0, 0, false);
    loop {
        if at == text.len() || text[at] == b'/' {
            if let Err(flaw) = check_segment(text, start, at, values) {
                return Err(flaw);
            }
            if at == text.len() {
                return Ok(());
            }
            at += 1;
            start = at;
            values = false;
        } else if pattern && text[at] == b'{' && !(at + 1 < text.len() && text[at + 1] == b'{') {
            values = true;
            while at < text.len() && text[at] != b'}' {
                at += 1;
            }
            if at < text.len() {
                at += 1;
            }
        } else if pattern && (text[at] == b'{' || text[at] == b'}') {
            at += if at + 1 < text.len() && text[at + 1] == text[at] { 2 } else { 1 };
        } else {
            if is_refused_at(text, at) {
                return Err(Flaw::Refused);
            }
            at += 1;
        }
    }
}

pub(super) const fn check_segment(
    text: &[u8],
    start: usize,
    end: usize,
    values: bool,
) -> Result<(), Flaw> {
    if start == end {
        return Err(Flaw::EmptySegment);
    }
    if values {
        return Ok(());
    }
    match text[start] {
        b'.' if is(text, start, end, b".") || is(text, start, end, b"..") => Err(Flaw::Dots),
        b'l' if is(text, start, end, b"locks") || is(text, start, end, b"leases") => {
            Err(Flaw::Reserved)
        }
        _ => Ok(()),
    }
}

const fn is(text: &[u8], start: usize, end: usize, what: &[u8]) -> bool {
    if end - start != what.len() {
        return false;
    }
    let mut i = 0;
    while i < what.len() {
        if text[start + i] != what[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// The same as [`is_refused`] for bytes, because a `const fn` cannot iterate over characters.
const fn is_refused_at(text: &[u8], at: usize) -> bool {
    let b = text[at];
    let next = if at + 1 < text.len() { text[at + 1] } else { 0 };
    let third = if at + 2 < text.len() { text[at + 2] } else { 0 };
    match b {
        0x00..=0x1f | 0x7f => true,
        0xc2 => next <= 0x9f,
        0xee => true,
        0xef => next <= 0xa3 || (next == 0xbf && third >= 0xb0),
        0xf0..=0xff => true,
        _ => false,
    }
}
