//! Replies that may be lost: how long they are waited for.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::or;

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

/// Waits for the reply to a write for as long as it may come: after a while a read is sent, whose reply would come
/// behind it.
pub async fn or_read_behind<T>(
    generation: &Arc<Generation>,
    path: &str,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let mut answer = pin!(answer);
    if let Some(answer) = in_time(generation, generation.patience(), answer.as_mut()).await {
        return answer;
    }
    let reading = generation.coordinator().get(path);
    let read_behind = async {
        drop(in_time(generation, generation.lease().timeout(), reading).await);
        Err(RequestError::ConnectionLoss)
    };
    or(answer, read_behind).await
}

/// How long to wait for the next reply.
pub fn more(generation: &Arc<Generation>, patience: Duration) -> Duration {
    (patience * 2).min(generation.lease().timeout())
}

/// Waits for a reply for the given time; while there is no connection, for a session timeout.
pub async fn in_time<F: Future>(
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
