//! Absolute paths of nodes.

use std::fmt;
use std::sync::Arc;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;

/// A validated absolute path of a node; `/` is the chroot itself.
///
/// ```
/// use zklock::ZnodePath;
///
/// let root = ZnodePath::new("/prod")?;
/// assert_eq!(root.join("orders/create").to_string(), "/prod/orders/create");
/// # Ok::<(), zklock::LockError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ZnodePath(Arc<str>);

impl ZnodePath {
    /// Validates a path by ZooKeeper's rules.
    ///
    /// ```
    /// use zklock::ZnodePath;
    ///
    /// assert!(ZnodePath::new("/").is_ok());
    /// assert!(ZnodePath::new("prod").is_err() && ZnodePath::new("/prod/").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], which says what is accepted.
    pub fn new(path: &str) -> Result<Self, LockError> {
        let refuse = |why: &str| {
            let detail = format!("the path {why}; accepted is /a/b with no empty segment");
            Err(LockError::new(ErrorKind::InvalidName, detail).aside(format!("{path:?}")))
        };
        let Some(relative) = path.strip_prefix('/') else {
            return refuse("is not absolute");
        };
        if relative.is_empty() {
            return Ok(ZnodePath(Arc::from("/")));
        }
        for segment in relative.split('/') {
            match segment {
                "" => return refuse("has an empty segment"),
                "." | ".." => return refuse("has a segment . or .."),
                _ if segment.chars().any(is_refused) => {
                    return refuse("has a character that ZooKeeper refuses");
                }
                _ => {}
            }
        }
        Ok(ZnodePath(Arc::from(path)))
    }

    /// Returns the path as text.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.root().as_str(), "/zklock");
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, to keep.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        self.0.clone()
    }

    /// Returns the path of a node below this one. `relative` must have been validated.
    ///
    /// ```
    /// # let session = zklock::Session::embedded();
    /// assert_eq!(session.root().join("orders").as_str(), "/zklock/orders");
    /// ```
    pub fn join(&self, relative: &str) -> ZnodePath {
        // Every call of a guarded function runs this, and formatting takes six times as long.
        match &*self.0 {
            "/" => ZnodePath(Arc::from(["/", relative].concat())),
            base => ZnodePath(Arc::from([base, "/", relative].concat())),
        }
    }

    /// The path of a sibling whose name is this one's followed by `suffix`. Only for the directory of a
    /// lock: the chroot has no sibling.
    pub(crate) fn beside(&self, suffix: &str) -> ZnodePath {
        ZnodePath(Arc::from(format!("{}{suffix}", self.0)))
    }

    /// The paths from the first segment down to this one.
    pub(crate) fn ancestors_and_self(&self) -> impl Iterator<Item = &str> {
        let path = self.as_str();
        path.char_indices()
            .filter(|(at, c)| *c == '/' && *at > 0)
            .map(|(at, _)| &path[..at])
            .chain((path != "/").then_some(path))
    }
}

/// Returns the name of a node: the text after the last slash of its path.
pub fn name_of(path: &str) -> &str {
    // By bytes, in a third of the time, at every acquire.
    let slash = path.bytes().rposition(|byte| byte == b'/');
    slash.map_or(path, |slash| &path[slash + 1..])
}

/// The digits that ZooKeeper appends to the name of a sequential node. Not by `format!`, which takes ten
/// times as long, at every acquire.
pub fn digits_of(mut sequence: u32) -> [u8; 10] {
    let mut digits = [b'0'; 10];
    for digit in digits.iter_mut().rev() {
        *digit += (sequence % 10) as u8;
        sequence /= 10;
    }
    digits
}

impl fmt::Display for ZnodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ZnodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Whether ZooKeeper refuses the character in a path. Its rule (`PathUtils.validatePath`) is about
/// UTF-16 units, so it also refuses everything above the basic plane.
pub fn is_refused(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}'
    ) || c > '\u{ffff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_paths_are_kept_and_bad_ones_explained() {
        for good in ["/", "/a", "/a/b", "/中文/订单"] {
            assert_eq!(ZnodePath::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a", "//", "/a/", "/a//b", "/a/./b", "/..", "/a\0b", "/a\u{1f600}"] {
            let error = ZnodePath::new(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{bad:?}");
            // The path is for those who run the service.
            let (said, quoted) = (error.to_string(), format!("{bad:?}"));
            assert!(said.ends_with("accepted is /a/b with no empty segment"), "{said}");
            assert_eq!(format!("{error:#}"), format!("{said}: {quoted}"));
        }
    }

    #[test]
    fn ancestors_come_from_the_top() {
        let path = ZnodePath::new("/a/b/c").unwrap();
        assert_eq!(path.ancestors_and_self().collect::<Vec<_>>(), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(ZnodePath::new("/").unwrap().ancestors_and_self().count(), 0);
        assert_eq!(ZnodePath::new("/").unwrap().join("x").as_str(), "/x");
        assert_eq!(path.beside("-__lock__").as_str(), "/a/b/c-__lock__");
    }
}
