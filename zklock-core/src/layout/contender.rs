//! Contenders: the nodes in a lock's queue, and their order.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{self, AtomicU64};

use uuid::Uuid;

use crate::base::mode::Mode;

/// The last sequence number that is used. ZooKeeper counts to 2³¹−1 and then repeats that number
/// (ZOOKEEPER-4706), and Java and Python order by the number, too.
pub const LAST_SAFE_SEQUENCE: i64 = (1 << 31) - (1 << 20);

/// A contender, a node in the queue of a lock, as a layout reads it from the node's name. What else is
/// known of it, for people who look at a queue, is a [`ContenderInfo`](crate::inspect::ContenderInfo).
///
/// ```
/// use zklock::driver::Contender;
/// use zklock::Mode;
///
/// let mut queue = vec![
///     Contender::new("read-0000000009", 9, Mode::Read),
///     Contender::new("write-0000000002", 2, Mode::Write),
/// ];
/// Contender::sort(&mut queue);
/// assert_eq!(queue[0].sequence, 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The node's name.
    pub name: String,
    /// The number that the server appended.
    pub sequence: i64,
    /// The mode in which it acquires the lock.
    pub mode: Mode,
}

impl Contender {
    /// Returns a contender with this name, number and mode.
    ///
    /// ```
    /// use zklock::driver::Contender;
    /// use zklock::Mode;
    ///
    /// let contender = Contender::new("sub_0000000012", 12, Mode::Mutex);
    /// assert_eq!(contender.sequence, 12);
    /// ```
    pub fn new(name: impl Into<String>, sequence: i64, mode: Mode) -> Self {
        Contender { name: name.into(), sequence, mode }
    }

    /// Sorts contenders into the order of their queue: by number. Of equal numbers the reader is
    /// last: it is the node of a downgraded writer.
    ///
    /// ```
    /// use zklock::driver::Contender;
    /// use zklock::Mode;
    ///
    /// let mut queue = ["b", "a"].map(|name| Contender::new(name, 7, Mode::Mutex)).to_vec();
    /// queue.push(Contender::new("c", 3, Mode::Mutex));
    /// Contender::sort(&mut queue);
    /// assert_eq!(queue.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["c", "a", "b"]);
    /// ```
    pub fn sort(queue: &mut [Contender]) {
        queue.sort_unstable_by(Contender::order);
    }

    fn order(&self, other: &Contender) -> Ordering {
        let key = |c: &Contender| (c.sequence, c.mode == Mode::Read);
        key(self).cmp(&key(other)).then_with(|| self.name.cmp(&other.name))
    }

    /// Returns the position of this contender in a queue, by its name. Fast for a queue that is
    /// sorted by [`sort`](Contender::sort) and whose names show this mode.
    ///
    /// ```
    /// use zklock::driver::Contender;
    /// use zklock::Mode;
    ///
    /// let queue = [4, 7].map(|n| Contender::new(n.to_string(), n, Mode::Mutex));
    /// assert_eq!(queue[1].place_in(&queue), Some(1));
    /// assert_eq!(Contender::new("9", 9, Mode::Mutex).place_in(&queue), None);
    /// ```
    pub fn place_in(&self, queue: &[Contender]) -> Option<usize> {
        let found = queue.binary_search_by(|other| other.order(self)).ok();
        found.or_else(|| queue.iter().position(|other| other.name == self.name))
    }

    /// Returns the number at the end of a name, after `marker`, in ZooKeeper's notation: ten
    /// digits, or past the end of the numbers a sign and nine or ten digits. `None` for what
    /// ZooKeeper never writes, such as a number of more than 32 bits, because a waiter for such a
    /// node would wait for ever.
    ///
    /// A hyphen behind the marker is the sign of the number. So a driver is refused whose prefix has one
    /// there, as `a--` has for the marker `-`.
    ///
    /// ```
    /// use zklock::driver::Contender;
    ///
    /// assert_eq!(Contender::sequence_after("sub_0000000012", "sub_"), Some(12));
    /// assert_eq!(Contender::sequence_after("sub_12", "sub_"), None);
    /// ```
    pub fn sequence_after(name: &str, marker: &str) -> Option<i64> {
        // Not searched for, and by bytes: this is called for every child of every lock.
        let last = |length| {
            let (before, number) =
                name.as_bytes().split_at_checked(name.len().checked_sub(length)?)?;
            before.ends_with(marker.as_bytes()).then_some(number)
        };
        // First with its sign, which may be what the marker ends with: the ten digits behind it would be
        // another number, and in the reverse order.
        let signed = last(11).filter(|number| matches!(number, [b'-', b'1'..=b'9', ..]));
        let number = signed.or_else(|| last(10))?;
        let digits = number.strip_prefix(b"-").unwrap_or(number);
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let size = digits.iter().fold(0, |size, digit| size * 10 + i64::from(digit - b'0'));
        let number = if digits.len() < number.len() { -size } else { size };
        i32::try_from(number).is_ok().then_some(number)
    }
}

