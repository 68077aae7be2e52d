//! Waiting for a lock: the deadline, and the error when it passes.

use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::seen::Asked;
use crate::acquire::setback::refused;
use crate::base::clock::Instant;
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::times;
use crate::coordinator::link::Link;
use crate::local::grant::{GrantSource, Hold};
use crate::local::queue::{Engine, Joined, PlaceInQueue, Shared, busy};
use crate::local::waiters::Place;
use crate::observe::observer::Event;
use crate::session::generation::Generation;

/// How an acquire waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until it is granted.
    Forever,
    /// Not for other contenders, and for ZooKeeper's replies at most this long.
    Once(Duration),
    /// At most this long, this number of times.
    Tries(Duration, u32),
    /// The same, begun at this time.
    Begun(Instant, Duration, u32),
}

impl Wait {
    /// Waits at most this long.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for a zero timeout.
    pub fn within(timeout: Duration) -> Result<Wait, LockError> {
        if timeout.is_zero() {
            let why = "the timeout must be longer than zero; to try without waiting, use \
                       `try_acquire`";
            return Err(LockError::new(ErrorKind::InvalidOption, why));
        }
        Ok(Wait::Tries(timeout, 1))
    }

    /// What is left of it at `now`, if it began at `at`.
    pub fn begun(self, at: Instant, now: Instant) -> Wait {
        match self {
            Wait::Tries(timeout, tries) => Wait::Begun(at, timeout, tries),
            Wait::Once(limit) => Wait::Once(limit.saturating_sub(now.since(at))),
            wait => wait,
        }
    }

    /// Whether it waits for replies only.
    pub fn is_once(&self) -> bool {
        matches!(self, Wait::Once(_))
    }
}

/// A way to wait for a lock. Each is a future of its own, because a waiter pays for its memory: a
/// wait without a deadline does not need what happens at one.
pub trait Patience {
    /// The longest time of one try, if there are several, in as little space as it takes.
    type OneTry: Copy + Send + Into<Option<Duration>>;

    /// How long to wait.
    fn to_wait(&self) -> Wait;

    /// The longest time of one try.
    fn one_try(&self) -> Self::OneTry;

    /// Waits for a lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue.
    fn wait<E: Engine>(
        self,
        joined: Joined<E>,
    ) -> impl Future<Output = Result<Hold, LockError>> + Send;
}

/// Until it is granted.
#[derive(Clone, Copy, Debug)]
pub struct Forever;

impl From<Forever> for Option<Duration> {
    fn from(_: Forever) -> Self {
        None
    }
}

impl Patience for Forever {
    type OneTry = Forever;

    fn to_wait(&self) -> Wait {
        Wait::Forever
    }

    fn one_try(&self) -> Forever {
        Forever
    }

    async fn wait<E: Engine>(self, joined: Joined<E>) -> Result<Hold, LockError> {
        match joined {
            Joined::Granted(hold) => Ok(hold),
            Joined::Refused(error) => Err(error),
            // Rare cases are boxed.
            Joined::Busy(queue) => Box::pin(turned_away(queue, times::HOLDER)).await,
            Joined::Waits(place) => place.await,
        }
    }
}

impl Patience for Wait {
    type OneTry = Option<Duration>;

    fn one_try(&self) -> Option<Duration> {
        match self {
            Wait::Tries(timeout, _) | Wait::Begun(_, timeout, _) => Some(*timeout),
            Wait::Forever | Wait::Once(_) => None,
        }
    }

    fn to_wait(&self) -> Wait {
        *self
    }

    async fn wait<E: Engine>(self, joined: Joined<E>) -> Result<Hold, LockError> {
        match joined {
            Joined::Waits(place) => match self {
                Wait::Forever => place.await,
                Wait::Once(limit) => Box::pin(once(place, limit)).await,
                Wait::Tries(timeout, tries) => {
                    let start = place.queue().session().clock().now();
                    within(place, start, timeout, tries).await
                }
                Wait::Begun(start, timeout, tries) => within(place, start, timeout, tries).await,
            },
            Joined::Busy(queue) => {
                let limit = match self {
                    Wait::Forever => times::HOLDER,
                    Wait::Once(limit) | Wait::Tries(limit, _) | Wait::Begun(_, limit, _) => limit,
                };
                Box::pin(turned_away(queue, limit.max(times::HOLDER))).await
            }
            at_once => Forever.wait(at_once).await,
        }
    }
}

