//! The name of a lock: a relative path under the session's root, and the rules that keep it one.
//!
//! Slashes that the programmer writes are segments. A value that is filled into a pattern is
//! escaped, so it can never add or leave a segment. Escapes are `~` and two upper-case hex digits
//! of a UTF-8 byte. The rules are the same in every layout, so that a service in another language
//! names the same lock.

use std::fmt::{self, Display, Write as _};
use std::sync::Arc;

use crate::error::{ErrorKind, LockError};
use crate::path::{ZnodePath, is_refused};

/// The longest name, in bytes of UTF-8 with its escapes.
pub const LONGEST_NAME: usize = 1024;

/// A validated lock name.
///
/// ```
/// use zklock::LockName;
///
/// assert_eq!(LockName::new("orders/create").unwrap().as_str(), "orders/create");
/// assert!(LockName::new("orders//create").is_err());
/// let of_value = LockName::build().text("orders/").value(&"a/b").finish().unwrap();
/// assert_eq!(of_value.as_str(), "orders/a~2Fb");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Validates a name that the programmer wrote.
    ///
    /// ```
    /// use zklock::{ErrorKind, LockName};
    ///
    /// assert_eq!(LockName::new("orders/create")?.as_str(), "orders/create");
    /// let error = LockName::new("/orders").err();
    /// assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::InvalidName));
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn new(name: &str) -> Result<Self, LockError> {
        match check_literal(name.as_bytes(), false) {
            Ok(()) => Ok(LockName(Arc::from(name))),
            Err(flaw) => Err(invalid(name, flaw)),
        }
    }

    /// Starts a name that is made of literal text and of values.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// let customer = "../7";
    /// let name = LockName::build().text("orders/by-").value(&customer).finish()?;
    /// assert_eq!(name.as_str(), "orders/by-..~2F7");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn build() -> NameBuilder {
        NameBuilder::default()
    }

    /// The name that a text means if the segments that no name can have are values, which are escaped.
    pub(crate) fn of_values(text: &str) -> Option<LockName> {
        let segments = text.split('/').enumerate();
        let name = segments.fold(NameBuilder::default(), |name, (at, segment)| {
            let bytes = segment.as_bytes();
            let name = if at > 0 { name.text("/") } else { name };
            match check_segment(bytes, 0, bytes.len(), at == 0, false) {
                Ok(()) => name.text(segment),
                Err(_) => name.value(&segment),
            }
        });
        name.finish().ok()
    }

    /// The name as text, with its escapes.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// let name = LockName::build().text("orders/").value(&"a/b").finish()?;
    /// assert_eq!(name.as_str(), "orders/a~2Fb");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, shared.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use zklock::LockName;
    ///
    /// let label: Arc<str> = LockName::new("orders")?.to_shared();
    /// assert_eq!(&*label, "orders");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn to_shared(&self) -> Arc<str> {
        self.0.clone()
    }

    /// The path of the lock's directory under a root.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// use zklock::LockName;
    ///
    /// let path = LockName::new("orders/create")?.under(session.root());
    /// assert_eq!(path.as_str(), "/zklock/orders/create");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn under(&self, root: &ZnodePath) -> ZnodePath {
        root.join(&self.0)
    }
}

impl Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// There is nothing in it.
    Empty,
    /// Two slashes in a row, or one at an end.
    EmptySegment,
    /// A segment `.` or `..`.
    Dots,
    /// A character that ZooKeeper refuses.
    Refused,
    /// A later segment that begins with a character up to `0`.
    LowStart,
    /// A later segment `locks` or `leases`.
    Reserved,
    /// Longer than [`LONGEST_NAME`].
    TooLong,
}

impl Flaw {
    /// The sentence that says what is accepted.
    pub const fn message(self) -> &'static str {
        match self {
            Flaw::Empty => "a lock name may not be empty; write for instance \"orders/create\"",
            Flaw::EmptySegment => {
                "a lock name may not have an empty segment: it is a relative path such as \
                 \"orders/create\", without a slash at either end"
            }
            Flaw::Dots => "a segment of a lock name may not be `.` or `..`",
            Flaw::Refused => {
                "a lock name may not contain control characters, private-use characters or \
                 characters beyond U+FFFF, which ZooKeeper refuses"
            }
            Flaw::LowStart => {
                "after the first, a segment of a lock name may not begin with a character up to \
                 `0`: beside a Curator lock of the outer name it would sort before the queue and \
                 block it for ever"
            }
            Flaw::Reserved => {
                "after the first, a segment of a lock name may not be `locks` or `leases`, where \
                 the semaphore of the outer name keeps its nodes"
            }
            Flaw::TooLong => "a lock name may be at most 1024 bytes long",
        }
    }
}