/// The unique part of a node's name or payload, by which a node is found again if the reply to its
/// creation is lost.
///
/// ```
/// use zklock::layout::Curator;
/// use zklock::driver::{Attempt, LockDriver};
/// use zklock::Mode;
///
/// let attempt = Attempt::new();
/// assert!(Curator.prefix(&attempt, Mode::Mutex).contains(&attempt.hyphenated()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempt(Uuid);

impl Attempt {
    /// Returns a new attempt, which no other process has, and no other call in this one.
    ///
    /// ```
    /// use zklock::driver::Attempt;
    ///
    /// assert_ne!(Attempt::new(), Attempt::new());
    /// ```
    pub fn new() -> Self {
        static FIRST: LazyLock<(u64, AtomicU64)> = LazyLock::new(|| {
            let (process, first) = Uuid::new_v4().as_u64_pair();
            (process, AtomicU64::new(first))
        });
        let (process, next) = &*FIRST;
        Attempt(Uuid::from_u64_pair(*process, next.fetch_add(1, atomic::Ordering::Relaxed)))
    }

    /// The attempt with a given number.
    pub(crate) fn of(number: u128) -> Self {
        Attempt(Uuid::from_u128(number))
    }

    /// Returns the text with hyphens, 36 characters.
    ///
    /// ```
    /// use zklock::driver::Attempt;
    ///
    /// assert_eq!(Attempt::new().hyphenated().len(), 36);
    /// ```
    pub fn hyphenated(&self) -> String {
        self.hyphenated_in(&mut [0; 36]).to_owned()
    }

    /// The same, written into a buffer.
    pub(crate) fn hyphenated_in<'a>(&self, buffer: &'a mut [u8; 36]) -> &'a str {
        self.0.hyphenated().encode_lower(buffer)
    }

    /// Returns the text without hyphens, 32 characters.
    ///
    /// ```
    /// use zklock::driver::Attempt;
    ///
    /// assert_eq!(Attempt::new().simple().len(), 32);
    /// ```
    pub fn simple(&self) -> String {
        self.0.simple().encode_lower(&mut Uuid::encode_buffer()).to_owned()
    }
}

impl Default for Attempt {
    fn default() -> Self {
        Attempt::new()
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.hyphenated(), f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    #[test]
    fn no_two_attempts_are_the_same_and_java_takes_them_for_random_identifiers() {
        let attempts = || (0..1_000).map(|_| Attempt::new()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(attempts)).collect();
        let all = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        let all: HashSet<_> = all.inspect(|one| assert_eq!(one.0.get_version_num(), 4)).collect();
        assert_eq!(all.len(), 4_000);
    }

    #[test]
    fn numbers_are_read_as_zookeeper_writes_them() {
        for (name, sequence) in [
            ("lock-0000000003", Some(3)),
            ("x-lock-lock-0000000012", Some(12)),
            ("x-lock--2147483648", Some(-2_147_483_648)),
            ("x-lock--000000005", Some(-5)),
            ("lock-2147483647", Some(2_147_483_647)),
            ("lock-2147483648", None),
            ("lock--2147483649", None),
            ("lock--9999999999", None),
            ("lock--0000000005", None),
            ("lock-", None),
            ("lock-1", None),
            ("lock-000000000x", None),
            ("lock-+000000001", None),
            ("locks", None),
        ] {
            assert_eq!(Contender::sequence_after(name, "lock-"), sequence, "{name}");
        }
    }

    #[test]
    fn a_hyphen_behind_a_hyphen_is_a_sign() {
        for (name, marker, sequence) in [
            ("t-ab--2147483648", "-", Some(-2_147_483_648)),
            ("t-ab--2146435071", "-", Some(-2_146_435_071)),
            ("t-ab--1000000000", "-", Some(-1_000_000_000)),
            ("t-ab--999999999", "-", Some(-999_999_999)),
            ("t-ab--000000001", "-", Some(-1)),
            ("x-lock--000000001", "lock-", Some(-1)),
            ("x-lock--000000001", "-", Some(-1)),
            ("lock-0000000001", "-", Some(1)),
            ("lock-1000000000", "-", Some(1_000_000_000)),
            ("lock-2147483647", "-", Some(2_147_483_647)),
            ("lock-2147483648", "-", None),
            ("t-ab--2147483649", "-", None),
            ("id__lock__-2147483648", "__lock__", Some(-2_147_483_648)),
            ("id__lock__1000000000", "__lock__", Some(1_000_000_000)),
        ] {
            assert_eq!(Contender::sequence_after(name, marker), sequence, "{name} {marker}");
        }
    }

    #[test]
    fn the_queue_is_ordered_by_number_not_by_text_and_a_writers_own_reader_comes_after_it() {
        let mut queue = vec![
            Contender::new("b", 10, Mode::Mutex),
            Contender::new("a", 2, Mode::Read),
            Contender::new("z", 2, Mode::Write),
            Contender::new("c", -2_147_483_648, Mode::Mutex),
        ];
        Contender::sort(&mut queue);
        let names: Vec<_> = queue.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["c", "z", "a", "b"]);
    }
}
