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
    // The answer to a second request is newer than the check: perhaps another client has made the node since.
    if !generation.was_asked_once(sent) {
        return Ok(None);
    }
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use futures_lite::future::poll_once;

    use super::*;
    use crate::base::clock::Clock;
    use crate::coordinator::connector::Connector;
    use crate::coordinator::memory::{Embedded, Fault, Op};
    use crate::coordinator::node::NodeKind;
    use crate::observe::observer::Events;
    use crate::session::lease_clock::LeaseClock;
    use crate::session::spawner::Spawner;
    use crate::session::timing::Timing;
    use crate::session::watch_budget::WatchBudget;

    const T: Duration = Duration::from_secs(10);

    /// The leader is asked between two holders of a node whose name recurs, and the read before is asked again.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_only_a_second_answer_shows_is_no_phantom() {
        let store = Embedded::new();
        let server = store.connector(T).connect().await.unwrap();
        let faults = store.faults(server.session_id());
        let lease =
            LeaseClock::new(Clock::Caller, Timing::of(T, None).unwrap(), Clock::Caller.now());
        let (events, watches) = (Events::default(), WatchBudget::new(""));
        let generation = Generation::new(1, server, lease, Spawner::Inline, events, watches);
        faults.inject(Fault::forget_reply().on(Op::Get));
        let paths = ["/a".to_owned()];
        let mut looks = pin!(phantom_among(&generation, &paths));
        assert_eq!(poll_once(&mut looks).await, None);
        let other = store.connector(T).connect().await.unwrap();
        other.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
        assert_eq!(looks.await, Ok(None));
    }
}
