//! Replies that may be lost: how long they are waited for.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::base::deadline::Deadline;
use crate::base::times;
use crate::coordinator::link::Link;
use crate::coordinator::request_error::RequestError;
use crate::session::generation::Generation;

/// Waits for a reply for the given time. After that the reply counts as lost, and a read finds out
/// what happened: requests of one connection are processed in order.
pub async fn or_forgotten<T>(
    generation: &Arc<Generation>,
    patience: Duration,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let answer = in_time(generation, patience, answer).await;
    answer.unwrap_or(Err(RequestError::ConnectionLoss))
}

/// How long to wait for the next reply.
pub fn more(generation: &Arc<Generation>, patience: Duration) -> Duration {
    (patience * 2).min(generation.lease().timeout())
}

/// Waits for a reply for the given time; while there is no connection, for a session timeout.
pub(super) async fn in_time<F: Future>(
    generation: &Arc<Generation>,
    limit: Duration,
    answer: F,
) -> Option<F::Output> {
    let mut answer = pin!(answer);
    let clock = generation.lease().clock();
    let mut next = clock.now();
    let last = next + generation.lease().timeout();
    loop {
        next = last.min(next + limit);
        match Deadline::at(clock.clone(), next).bound(answer.as_mut()).await {
            Ok(answer) => return Some(answer),
            Err(_) if next < last && generation.coordinator().link() == Link::Down => {}
            Err(_) => return None,
        }
    }
}

/// Waits a little, or until something about the session changed.
pub async fn back_off(generation: &Arc<Generation>, pause: &mut Duration) {
    generation.pause(*pause).await;
    *pause = (*pause * 2).min(times::DELETE.1);
}