/// Shows at most the beginning of a name that may be very long.
fn invalid(name: &str, flaw: Flaw) -> LockError {
    let shown: String = name.chars().take(64).collect();
    let more = if shown.len() < name.len() { "…" } else { "" };
    let detail = format!("{shown:?}{more} is no lock name: {}", flaw.message());
    LockError::new(ErrorKind::InvalidName, detail)
}

/// Checks literal text; `const`, so that the attribute checks it when it compiles. In a pattern
/// `{…}` stands for a value, `{{` and `}}` for braces.
pub const fn check_literal(text: &[u8], pattern: bool) -> Result<(), Flaw> {
    if text.is_empty() {
        return Err(Flaw::Empty);
    }
    if text.len() > LONGEST_NAME {
        return Err(Flaw::TooLong);
    }
    let (mut at, mut start, mut first, mut values) = (0, 0, true, false);
    loop {
        if at == text.len() || text[at] == b'/' {
            if let Err(flaw) = check_segment(text, start, at, first, values) {
                return Err(flaw);
            }
            if at == text.len() {
                return Ok(());
            }
            at += 1;
            start = at;
            first = false;
            values = false;
        } else if pattern && text[at] == b'{' && !(at + 1 < text.len() && text[at + 1] == b'{') {
            if !first && start < at && text[start] <= b'0' {
                return Err(Flaw::LowStart);
            }
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

const fn check_segment(
    text: &[u8],
    start: usize,
    end: usize,
    first: bool,
    values: bool,
) -> Result<(), Flaw> {
    if start == end {
        return Err(Flaw::EmptySegment);
    }
    if values {
        return Ok(());
    }
    if is(text, start, end, b".") || is(text, start, end, b"..") {
        return Err(Flaw::Dots);
    }
    if first {
        return Ok(());
    }
    if text[start] <= b'0' {
        return Err(Flaw::LowStart);
    }
    if is(text, start, end, b"locks") || is(text, start, end, b"leases") {
        return Err(Flaw::Reserved);
    }
    Ok(())
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

/// The byte form of [`is_refused`], because a `const fn` cannot iterate over characters.
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

/// A name in the making. See [`LockName::build`].
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
    /// Where the first value of the present segment stands unescaped.
    value: Option<usize>,
    flaw: Option<Flaw>,
}

impl NameBuilder {
    /// Adds text that the programmer wrote; its slashes are segments.
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

    /// Adds a value, escaped. No value can add a segment or leave one.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// // A later segment that begins with a character up to `0` is escaped, too.
    /// let name = LockName::build().text("orders/").value(&"0/7").finish()?;
    /// assert_eq!(name.as_str(), "orders/~30~2F7");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn value(mut self, value: &dyn Display) -> Self {
        let text = value.to_string();
        // A value of megabytes is refused in the end; it need not be escaped first.
        if text.len() > LONGEST_NAME {
            self.flaw.get_or_insert(Flaw::TooLong);
            return self;
        }
        for c in text.chars() {
            if c == '/' || c == '~' || is_refused(c) {
                escape(c, &mut self.name);
            } else {
                self.value.get_or_insert(self.name.len());
                self.name.push(c);
            }
        }
        self
    }

    /// Ends the name.
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
    /// [`ErrorKind::InvalidName`], if a value left a segment empty, the name is too long, or the
    /// literal text breaks a rule.
    pub fn finish(mut self) -> Result<LockName, LockError> {
        self.end_segment();
        if self.name.is_empty() {
            self.flaw = Some(Flaw::Empty);
        } else if self.name.len() > LONGEST_NAME {
            self.flaw.get_or_insert(Flaw::TooLong);
        }
        match self.flaw {
            Some(flaw) => Err(invalid(&self.name, flaw)),
            None => Ok(LockName(Arc::from(self.name))),
        }
    }

    fn check_segment(&self) -> Result<(), Flaw> {
        let (name, first) = (self.name.as_bytes(), self.start == 0);
        check_segment(name, self.start, name.len(), first, false)
    }

    fn end_segment(&mut self) {
        let value = self.value.take();
        let Err(flaw) = self.check_segment() else { return };
        // What a value did wrong, escaping its first character puts right.
        match value {
            Some(at) if flaw != Flaw::LowStart || at == self.start => {
                let tail = self.name.split_off(at);
                let mut chars = tail.chars();
                if let Some(c) = chars.next() {
                    escape(c, &mut self.name);
                }
                self.name.push_str(chars.as_str());
                // Unless the text before it is wrong, too.
                if let Err(flaw) = self.check_segment() {
                    self.flaw.get_or_insert(flaw);
                }
            }
            _ => {
                self.flaw.get_or_insert(flaw);
            }
        }
    }
}

fn escape(c: char, out: &mut String) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a String cannot fail.
        let _ = write!(out, "~{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The rule as every language must have it; Java and Python check the same file.
    const VECTORS: &str = include_str!("../../tests/vectors/lock-names.json");

    const FLAWS: [(&str, Flaw); 7] = [
        ("empty", Flaw::Empty),
        ("empty-segment", Flaw::EmptySegment),
        ("dots", Flaw::Dots),
        ("refused", Flaw::Refused),
        ("low-start", Flaw::LowStart),
        ("reserved", Flaw::Reserved),
        ("too-long", Flaw::TooLong),
    ];

    fn vectors(kind: &str) -> Vec<Value> {
        let all: Value = serde_json::from_str(VECTORS).unwrap();
        all[kind].as_array().unwrap().clone()
    }

    fn times(vector: &Value) -> usize {
        vector["times"].as_u64().map_or(1, |times| times as usize)
    }

    fn check(vector: &Value, made: Result<LockName, LockError>) {
        let root = ZnodePath::new("/zklock").unwrap();
        match made {
            Ok(name) => match vector["path"].as_str() {
                Some(path) => assert_eq!(name.under(&root).as_str(), path, "{vector}"),
                None => assert_eq!(vector["length"], name.as_str().len(), "{vector}"),
            },
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidName, "{vector}");
                let flaw = FLAWS.iter().find(|(name, _)| vector["error"] == *name);
                let (_, flaw) = flaw.unwrap_or_else(|| panic!("{vector}: {error}"));
                assert!(error.to_string().contains(flaw.message()), "{vector}: {error}");
                assert!(error.to_string().len() < 1000);
            }
        }
    }

    fn filled(before: &str, value: &str, after: &str) -> Result<String, ErrorKind> {
        let name = LockName::build().text(before).value(&value).text(after).finish();
        name.map(|name| name.as_str().to_owned()).map_err(|error| error.kind())
    }

    #[test]
    fn a_value_does_not_hide_what_the_text_before_it_does_wrong() {
        assert_eq!(filled("a/.", ".", ""), Err(ErrorKind::InvalidName));
        assert_eq!(filled("a/.", "x", ""), Err(ErrorKind::InvalidName));
        assert_eq!(filled("a/b.", ".", ""), Ok("a/b..".to_owned()));
    }

    #[test]
    fn literal_names_are_those_of_the_vectors() {
        for vector in vectors("literals") {
            check(&vector, LockName::new(&vector["name"].as_str().unwrap().repeat(times(&vector))));
        }
    }

    #[test]
    fn names_of_values_are_those_of_the_vectors() {
        for vector in vectors("patterns") {
            let mut builder = LockName::build();
            for (at, part) in vector["parts"].as_array().unwrap().iter().enumerate() {
                let part = part.as_str().unwrap();
                builder = match at % 2 {
                    0 => builder.text(part),
                    _ => builder.value(&part.repeat(times(&vector))),
                };
            }
            check(&vector, builder.finish());
        }
    }

    #[test]
    fn every_rule_has_a_vector_of_each_kind() {
        for (name, _) in FLAWS {
            for kind in ["literals", "patterns"] {
                let breaks = |vector: &Value| vector["error"] == name;
                assert!(vectors(kind).iter().any(breaks), "{kind}: {name}");
            }
        }
    }

    #[test]
    fn the_byte_rule_is_the_character_rule() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let name = format!("x{c}");
            let refused = c != '/' && is_refused(c);
            assert_eq!(
                check_literal(name.as_bytes(), false) == Err(Flaw::Refused),
                refused,
                "{c:?}"
            );
        }
    }

    #[test]
    fn literal_text_of_a_pattern_is_checked_too() {
        assert_eq!(check_literal(b"a/0{x}", true), Err(Flaw::LowStart));
        assert_eq!(check_literal(b"a/{x}", true), Ok(()));
        assert_eq!(check_literal(b"a/{x}/", true), Err(Flaw::EmptySegment));
        assert_eq!(check_literal(b"a/{{x}}", true), Ok(()));
        assert_eq!(check_literal(b"order-{order_id}", true), Ok(()));
    }
}
