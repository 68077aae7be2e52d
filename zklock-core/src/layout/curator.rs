//! Curator's layout.
//!
//! ```text
//! <lock>/_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000004      InterProcessMutex
//! <lock>/_c_be2ee212-c507-4b18-a733-81c86278175c-__READ__0000000005   InterProcessReadWriteLock
//! <lock>/_c_be2ee212-c507-4b18-a733-81c86278175c-__WRIT__0000000006
//! ```

use crate::base::mode::Mode;
use crate::layout::contender::{Attempt, Contender};
use crate::layout::driver::LockDriver;
use crate::layout::kinds::{Kind, Sign, semaphore_beside_lock};
use crate::name::path::digits_of;

/// The layout of Curator's locks, which is the default: locks of zklock and of a Java service on
/// the same path exclude each other. The nodes of go-zookeeper and names like `lock-0000000001`
/// count as mutexes.
///
/// ```
/// use zklock::driver::LockDriver;
/// use zklock::layout::Curator;
///
/// let contender = Curator.parse("_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000004");
/// assert_eq!(contender.map(|contender| contender.sequence), Some(4));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Curator;

/// The number of a contender and its mode. Like Curator, takes the number after the last marker.
fn read(name: &str) -> Option<(i64, Mode)> {
    let read = |mode| Some((Contender::sequence_after(name, marker(mode))?, mode));
    [Mode::Mutex, Mode::Write, Mode::Read].into_iter().find_map(read)
}

fn marker(mode: Mode) -> &'static str {
    match mode {
        Mode::Mutex | Mode::Permit => "lock-",
        Mode::Read => "__READ__",
        Mode::Write => "__WRIT__",
    }
}

fn after_last<'a>(name: &'a str, marker: &str) -> &'a str {
    name.rsplit_once(marker).map_or(name, |(_, after)| after)
}

impl LockDriver for Curator {
    fn prefix(&self, attempt: &Attempt, mode: Mode) -> String {
        ["_c_", attempt.hyphenated_in(&mut [0; 36]), "-", marker(mode)].concat()
    }

    fn parse(&self, name: &str) -> Option<Contender> {
        let (sequence, mode) = read(name)?;
        Some(Contender::new(name, sequence, mode))
    }

    // Returned directly, without trying a name: this is called for every node.
    fn supports(&self, mode: Mode) -> bool {
        mode != Mode::Permit
    }

    fn tells_writers(&self) -> bool {
        true
    }

    /// Its mutex and its read/write lock do not see each other.
    fn sign_of_another_kind(&self, child: &str, mode: Mode) -> Option<Sign> {
        match (read(child).map(|(_, mode)| Kind::of(mode)), Kind::of(mode)) {
            (None, _) => semaphore_beside_lock(child),
            (Some(other), mine) => (other != mine).then_some(Sign::NodeOfCurator(other)),
        }
    }

    /// Curator counts every child, ordered by the text after the last marker of its lock, or by the whole
    /// name. Its readers wait for what looks like a writer only.
    fn is_counted_by_others(&self, child: &str, before: &Contender) -> bool {
        let key = match before.mode {
            Mode::Read if !child.contains(marker(Mode::Write)) => return false,
            Mode::Read | Mode::Write => {
                after_last(after_last(child, marker(Mode::Read)), marker(Mode::Write))
            }
            Mode::Mutex | Mode::Permit => after_last(child, marker(Mode::Mutex)),
        };
        let number = u32::try_from(before.sequence);
        number.is_ok_and(|number| *key.as_bytes() < digits_of(number)[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_peers_are_read() {
        for (name, sequence, mode) in [
            ("_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000", 0, Mode::Mutex),
            ("_c_0123456789abcdef0123456789abcdef-lock-0000000012", 12, Mode::Mutex),
            ("lock-0000000003", 3, Mode::Mutex),
            ("x-lock--2147483648", -2_147_483_648, Mode::Mutex),
            ("_c_be2ee212-c507-4b18-a733-81c86278175c-__READ__0000000007", 7, Mode::Read),
            ("_c_be2ee212-c507-4b18-a733-81c86278175c-__WRIT__0000000008", 8, Mode::Write),
        ] {
            assert_eq!(Curator.parse(name), Some(Contender::new(name, sequence, mode)), "{name}");
        }
        for foreign in ["0", "zzz", "lock-", "lock-1", "locks", "__READ__", "_c_x-__WRIT__1"] {
            assert_eq!(Curator.parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn curator_waits_for_what_sorts_before_its_number() {
        let counts = |child: &str, number, mode| {
            Curator.is_counted_by_others(child, &Contender::new("mine", number, mode))
        };
        for (child, counted) in [
            ("0", true),
            ("-5", true),
            ("%2F", true),
            ("0000000006", true),
            ("x-lock-0", true),
            ("0000000007", false),
            ("007", false),
            ("1", false),
            ("create", false),
            ("~2F", false),
            ("0b3f0b4e-3c9c-4a3e-9a60-5b0c1f9a7d11", false),
        ] {
            assert_eq!(counts(child, 7, Mode::Mutex), counted, "{child}");
        }
        assert!(counts("007", 70_000_000, Mode::Mutex));
        // The read/write lock has other markers.
        for (child, [reader, writer]) in [
            ("0", [false, true]),
            ("x-lock-0", [false, false]),
            ("0-lock-9", [false, true]),
            ("x__READ__0", [false, true]),
            ("x__WRIT__0", [true, true]),
            ("x__WRIT__9", [false, false]),
            ("create", [false, false]),
        ] {
            let both = [Mode::Read, Mode::Write].map(|mode| counts(child, 7, mode));
            assert_eq!(both, [reader, writer], "{child}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for mode in [Mode::Mutex, Mode::Read, Mode::Write] {
            assert!(Curator.supports(mode), "{mode}");
        }
        let name = Curator.prefix(&Attempt::new(), Mode::Mutex) + "0000000000";
        assert_eq!(name.len(), "_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000".len());
    }
}
