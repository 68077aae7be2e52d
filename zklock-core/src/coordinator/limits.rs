//! Limits of requests, beyond which a server or the client library would break the connection, and of
//! the session timeout.

use std::time::Duration;

use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;

/// A server breaks the connection at a request of more than 1,048,575 bytes, and all other requests
/// in flight fail. The difference is left for what the protocol adds.
pub(crate) const LARGEST: usize = 1_000_000;

/// What the protocol adds to one operation, in bytes: lengths, kinds, an access control list.
const OVERHEAD: usize = 256;

/// How many of the first operations fit into one request, each of which takes so many bytes besides what the protocol adds.
/// One that does not fit alone is refused by itself.
pub(crate) fn fitting(bytes: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fits = |bytes: &usize| {
        sum += bytes + OVERHEAD;
        sum <= LARGEST / 10 * 9
    };
    bytes.take_while(fits).count().max(1)
}

/// Refuses a session timeout that the protocol has no number for: it counts milliseconds in a signed
/// 32-bit integer.
pub(crate) fn check_session_timeout(timeout: Duration) -> Result<(), String> {
    match i32::try_from(timeout.as_millis()) {
        Ok(1..) => Ok(()),
        _ => Err("the session timeout must be between 1 ms and 24 days".to_owned()),
    }
}

/// Refuses a request that is too large for a server.
pub(super) fn check_size(path: &str, data: &[u8]) -> Result<(), RequestError> {
    check_sum(path.len() + data.len())
}

/// Checks a `multi` in the same way. An empty one is refused too: the client library would answer
/// it without asking the server, and the answer would be mistaken for one of the server.
pub(super) fn check_multi(operations: &[Operation]) -> Result<(), RequestError> {
    if operations.is_empty() {
        return Err(RequestError::BadArguments(
            "a transaction needs at least one operation".to_owned(),
        ));
    }
    let size = |operation: &Operation| match operation {
        Operation::Create { path, data, .. }
        | Operation::Set { path, data }
        | Operation::Replace { path, data, .. } => path.len() + data.len() + OVERHEAD,
        Operation::Check { path }
        | Operation::CheckVersion { path, .. }
        | Operation::Delete { path } => path.len() + OVERHEAD / 8,
    };
    check_sum(operations.iter().map(size).sum())
}

fn check_sum(size: usize) -> Result<(), RequestError> {
    if size > LARGEST {
        let why = format!("the request has {size} bytes; a server accepts at most {LARGEST}");
        return Err(RequestError::BadArguments(why));
    }
    Ok(())
}
