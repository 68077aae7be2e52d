//! Labels: what a lock is acquired for.

use std::fmt;
use std::ops::Deref;

/// What a lock is acquired for, for people who look at it. A short text, in place: options that
/// contain one can still be copied.
///
/// ```
/// use zklock::Label;
///
/// assert_eq!(&*Label::new("import\n"), "import");
/// assert_eq!(Label::new(&"é".repeat(100)).len(), Label::LONGEST);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label {
    length: u8,
    bytes: [u8; Label::LONGEST],
}

impl Label {
    /// The length of the longest label, in bytes.
    pub const LONGEST: usize = 78;

    /// Returns a label with this text, without its control characters, and cut after the last
    /// character that ends within [`LONGEST`](Label::LONGEST) bytes.
    ///
    /// ```
    /// use zklock::Label;
    ///
    /// const NIGHTLY: Label = Label::new("nightly report");
    /// assert_eq!(NIGHTLY.to_string(), "nightly report");
    /// ```
    pub const fn new(text: &str) -> Self {
        let (text, mut at) = (text.as_bytes(), 0);
        let (mut bytes, mut length) = ([0; Label::LONGEST], 0);
        while at < text.len() {
            let size = match text[at] {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            // The second block of control characters begins with this byte.
            let is_control = text[at].is_ascii_control() || text[at] == 0xc2 && text[at + 1] < 0xa0;
            if !is_control && length + size > Label::LONGEST {
                break;
            }
            let mut byte = 0;
            while byte < size && !is_control {
                bytes[length] = text[at + byte];
                (byte, length) = (byte + 1, length + 1);
            }
            at += size;
        }
        Label { length: length as u8, bytes }
    }
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_cut_between_characters_and_has_no_control_characters() {
        assert_eq!(&*Label::new(""), "");
        assert_eq!(&*Label::new("a\u{7f}\n\u{85}\u{9f}\u{a0}b"), "a\u{a0}b");
        for (text, length) in [("x", 78), ("é", 78), ("語", 78), ("🦀", 76)] {
            let (long, label) = (text.repeat(500), Label::new(&text.repeat(500)));
            assert_eq!(label.len(), length, "{text}");
            assert!(long.starts_with(&*label), "{label}");
        }
        let mixed = format!("{}🦀x", "y".repeat(75));
        assert_eq!(&*Label::new(&mixed), "y".repeat(75));
    }
}
