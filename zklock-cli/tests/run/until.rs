//! Waiting for what is to come.

use std::thread::sleep;
use std::time::{Duration, Instant};

use zklock_test_support::{RawClient, RawError};

/// As long as nothing that is well takes, not even what begins with the next minute.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// Waits until something is there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// The children of a node, which may not be there. Asked again if the connection fails, as servers that
/// elect a leader again on a busy machine end it without a word.
pub(crate) fn children(server: &str, path: &str) -> Vec<String> {
    until(&format!("{server} lists {path}"), || {
        match RawClient::connect(server, BOUND).and_then(|mut client| client.children(path)) {
            Ok(names) => Some(names),
            Err(RawError::Code(-101)) => Some(Vec::new()),
            Err(error @ RawError::Code(_)) => panic!("{path}: {error}"),
            Err(RawError::Io(_) | RawError::Expired) => None,
        }
    })
}
