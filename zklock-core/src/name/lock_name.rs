//! Lock names: relative paths under the session's root, and the rules that keep values from
//! changing their shape.
//!
//! The path is the one that a service in another language writes: `"/zklock/orders/" + id` there
//! and `"orders/{id}"` here are one lock. Slashes that the programmer writes separate segments. A
//! value never adds or removes a segment: characters that cannot be part of a segment are escaped,
//! as `~` and two upper-case hex digits for each byte of their UTF-8. All others stay as they are.
//! The rules are the same in every layout.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Display, Write as _};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::base::error::{ErrorKind, LockError};
use crate::base::pattern::Pattern;
use crate::name::path::{ZnodePath, is_refused};

/// The longest name, in bytes of UTF-8 and with its escapes.
pub const LONGEST_NAME: usize = 1024;

/// A validated lock name: a relative path under the session's root.
///
/// The path is the one that a Java or Python service writes: under the root `/zklock`,
/// `"/zklock/orders/" + id` there and `"orders/{id}"` here are one lock, for every id that can be a
/// path segment as it is, such as `7`, `007`, `-5`, any UUID or `größe 4`. Everything else is
/// escaped, as `~XX` for each byte of its UTF-8:
///
/// | in a value | becomes | because |
/// | --- | --- | --- |
/// | `/` | `~2F` | it would add a segment |
/// | U+0000–001F, U+007F–009F, U+E000–F8FF, U+FFF0–FFFF, all above U+FFFF | `~00`, `~C2~80`, … | ZooKeeper refuses them |
/// | `~` before two of the digits 0–9 and A–F | `~7E` | it would look like an escape |
/// | `.` and `..`, as a whole segment | `~2E`, `~2E.` | ZooKeeper refuses them |
/// | `locks` and `leases`, as a whole segment | `~6Cocks`, `~6Ceases` | Curator's semaphore keeps its nodes there |
///
/// Two different values never give the same name, and an escape can be decoded. The literal text of
/// a program is never escaped, but checked. These are errors: an empty name, an empty value, an
/// empty segment; in literal text a segment `.`, `..`, `locks` or `leases`, and a character that
/// ZooKeeper refuses; and more than 1,024 bytes.
///
/// The name of one lock may be the beginning of another: `orders` and `orders/7`. These two do not
/// exclude each other. The directory of the second is a child of the first lock's directory, where
/// zklock ignores it. But Curator's lock at `orders` counts every child, and waits until one that
/// sorts before its own sequence number, such as `orders/0` or `orders/-5`, is gone. So Java should
/// not use such an outer lock. zklock logs such a pair once, with both paths, and
/// [`Participant::why`] names it.
///
/// [`Participant::why`]: crate::inspect::Participant::why
///
/// The rules are also a file of [examples] that Java and Python check; implementations for both are
/// beside it, to be copied.
///
/// [examples]: https://github.com/zklock/zklock/tree/main/tests/vectors
///
/// ```
/// use zklock::LockName;
///
/// assert_eq!(LockName::new("orders/create").unwrap().as_str(), "orders/create");
/// assert!(LockName::new("orders//create").is_err());
/// let of_value = LockName::build().text("orders/").value(&"a/b").finish().unwrap();
/// assert_eq!(of_value.as_str(), "orders/a~2Fb");
/// ```
#[derive(Clone)]
pub struct LockName(Arc<str>, Pattern);

impl LockName {
    /// Validates literal text as a name. Nothing in it is escaped.
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
            Ok(()) => Ok(LockName(Arc::from(name), Pattern::default())),
            Err(flaw) => Err(invalid(name, flaw)),
        }
    }

    /// Returns a builder for a name of literal text and values.
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

    /// Returns the name as text, with its escapes.
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

    /// Returns the same text, shared.
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

    /// Returns the pattern of the name: what the attribute or `lock_name!` was written with. Metrics
    /// and traces are labelled with it, so it never contains a value. A name that was given as text,
    /// or built, may contain values; its pattern is `{name}`, unless the program
    /// [says](LockName::with_pattern) which it is.
    ///
    /// ```
    /// use zklock::{LockName, lock_name};
    ///
    /// let id = 7;
    /// assert_eq!(lock_name!("orders/{id}")?.pattern(), "orders/{id}");
    /// assert_eq!(LockName::new("orders/7")?.pattern(), "{name}");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    pub fn pattern(&self) -> &'static str {
        self.1.text()
    }

    /// Sets the pattern of the name. It changes nothing about the lock.
    ///
    /// ```
    /// use zklock::LockName;
    ///
    /// let name = LockName::build().text("orders/").value(&7).finish()?;
    /// assert_eq!(name.with_pattern("orders/{id}").pattern(), "orders/{id}");
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    #[must_use]
    pub fn with_pattern(self, pattern: &'static str) -> Self {
        LockName(self.0, Pattern::of(pattern))
    }

    /// The pattern, by its number.
    pub(crate) fn pattern_number(&self) -> Pattern {
        self.1
    }

    /// Returns the path of the lock's directory under a root.
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

