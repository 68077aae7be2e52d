//! What a list of locks leaves out.

use serde_json::Value;

use crate::server::{Again, auth, has_certificate};
use crate::text::printable;

/// So many places are named to people.
const MOST_NAMED: usize = 3;

/// Why there may be more locks than are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The directories that may not be read, or not all of what is in them.
    pub(crate) unread: Vec<String>,
    /// Directories below which locks are that have no name below this root: none has a segment `locks` or
    /// `leases`, and none is empty.
    pub(crate) elsewhere: Vec<String>,
    /// The paths of locks that have no name below any root.
    pub(crate) unnamed: Vec<String>,
}

impl LeftOut {
    pub(crate) fn is_empty(&self) -> bool {
        self.unread.is_empty() && self.elsewhere.is_empty() && self.unnamed.is_empty()
    }

    pub(crate) fn add(&mut self, more: LeftOut) {
        for (all, more) in [
            (&mut self.unread, more.unread),
            (&mut self.elsewhere, more.elsewhere),
            (&mut self.unnamed, more.unnamed),
        ] {
            all.extend(more);
            all.sort_unstable();
            all.dedup();
        }
    }

    /// For people, a line each. `again` is how `zklock` was called.
    pub(crate) fn lines(&self, again: &Again) -> Vec<String> {
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
            let list = |root: &String| format!("`{}`", again.below(root).command(&["ls"]));
            let lists: Vec<_> = self.elsewhere.iter().map(list).collect();
            lines.push(format!(
                "some locks are left out, because they have no name below this root (none has a segment \
                 `locks` or `leases`); they are listed by {}",
                named(&lists)
            ));
        }
        if !self.unnamed.is_empty() {
            let what = match self.unnamed.len() {
                1 => "1 lock has a path that is no name, and is left out".to_owned(),
                some => format!("{some} locks have paths that are no names, and are left out"),
            };
            lines.push(format!("{what}: {}", named(&self.unnamed)));
        }
        lines.iter().map(|line| printable(line)).collect()
    }

    /// Adds it to a document, which has these fields only where something is left out.
    pub(crate) fn add_to(&self, document: &mut Value) {
        let fields =
            [("unread", &self.unread), ("elsewhere", &self.elsewhere), ("unnamed", &self.unnamed)];
        for (field, all) in fields {
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

/// The root below which a lock of this path has a name, as it has none below this one.
pub(crate) fn other_root<'p>(path: &'p str, root: &str) -> Option<&'p str> {
    let (above, last) = path.rsplit_once('/')?;
    if ["", "locks", "leases"].contains(&last) {
        return None;
    }
    let inside = ["/locks/", "/leases/"].into_iter();
    let end = inside.filter_map(|one| Some(path.rfind(one)? + one.len() - 1)).max();
    let above = if above.is_empty() { "/" } else { above };
    let other = end.map(|end| &path[..end]).or_else(|| (path == root).then_some(above));
    other.filter(|other| *other != root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Server;

    #[test]
    fn many_places_are_counted_and_some_of_them_named() {
        let unread = ["/a", "/b\u{1b}", "/c", "/d"].map(str::to_owned).to_vec();
        let [elsewhere, unnamed] = ["/it's/locks", "/app/locks"].map(|one| vec![one.to_owned()]);
        let mut left_out = LeftOut { unread, elsewhere, unnamed };
        let again = Again::of(&Server { connect: Some("zk1:2181".to_owned()), root: None });
        let lines = left_out.lines(&again);
        assert!(
            lines[0].starts_with("4 directories may not be read, and are left out"),
            "{lines:?}"
        );
        assert!(lines[0].ends_with(": /a, /b, /c and 1 more"), "{lines:?}");
        let lists = r"`zklock --connect zk1:2181 --root '/it'\''s/locks' ls`";
        assert!(lines[1].contains(lists), "{lines:?}");
        let one = "1 lock has a path that is no name, and is left out: /app/locks";
        assert_eq!(lines[2], one);
        let more = LeftOut { unnamed: vec!["/app/leases".to_owned()], ..LeftOut::default() };
        assert!(!more.is_empty());
        left_out.add(more);
        let both = "2 locks have paths that are no names, and are left out: /app/leases, ";
        assert!(left_out.lines(&again)[2].starts_with(both), "{left_out:?}");
    }

    #[test]
    fn the_last_segment_that_no_name_has_ends_the_other_root() {
        let other = |path| other_root(path, "/a");
        assert_eq!(other("/a/locks/b/leases/c/d"), Some("/a/locks/b/leases"));
        assert_eq!(other("/a/locks"), None);
        assert_eq!(other("/a/locks/b/leases"), None);
        assert_eq!(other("/a/blocks/c"), None);
        // The lock is at the root itself.
        assert_eq!(other("/a"), Some("/"));
        assert_eq!(other_root("/a/b", "/a/b"), Some("/a"));
        assert_eq!(other_root("/", "/"), None);
        // What is no name below this root is none there either.
        assert_eq!(other_root("/a/locks/b", "/a/locks"), None);
    }
}
