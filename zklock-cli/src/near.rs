//! Locks whose names are nearly the one that was asked for: it may be mistyped.

use std::time::Duration;

use tokio::time::timeout;
use zklock::Session;

/// How long it may take to list the locks in use. A hint is worth no more.
const TO_LIST: Duration = Duration::from_secs(1);
/// So many names are told.
const MOST: usize = 3;

/// The names of locks in use that are nearly this one, the nearest first.
pub(crate) async fn names(session: &Session, name: &str) -> Vec<String> {
    let listed = timeout(TO_LIST, session.lock_names(None)).await;
    let names = listed.ok().and_then(Result::ok).unwrap_or_default().names;
    nearest(name, names)
}

fn nearest(name: &str, names: Vec<String>) -> Vec<String> {
    // One mistake in three characters, and three at most: any two short names are near to each other.
    let most = (name.chars().count() / 3).min(3);
    let mut near: Vec<_> = names.into_iter().map(|other| (distance(name, &other), other)).collect();
    let letters = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    // Names that differ only in a number are those of other locks.
    near.retain(|(distance, other)| *distance <= most && letters(other) != letters(name));
    near.sort();
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// How many characters are to be added, removed or replaced (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<_> = other.chars().collect();
    let mut row: Vec<_> = (0..=other.len()).collect();
    for (index, c) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, d) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(c != *d);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_near_and_another_one_is_not() {
        let near = |name| {
            let names = ["a", "b", "nightly", "nightly2", "orders/7", "orders/8", "weekly"];
            nearest(name, names.map(str::to_owned).to_vec())
        };
        // Two letters in the wrong order are two mistakes.
        assert_eq!(near("nigthly"), ["nightly"]);
        assert_eq!(near("nightl"), ["nightly", "nightly2"]);
        assert_eq!(near("order/7"), ["orders/7", "orders/8"]);
        for other in ["c", "nightly-backup", "reports", "", "nightly3", "orders/9"] {
            assert_eq!(near(other), [""; 0], "{other}");
        }
    }
}