// The same name is the same lock, whatever its pattern.
impl PartialEq for LockName {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for LockName {}

impl Hash for LockName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialOrd for LockName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LockName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
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

#[diagnostic::on_unimplemented(
    message = "`{Self}` names no lock",
    label = "this is neither text nor a `LockName`",
    note = "write `\"orders/create\"`, or with values `lock_name!(\"orders/{{id}}\")`"
)]
/// The types that name a lock: text, a [`LockName`], or the result of `lock_name!`, whose error the
/// call then returns.
///
/// Text is used as it is: with `format!`, a value may add segments. `lock_name!` escapes values.
///
/// ```
/// # zklock::blocking::block_on(async {
/// # let session = zklock::Session::embedded();
/// use zklock::{LockName, lock_name};
///
/// let (id, text) = ("a/b", String::from("orders/7"));
/// let name = LockName::new("orders/create")?;
/// assert_eq!(session.mutex("orders/7")?.path(), session.mutex(&text)?.path());
/// assert_eq!(session.mutex(&name)?.path(), "/zklock/orders/create");
/// assert_eq!(session.mutex(lock_name!("orders/{id}"))?.path(), "/zklock/orders/a~2Fb");
/// # Ok::<(), zklock::LockError>(()) }).unwrap();
/// ```
pub trait IntoLockName: sealed::Sealed {
    /// Returns the name, or the reason why it is not accepted.
    ///
    /// ```
    /// use zklock::IntoLockName;
    ///
    /// assert_eq!("orders".into_lock_name()?.as_str(), "orders");
    /// assert!("orders//7".into_lock_name().is_err());
    /// # Ok::<(), zklock::LockError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    fn into_lock_name(self) -> Result<LockName, LockError>;
}

mod sealed {
    /// Implemented here only.
    pub trait Sealed {}
}

macro_rules! text {
    ($($ty:ty),*) => {$(
        impl sealed::Sealed for $ty {}

        #[diagnostic::do_not_recommend]
        impl IntoLockName for $ty {
            fn into_lock_name(self) -> Result<LockName, LockError> {
                LockName::new(&self)
            }
        }
    )*};
}
text!(&str, &&str, String, &String, Cow<'_, str>, &Cow<'_, str>, Arc<str>, &Arc<str>);

impl sealed::Sealed for LockName {}

impl IntoLockName for LockName {
    fn into_lock_name(self) -> Result<LockName, LockError> {
        Ok(self)
    }
}

impl sealed::Sealed for &LockName {}

impl IntoLockName for &LockName {
    fn into_lock_name(self) -> Result<LockName, LockError> {
        Ok(self.clone())
    }
}

impl sealed::Sealed for Result<LockName, LockError> {}

impl IntoLockName for Result<LockName, LockError> {
    fn into_lock_name(self) -> Result<LockName, LockError> {
        self
    }
}

/// A reason why a name is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The name is empty.
    Empty,
    /// Two slashes in a row, or one at an end.
    EmptySegment,
    /// An empty value.
    EmptyValue,
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
fn invalid(name: &str, flaw: Flaw) -> LockError {
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

const fn check_segment(text: &[u8], start: usize, end: usize, values: bool) -> Result<(), Flaw> {
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
        let text = value.to_string();
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
    /// [`ErrorKind::InvalidName`] if a value is empty, the name is too long, or the literal text
    /// breaks a rule.
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
fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'F')
}

