//! How a lane opens its ZooKeeper sessions, and which it refuses.

use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_lite::FutureExt as _;
use futures_lite::future::or;
use tokio::sync::watch;

use super::{Lane, Status};
use crate::base::clock::Clock;
use crate::base::deadline::Deadline;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::session_state::SessionState;
use crate::base::times;
use crate::base::unharmed::{unharmed, unharming};
use crate::coordinator::limits::check_session_timeout;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::divergence::phantom::{PhantomNode, shown_of};
use crate::session::generation::Generation;
use crate::session::keeper::keep;
use crate::session::lease_clock::LeaseClock;
use crate::session::timing::Timing;
use crate::session::watch_budget::WatchBudget;

/// Opens one session after the other, until the lane is closed.
pub(super) async fn run(lane: Arc<Lane>) {
    let mut rounds = Rounds { pause: times::RECONNECT.0, number: 0 };
    while !lane.is_closed() {
        // The log that a round writes is the application's, and may panic: the next one comes all the same.
        match AssertUnwindSafe(rounds.round(&lane)).catch_unwind().await {
            Ok(ControlFlow::Continue(true)) => {}
            Ok(ControlFlow::Continue(false)) => rounds.rest(&lane).await,
            Ok(ControlFlow::Break(())) => break,
            Err(_) => {
                rounds.leave(&lane);
                rounds.rest(&lane).await;
            }
        }
    }
    lane.over.send_replace(true);
}

/// The rounds of a lane, each of which opens a session, and what one leaves to the next.
struct Rounds {
    /// The pause after a round in vain.
    pause: Duration,
    /// The number of the last generation.
    number: u64,
}

impl Rounds {
    /// Opens a session, and waits until new acquires need another one. Returns whether it was opened, and
    /// breaks if the lane is closed.
    async fn round(&mut self, lane: &Arc<Lane>) -> ControlFlow<(), bool> {
        let opened = lane.clock().now();
        let mut phantoms = lane.config.phantoms.subscribe();
        let Some(session) = open(lane).await else { return ControlFlow::Break(()) };
        let known = phantoms.borrow_and_update().clone();
        let session = without(&known, session, lane.clock()).await;
        let (coordinator, timing) = match timed(session, lane.config.tick).await {
            Ok(session) => session,
            Err(error) => {
                lane.set(explain(error.clone(), &lane.keeping.local_queues.place().chroot));
                tracing::warn!(%error, "no ZooKeeper session could be opened; trying again");
                return ControlFlow::Continue(false);
            }
        };
        self.pause = times::RECONNECT.0;
        self.number += 1;
        let lease = LeaseClock::new(lane.clock().clone(), timing, opened);
        let (spawner, events) = (lane.spawner().clone(), lane.config.events.clone());
        let chroot = &lane.keeping.local_queues.place().chroot;
        let watches = match coordinator.keeps_watches() {
            true => WatchBudget::new(chroot),
            false => WatchBudget::none(chroot),
        };
        let generation = Generation::new(self.number, coordinator, lease, spawner, events, watches);
        generation.tell_where_stuck(lane.config.stuck.clone());
        lane.note(&generation);
        if self.number == 1 && lane.keeping.health.is_of_first() {
            warn_of_tick(lane.config.tick, timing, &generation);
        }
        // So that those who wait for the generation find the state published.
        lane.keeping.health.publish(self.number, SessionState::Connected);
        let (kept, keeping) = (generation.clone(), lane.keeping.clone());
        let opened = keeping.local_queues.opened(generation.coordinator().session_id());
        lane.spawner().spawn(async move {
            keep(kept, keeping).await;
            drop(opened);
        });
        if !lane.set(Status::Ready(generation.clone())) {
            generation.end();
            generation.close().await;
            return ControlFlow::Break(());
        }
        let retired = generation.until(|| generation.is_retired());
        or(retired, leave_where_shown(&generation, phantoms)).await;
        if let Some(phantom) = generation.phantom() {
            lane.config.phantoms.add(phantom);
        }
        self.call_for_another(lane);
        ControlFlow::Continue(true)
    }

    /// Tells that new acquires wait for the next generation. The keeper of one that is retired says nothing
    /// any more, and what it said just before does not count either.
    fn call_for_another(&self, lane: &Lane) {
        lane.keeping.health.publish(self.number + 1, SessionState::Connecting);
        lane.without.store(lane.clock().now().as_nanos(), Ordering::Release);
        lane.set(Status::Connecting(None));
    }

    /// Takes a session out of use that the round has lost sight of. Its keeper closes it.
    fn leave(&self, lane: &Lane) {
        if let Some(generation) = lane.current() {
            generation.take_out_of_use();
            self.call_for_another(lane);
        }
    }

    /// Waits before the next round.
    async fn rest(&mut self, lane: &Lane) {
        or(lane.clock().sleep(self.pause), lane.until_closed()).await;
        self.pause = (self.pause * 2).min(times::RECONNECT.1);
    }
}