/// Somebody was in the way. It is reported if it is still known: meanwhile it may have left, and
/// then there is nobody to wait for. ZooKeeper has as much time to say so as for one try.
async fn turned_away<E: Engine>(queue: Shared<E>, limit: Duration) -> Result<Hold, LockError> {
    let clock = queue.session().clock();
    let limit = Deadline::after(clock.clone(), limit);
    let asked = async {
        let mut pause = times::CONTENDER;
        loop {
            // Perhaps it is held here by now.
            if let Some(holder) = queue.holder_here(None) {
                return Asked::Busy(busy(Some(holder)));
            }
            match E::ask(&queue, limit.instant()).await {
                Asked::Unknown => clock.sleep(pause).await,
                asked => return asked,
            }
            pause *= 2;
        }
    };
    let told = match limit.bound(asked).await {
        Ok(Asked::Busy(busy)) => busy,
        // Whoever was ahead of it in this process has its answer by now.
        Ok(Asked::Nobody) => busy(None),
        Ok(Asked::Failed(error)) => refused(error).unwrap_or_else(|| unreachable(&*queue)),
        // What was seen before a silence may not be so any more.
        Ok(Asked::Unknown) | Err(_) => unreachable(&*queue),
    };
    Err(told.on(queue.lock_name().clone()))
}

async fn once<E: Engine>(mut place: PlaceInQueue<E>, limit: Duration) -> Result<Hold, LockError> {
    let queue = place.queue().clone();
    match Deadline::after(queue.session().clock().clone(), limit).bound(&mut place).await {
        Ok(result) => result,
        Err(_) => {
            place.give_up();
            Err(unreachable(&*queue))
        }
    }
}

/// Makes this number of tries; the place in the queue is kept from one to the next. Shortly before
/// the end of the last one it asks who holds the lock; if there are observers, before the end of
/// each, which it tells them. Some tries may be over already.
async fn within<E: Engine>(
    mut place: PlaceInQueue<E>,
    start: Instant,
    timeout: Duration,
    tries: u32,
) -> Result<Hold, LockError> {
    let clock = place.queue().session().clock();
    let tries = tries.max(1);
    let number = present_try(clock.now().since(start), timeout).min(tries);
    let end = start + timeout.saturating_mul(number);
    let first = Deadline::at(clock.clone(), end - ask_ahead(timeout));
    match first.bound(&mut place).await {
        Ok(result) => result,
        Err(_) => Box::pin(insist(&mut place, start, timeout, number..=tries)).await,
    }
}

/// The number of the try that is under way, from 1.
fn present_try(waited: Duration, timeout: Duration) -> u32 {
    let over = waited.as_nanos() / timeout.as_nanos().max(1);
    u32::try_from(over).unwrap_or(u32::MAX).saturating_add(1)
}

/// How long before the end of a try the question about the holder is sent.
fn ask_ahead(timeout: Duration) -> Duration {
    (timeout / 4).min(times::ASK_HOLDER)
}