fn escape(c: char, out: &mut String) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "~{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The rule as every language must have it; Java and Python check the same file.
    const VECTORS: &str = include_str!("../../../tests/vectors/lock-names.json");

    const FLAWS: [(&str, Flaw); 7] = [
        ("empty", Flaw::Empty),
        ("empty-segment", Flaw::EmptySegment),
        ("empty-value", Flaw::EmptyValue),
        ("dots", Flaw::Dots),
        ("refused", Flaw::Refused),
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

    /// Reads a segment backwards.
    fn decoded(segment: &str) -> String {
        let (mut bytes, mut rest) = (Vec::new(), segment.as_bytes());
        while let Some((first, after)) = rest.split_first() {
            rest = match after {
                [high, low, after @ ..]
                    if *first == b'~' && [high, low].into_iter().all(is_digit) =>
                {
                    let digits = [*high, *low];
                    let digits = std::str::from_utf8(&digits).unwrap();
                    bytes.push(u8::from_str_radix(digits, 16).unwrap());
                    after
                }
                _ => {
                    bytes.push(*first);
                    after
                }
            };
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Values of whatever the rule treats in a way of its own, in every order.
    fn values() -> Vec<String> {
        let parts = [
            "~",
            "4",
            "1",
            "41",
            "7E",
            "2F",
            "F",
            "f",
            "g",
            "/",
            ".",
            "0",
            "-",
            " ",
            "lo",
            "cks",
            "leases",
            "\u{0}",
            "\u{7f}",
            "\u{9f}",
            "\u{e000}",
            "é",
            "订",
            "\u{fff0}",
            "\u{1f600}",
            "A",
            "%",
        ];
        let pairs: Vec<String> =
            parts.iter().flat_map(|a| parts.iter().map(move |b| format!("{a}{b}"))).collect();
        let triples = pairs.iter().flat_map(|a| parts.iter().map(move |b| format!("{a}{b}")));
        let mut values: Vec<String> = triples.chain(pairs.iter().cloned()).collect();
        values.extend(parts.map(str::to_owned));
        values.sort();
        values.dedup();
        values
    }

    /// Also where literal text stands around the value, and could make an escape with it.
    #[test]
    fn segments_of_values_are_read_backwards_and_no_two_are_one() {
        let values = values();
        for (before, after) in [("", ""), ("~", ""), ("", "41"), ("~4", "1"), ("lo", ""), (".", "")]
        {
            let mut seen = std::collections::HashSet::new();
            for value in &values {
                let name =
                    LockName::build().text(before).value(value).text(after).finish().unwrap();
                assert_eq!(decoded(name.as_str()), format!("{before}{value}{after}"), "{name}");
                assert!(!name.as_str().contains('/'), "{name}");
                assert!(LockName::new(name.as_str()).is_ok_and(|again| again == name), "{name}");
                assert!(ZnodePath::new(name.under(&ZnodePath::new("/").unwrap()).as_str()).is_ok());
                assert!(seen.insert(name), "{value:?}");
            }
        }
    }

    #[test]
    fn a_value_that_can_be_a_segment_stays_as_it_is() {
        let mut values: Vec<String> = (0..200).map(|_| uuid::Uuid::new_v4().to_string()).collect();
        values.extend(
            ["0", "007", "-5", " ", "+1", "%2F", "a b", "...", ".a", "größe 4", "~", "~4"]
                .map(str::to_owned),
        );
        values.extend(["~4g", "~ab", "lock", "Locks", "订单", "!", "a~"].map(str::to_owned));
        for value in values {
            let name = LockName::build().text("orders/").value(&value).finish().unwrap();
            assert_eq!(name.as_str(), format!("orders/{value}"));
            assert_eq!(LockName::new(&format!("orders/{value}")).unwrap(), name);
        }
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
        for (name, flaw) in FLAWS {
            let breaks = |vector: &Value| vector["error"] == name;
            assert!(vectors("patterns").iter().any(breaks), "{name}");
            let literal = vectors("literals").iter().any(breaks);
            assert_eq!(literal, flaw != Flaw::EmptyValue, "{name}");
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
        assert_eq!(check_literal(b"a/{x}/..", true), Err(Flaw::Dots));
        assert_eq!(check_literal(b"a/0{x}", true), Ok(()));
        assert_eq!(check_literal(b"a/{x}", true), Ok(()));
        assert_eq!(check_literal(b"a/{x}/", true), Err(Flaw::EmptySegment));
        assert_eq!(check_literal(b"a/{{x}}", true), Ok(()));
        assert_eq!(check_literal(b"order-{order_id}", true), Ok(()));
    }
}
