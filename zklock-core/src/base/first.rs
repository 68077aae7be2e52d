//! Waiting for several futures.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Resolves with the first of them; never, if there are none.
pub async fn first<F: Future>(futures: impl Iterator<Item = F>) -> F::Output {
    let mut futures: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(|cx| {
        let mut ready = futures.iter_mut().map(|future| future.as_mut().poll(cx));
        ready.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Runs all to the end, or to the first error.
pub async fn all<T, E>(
    work: impl Iterator<Item = impl Future<Output = Result<T, E>>>,
) -> Result<Vec<T>, E> {
    let mut running: Vec<_> = work.map(|work| (Box::pin(work), None)).collect();
    poll_fn(|cx| {
        let mut pending = false;
        for (work, done) in running.iter_mut().filter(|(_, done)| done.is_none()) {
            match work.as_mut().poll(cx) {
                Poll::Ready(Ok(output)) => *done = Some(output),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(Ok(())) }
    })
    .await?;
    Ok(running.into_iter().filter_map(|(_, done)| done).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, yield_now};
    use std::future::{pending, ready};

    #[test]
    fn the_first_is_whichever_is_ready() {
        let futures: Vec<Pin<Box<dyn Future<Output = u32>>>> =
            vec![Box::pin(pending()), Box::pin(ready(2)), Box::pin(ready(3))];
        assert_eq!(block_on(first(futures.into_iter())), 2);
    }

    #[test]
    fn all_are_run_in_order_until_one_fails() {
        let work = |fails: bool| async move {
            yield_now().await;
            if fails { Err("failed") } else { Ok(1) }
        };
        assert_eq!(block_on(all([false, false].map(work).into_iter())), Ok(vec![1, 1]));
        assert_eq!(block_on(all([false, true].map(work).into_iter())), Err("failed"));
    }
}
