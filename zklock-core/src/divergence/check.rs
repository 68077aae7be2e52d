//! Detects phantom nodes: nodes that this server shows and its leader does not know. A server
//! answers reads by itself, while the leader judges commits, so a commit finds out.

use std::sync::Arc;

use crate::coordinator::request_error::RequestError;
use crate::divergence::phantom::{PhantomNode, shown};
use crate::session::generation::Generation;

/// Looks for a phantom among nodes that the server shows. Costs one commit if there is none.
///
/// # Errors
///
/// The error of a request that the server did not answer.
pub(crate) async fn phantom_among(
    generation: &Arc<Generation>,
    paths: &[String],
) -> Result<Option<PhantomNode>, RequestError> {
    for batch in generation.in_requests(paths, |path| path.len()) {
        let checked = generation.check(batch.iter().map(|path| path.as_str().into())).await;
        if let Some(path) = unknown(checked)?.and_then(|index| batch.get(index)) {
            return phantom_at(generation, path).await;
        }
    }
    Ok(None)
}

/// Whether a node that the leader did not know just now is a phantom: it may also have been deleted
/// meanwhile, or created just now.
async fn phantom_at(
    generation: &Arc<Generation>,
    path: &str,
) -> Result<Option<PhantomNode>, RequestError> {
    // Requests of one session are answered in order, so both reads are as new as the check.
    let sent = generation.lease().clock().now();
    let before = generation.coordinator().get(path);
    let checked = generation.check([path.into()]);
    let after = generation.coordinator().get(path);
    let before = shown(before.await)?;
    let unknown = unknown(checked.await)?.is_some();
    let after = generation.read_beside(sent, path, after);
    let same = shown(after.await)?.filter(|after| unknown && before == Some(*after));
    Ok(same.map(|czxid| PhantomNode { path: path.to_owned(), czxid }))
}

/// The index of the node that the leader does not know.
fn unknown(checked: Result<(), RequestError>) -> Result<Option<usize>, RequestError> {
    match checked {
        Err(RequestError::Multi { index, error }) if *error == RequestError::NoNode => {
            Ok(Some(index))
        }
        // The server does not allow the check.
        Ok(()) | Err(RequestError::Multi { .. }) => Ok(None),
        Err(error) if error.is_definite() => Ok(None),
        Err(error) => Err(error),
    }
}