/// Opens a session; `None` if the lane was closed and no server can have opened one.
async fn open(lane: &Lane) -> Option<Result<Arc<dyn Coordinator>, RequestError>> {
    // A connector can be a user's.
    let connector = lane.config.connector.clone();
    let opening = AssertUnwindSafe(async move { connector.connect().await }).catch_unwind();
    let (mut opening, mut closed) = (pin!(opening), pin!(lane.until_closed()));
    poll_fn(|cx| {
        if let Poll::Ready(session) = opening.as_mut().poll(cx) {
            let panicked = |_| Err(RequestError::Unreachable("the connector panicked".to_owned()));
            return Poll::Ready(Some(session.unwrap_or_else(panicked)));
        }
        if !lane.is_closed() && closed.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        if lane.config.connector.is_opening() { Poll::Pending } else { Poll::Ready(None) }
    })
    .await
}

/// Takes a session out of use whose server shows a phantom node: one that another lane has found, or of a server to
/// which the client has moved since.
async fn leave_where_shown(
    generation: &Generation,
    mut phantoms: watch::Receiver<Vec<PhantomNode>>,
) {
    let mut reconnects = 0;
    loop {
        let found = async {
            // The lane keeps the other end.
            let _ = unharming(pin!(phantoms.changed())).await;
        };
        or(found, generation.until(|| generation.reconnects() != reconnects)).await;
        reconnects = generation.reconnects();
        let known = phantoms.borrow_and_update().clone();
        if shown_of(&known, &**generation.coordinator()).await.is_some() {
            return generation.take_out_of_use();
        }
    }
}

/// Refuses a session on a server that shows a phantom node.
async fn without(
    phantoms: &[PhantomNode],
    session: Result<Arc<dyn Coordinator>, RequestError>,
    clock: &Clock,
) -> Result<Arc<dyn Coordinator>, RequestError> {
    let Ok(coordinator) = &session else { return session };
    let limit = Deadline::after(clock.clone(), coordinator.session_timeout());
    // A server that does not answer now is checked later.
    let shown = limit.bound(shown_of(phantoms, &**coordinator)).await.ok().flatten();
    let Some(phantom) = shown else { return session };
    coordinator.close().await;
    Err(RequestError::Unreachable(format!(
        "the server shows {}, which its leader does not know: its data differ from those of the \
         other servers; `zklock doctor` tells whether it can be repaired, and docs/lost.md how",
        phantom.path
    )))
}

/// Refuses a session in which no lease would be safe.
async fn timed(
    session: Result<Arc<dyn Coordinator>, RequestError>,
    tick: Option<Duration>,
) -> Result<(Arc<dyn Coordinator>, Timing), RequestError> {
    let coordinator = session?;
    let timeout = coordinator.session_timeout();
    match check_session_timeout(timeout).and_then(|()| Timing::of(timeout, tick)) {
        Ok(timing) => Ok((coordinator, timing)),
        Err(why) => {
            coordinator.close().await;
            Err(RequestError::BadArguments(why))
        }
    }
}

/// Says where a lease may be too long: an unknown tick counts as half the session timeout, and the usual one is more
/// than that. The embedded coordinator has none.
fn warn_of_tick(tick: Option<Duration>, timing: Timing, generation: &Generation) {
    let Timing { session_timeout, lease, margin, .. } = timing;
    if tick.is_none() && session_timeout < times::TWO_TICKS && !generation.is_self_aware() {
        unharmed(|| {
            tracing::warn!(
                ?session_timeout,
                ?lease,
                ?margin,
                "the session timeout is less than two ticks of 2 s, and no `tick_time` is given: if \
                 the servers have such ticks, guards may be valid for too long"
            );
        });
    }
}

fn explain(error: RequestError, chroot: &str) -> Status {
    let refused =
        |kind, detail: &str| Status::Refused(LockError::new(kind, detail).because(error.clone()));
    match &error {
        RequestError::AuthFailed => {
            refused(ErrorKind::Unauthorized, "ZooKeeper refused the credentials")
        }
        RequestError::NoAuth | RequestError::InvalidAcl => {
            refused(ErrorKind::Unauthorized, "the ACL of the chroot denies access to this session")
        }
        RequestError::NoNode => {
            // Only a connector of the user's own answers this where no chroot is named.
            let chroot = if chroot.is_empty() { "/" } else { chroot };
            let why = "the chroot of the connect string does not exist: create it first";
            Status::Refused(LockError::new(ErrorKind::NoChroot, why).aside(chroot))
        }
        RequestError::BadArguments(why) => refused(ErrorKind::InvalidOption, why),
        _ => Status::Connecting(Some(
            LockError::new(ErrorKind::Unavailable, error.in_short()).because(error),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_missing_chroot_is_for_those_who_run_the_service() {
        for (chroot, path) in [("/prod", "/prod"), ("", "/")] {
            let Status::Refused(error) = explain(RequestError::NoNode, chroot) else {
                panic!("it is not refused");
            };
            let says = "the chroot of the connect string does not exist: create it first";
            assert_eq!(error.to_string(), says);
            assert_eq!(format!("{error:#}"), format!("{says}: {path}"));
        }
    }
}
