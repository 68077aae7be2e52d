//! What a list of locks leaves out.

use serde_json::Value;

use crate::server::{auth, has_certificate, line};
use crate::text::printable;

/// So many places are named to people.
const MOST_NAMED: usize = 3;

/// Why there may be more locks than are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The directories that may not be read, or not all of what is in them.
    pub(crate) unread: Vec<String>,
    /// Directories below which locks are that have no name below this root: none has a segment `locks` or
    /// `leases`.
    pub(crate) elsewhere: Vec<String>,
}

impl LeftOut {
    pub(crate) fn is_empty(&self) -> bool {
        self.unread.is_empty() && self.elsewhere.is_empty()
    }

    pub(crate) fn add(&mut self, more: LeftOut) {
        for (all, more) in [(&mut self.unread, more.unread), (&mut self.elsewhere, more.elsewhere)]
        {
            all.extend(more);
            all.sort_unstable();
            all.dedup();
        }
    }

    /// For people, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.unread.is_empty() {
            let what = match self.unread.len() {
                1 => "1 directory may not be read, and is left out".to_owned(),
                some => format!("{some} directories may not be read, and are left out"),
            };
            let why = match auth().is_none() && !has_certificate() {
                true => " (ZKLOCK_AUTH is not set)",
                false => "",
            };
            lines.push(format!("{what}{why}: {}", named(&self.unread)));
        }
        if !self.elsewhere.is_empty() {
            let list = |root: &String| format!("`{}`", line(&["zklock", "ls", "--root", root]));
            let lists: Vec<_> = self.elsewhere.iter().map(list).collect();
            lines.push(format!(
                "some locks are left out, because no name of a lock has a segment `locks` or `leases`; they are \
                 listed by {}",
                named(&lists)
            ));
        }
        lines.iter().map(|line| printable(line)).collect()
    }

    /// Adds it to a document, which has these fields only where something is left out.
    pub(crate) fn add_to(&self, document: &mut Value) {
        for (field, all) in [("unread", &self.unread), ("elsewhere", &self.elsewhere)] {
            if !all.is_empty() {
                document[field] = all.clone().into();
            }
        }
    }
}

fn named(all: &[String]) -> String {
    let first = all.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The root below which a lock of this path has a name, if that is another one than that of the session.
pub(crate) fn other_root(path: &str) -> Option<&str> {
    let inside = ["/locks/", "/leases/"].into_iter();
    let end = inside.filter_map(|one| Some(path.rfind(one)? + one.len() - 1)).max()?;
    Some(&path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_places_are_counted_and_some_of_them_named() {
        let unread = ["/a", "/b\u{1b}", "/c", "/d"].map(str::to_owned).to_vec();
        let lines = LeftOut { unread, elsewhere: vec!["/it's/locks".to_owned()] }.lines();
        assert!(
            lines[0].starts_with("4 directories may not be read, and are left out"),
            "{lines:?}"
        );
        assert!(lines[0].ends_with(": /a, /b, /c and 1 more"), "{lines:?}");
        assert!(lines[1].contains(r"`zklock ls --root '/it'\''s/locks'`"), "{lines:?}");
    }

    #[test]
    fn the_last_segment_that_no_name_has_ends_the_other_root() {
        assert_eq!(other_root("/a/locks/b/leases/c/d"), Some("/a/locks/b/leases"));
        assert_eq!(other_root("/a/locks"), None);
        assert_eq!(other_root("/a/blocks/c"), None);
    }
}
