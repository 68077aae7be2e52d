//! Valid paths, by the rules of the client library and of the server.

use crate::coordinator::request_error::RequestError;

fn bad(why: &str) -> RequestError {
    RequestError::BadArguments(why.to_owned())
}

/// Paths that `zookeeper-client` refuses to send. It does not check for dots in the last segment.
pub(super) fn check(path: &str, sequential: bool) -> Result<(), RequestError> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(bad("the path must start with '/'"));
    };
    if rest.is_empty() {
        return Ok(());
    }
    // Most paths are plain ASCII, for which no character has to be decoded.
    let plain = rest.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    if !plain && rest.chars().any(|c| is_refused(u32::from(c))) {
        return Err(bad("unsupported characters in the path"));
    }
    let mut segments = rest.as_bytes().split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        if segment.is_empty() && !(last && sequential) {
            return Err(bad("a segment of the path is empty"));
        }
        if !last && matches!(segment, b"." | b"..") {
            return Err(bad("the path is relative"));
        }
    }
    Ok(())
}

/// Paths that the server's `PathUtils.validatePath` refuses in addition, for create, set and check.
/// It works on UTF-16 units, so no character outside the basic plane passes: each contains a
/// surrogate.
pub fn check_written(path: &str) -> Result<(), RequestError> {
    if path.chars().any(|c| u32::from(c) > 0xffff) {
        return Err(bad("the path has a character outside the basic multilingual plane"));
    }
    if path == "/" {
        return Ok(());
    }
    match path.rsplit('/').next() {
        Some("." | "..") => Err(bad("the path is relative")),
        Some("") => Err(bad("the path ends with '/'")),
        _ => Ok(()),
    }
}

fn is_refused(c: u32) -> bool {
    matches!(c, 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff)
}

/// The parent's path and the node's name. The root is its own parent.
pub fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => ("/", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_as_by_client_and_server() {
        for good in ["/", "/a", "/a/b", "/.a/..b", "/ä/路径", "/a/..."] {
            assert_eq!(check(good, false), Ok(()), "{good}");
        }
        for wrong in
            ["", "a", "//", "/a/", "/a//b", "/./a", "/a/../b", "/a\0", "/\u{1f}", "/\u{f8ff}"]
        {
            assert!(check(wrong, false).is_err(), "{wrong:?}");
        }
        assert_eq!(check("/a/", true), Ok(()));
        for wrong in ["/a/.", "/..", "/😀", "/\u{10000}"] {
            assert!(check(wrong, false).is_ok() && check_written(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn splitting_finds_the_parent() {
        assert_eq!(split("/a"), ("/", "a"));
        assert_eq!(split("/a/b"), ("/a", "b"));
        assert_eq!(split("/a/"), ("/a", ""));
    }
}
