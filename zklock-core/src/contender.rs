//! Contenders: the names of the nodes in a lock's queue, and their order.

use std::fmt;

use uuid::Uuid;

use crate::mode::Mode;

/// Above this number a queue is refused: ZooKeeper counts to 2³¹−1 and then repeats itself
/// (ZOOKEEPER-4706), and Java and Python order by the number too.
pub const LAST_SAFE_SEQUENCE: i64 = (1 << 31) - (1 << 20);

/// A node in the queue of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The node's name.
    pub name: String,
    /// The number that the server appended.
    pub sequence: i64,
    /// In which way it wants the lock.
    pub mode: Mode,
}

/// The unique part of a node's name, by which a creation with an unknown outcome is found again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempt(Uuid);

impl Attempt {
    /// A fresh one.
    pub fn new() -> Self {
        Attempt(Uuid::new_v4())
    }

    /// The prefix of the node's name, as Curator writes it.
    pub fn prefix(&self) -> String {
        format!("_c_{}-lock-", self.0.hyphenated())
    }

    /// Whether a node was made by this attempt.
    pub fn made(&self, name: &str) -> bool {
        name.starts_with(&self.prefix())
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

impl Contender {
    /// Reads a node's name. `None` for a node that is no contender of a mutex: it is in nobody's
    /// way here.
    ///
    /// As in Curator the number is what follows the last `lock-`, so the nodes of go-zookeeper and
    /// the plain `lock-0000000001` count too. Past the end of the numbers they are negative, with
    /// ten or eleven characters.
    pub fn parse(name: &str) -> Option<Contender> {
        let (_, number) = name.rsplit_once("lock-")?;
        let digits = number.strip_prefix('-').unwrap_or(number);
        let plain = (9..=10).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        if !plain || number.len() < 10 {
            return None;
        }
        Some(Contender { name: name.to_owned(), sequence: number.parse().ok()?, mode: Mode::Mutex })
    }

    /// Reads the children of a lock's directory, in the order of the queue.
    pub fn queue(children: &[String]) -> Vec<Contender> {
        let mut queue: Vec<_> = children.iter().filter_map(|name| Contender::parse(name)).collect();
        queue.sort_unstable_by(|a, b| (a.sequence, &a.name).cmp(&(b.sequence, &b.name)));
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_peers_are_read() {
        for (name, sequence) in [
            ("_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000", 0),
            ("_c_0123456789abcdef0123456789abcdef-lock-0000000012", 12),
            ("lock-0000000003", 3),
            ("x-lock--2147483648", -2_147_483_648),
            ("x-lock--000000005", -5),
        ] {
            assert_eq!(Contender::parse(name).map(|c| c.sequence), Some(sequence), "{name}");
        }
        for foreign in
            ["0", "zzz", "lock-", "lock-1", "lock-000000000x", "locks", "lock-+000000001"]
        {
            assert_eq!(Contender::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn an_attempt_knows_its_node() {
        let attempt = Attempt::new();
        let name = format!("{}0000000007", attempt.prefix());
        assert!(attempt.made(&name) && !Attempt::new().made(&name));
        assert_eq!(name.len(), "_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000".len());
    }

    #[test]
    fn the_queue_is_ordered_by_number_not_by_text() {
        let names = ["b-lock-0000000002", "a-lock-0000000010", "foreign", "c-lock-0000000001"];
        let queue = Contender::queue(&names.map(str::to_owned));
        let order: Vec<_> = queue.iter().map(|c| c.sequence).collect();
        assert_eq!(order, [1, 2, 10]);
    }
}