/// The rest of [`within`], from shortly before the end of the first of these tries.
async fn insist<E: Engine>(
    place: &mut PlaceInQueue<E>,
    start: Instant,
    timeout: Duration,
    tries: RangeInclusive<u32>,
) -> Result<Hold, LockError> {
    let ahead = ask_ahead(timeout);
    let queue = &place.queue().clone();
    let clock = queue.session().clock();
    let is_heard = queue.session().events().are_heard();
    let mut number = if is_heard { *tries.start() } else { *tries.end() };
    let answer = loop {
        let end = start + timeout.saturating_mul(number);
        let is_last = number == *tries.end();
        if let Ok(result) = Deadline::at(clock.clone(), end - ahead).bound(&mut *place).await {
            return result;
        }
        let mut answer = None;
        let last = if is_last { last_word(ahead) } else { Duration::ZERO };
        // A process that was stopped comes late to this point, and asks no longer.
        let left = (end + last).since(clock.now());
        let left = if is_last { left.max(times::HOLDER) } else { left };
        // It may have got another place since the last try.
        let here = place.place();
        let mut asking = pin!(ask(queue, here, left));
        let both = async {
            let got = futures_lite::future::or(async { Some((&mut *place).await) }, async {
                answer = Some((&mut asking).await);
                None
            });
            match got.await {
                Some(result) => result,
                None => (&mut *place).await,
            }
        };
        if let Ok(result) = Deadline::at(clock.clone(), end).bound(both).await {
            return result;
        }
        if is_last && answer.is_none() {
            // Perhaps the lock comes, and nobody was in the way.
            let (granted, told) =
                (async { Err((&mut *place).await) }, async { Ok((&mut asking).await) });
            match futures_lite::future::or(granted, told).await {
                Err(result) => return result,
                Ok(told) => answer = Some(told),
            }
        }
        queue.session().events().tell(|| Event::TryEnded {
            lock: queue.lock_name().clone(),
            pattern: queue.pattern().text(),
            mode: place.mode().unwrap_or(Mode::Mutex),
            number,
            holder: answer.as_ref().and_then(|told| told.as_ref()?.holder().cloned()),
        });
        if is_last {
            break answer.flatten();
        }
        // Those that are over meanwhile are left out, and those that are shorter than a timer.
        let soon = clock.now().since(start) + times::SHORTEST_TRY;
        number = present_try(soon, timeout).clamp(number + 1, *tries.end());
    };
    place.give_up();
    Err(match answer {
        Some(busy) => busy.on(queue.lock_name().clone()),
        None => unreachable(&**queue),
    })
}

/// How much longer than the deadline to wait, if the question was sent `ahead` of it.
fn last_word(ahead: Duration) -> Duration {
    times::HOLDER.saturating_sub(ahead).max(times::LATE_HOLDER)
}

/// Asks who holds the lock, for at most `limit`: a holder in this process is known, another one
/// takes one read. Returns the error of a busy lock, or of one that may not be read; `None` if
/// ZooKeeper is silent.
async fn ask<E: Engine>(
    queue: &Shared<E>,
    place: Option<Place>,
    limit: Duration,
) -> Option<LockError> {
    let clock = queue.session().clock();
    let deadline = Deadline::after(clock.clone(), limit);
    loop {
        if let Some(holder) = queue.holder_here(place) {
            return Some(busy(Some(holder)));
        }
        let (now, until) = (clock.now(), deadline.instant());
        // One answer may be lost alone. The first question is kept beside the second: a slow answer is one.
        let again = async {
            clock.sleep_until(now + until.since(now) / 2).await;
            E::ask(queue, until).await
        };
        match deadline.bound(futures_lite::future::or(E::ask(queue, until), again)).await {
            Ok(Asked::Busy(busy)) => return Some(busy),
            Ok(Asked::Failed(error)) => {
                if let Some(refused) = refused(error) {
                    return Some(refused);
                }
            }
            Ok(Asked::Nobody | Asked::Unknown) | Err(_) => {}
        }
        // Nobody to ask about yet, or who was in the way has left, or the lock passes from one holder of this
        // process to the next, or the connection broke: until ZooKeeper replies, it is not reported as busy.
        if deadline.has_passed() {
            return None;
        }
        clock.sleep_until((clock.now() + times::CONTENDER).min(deadline.instant())).await;
    }
}

/// Nothing is known of the lock; says why, if that is known.
fn unreachable(queue: &impl GrantSource) -> LockError {
    let generations = queue.session().generations();
    let is_connected = |generation: &Arc<Generation>| generation.coordinator().link() == Link::Up;
    let late = || generations.iter().find_map(|generation| generation.late_answers());
    let (detail, trouble) = match queue.session().lane().trouble() {
        None if generations.iter().any(is_connected) => {
            ("ZooKeeper did not answer in time", late())
        }
        trouble => ("ZooKeeper could not be reached in time", trouble),
    };
    let error = LockError::new(ErrorKind::Unavailable, detail);
    trouble.into_iter().fold(error, LockError::because).on(queue.lock_name().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_can_be_asked_for_long_enough_however_short_the_timeout() {
        for timeout in [1, 10, 100, 500, 10_000].map(Duration::from_millis) {
            let ahead = ask_ahead(timeout);
            assert!(ahead + last_word(ahead) >= times::HOLDER, "{timeout:?}");
            assert!(last_word(ahead) <= times::HOLDER, "{timeout:?}");
        }
        assert_eq!(last_word(Duration::from_millis(125)), times::LATE_HOLDER);
    }
}
