//! The keeper of a generation: heartbeats, the end of leases, the state of the session.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use crate::clock::Instant;
use crate::coordinator::{Link, RequestError, WatchEvent};
use crate::owner::REVOKE;
use crate::policy::StopAt;
use crate::session::generation::{Generation, HeldNode};
use crate::session::lease_clock::Condition;
use crate::session::shelf::Shelf;
use crate::session::standing::OfLane;
use crate::session_state::SessionState;

/// How many nodes one heartbeat checks at most: a server takes tens of milliseconds for a thousand
/// checks in one request, and everybody waits for it. It is also far below the 1 MiB that a
/// request may have.
const BATCH: usize = 200;

/// How many nodes that are held are watched at most, or what is behind them: with ten thousand
/// watches the client loses its session at the next reconnect, whose frame of watches is limited to
/// 128 KiB.
pub const MOST_WATCHES: usize = 500;

type Beat = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whom the keeper tells.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// The state of the session.
    pub standing: Arc<OfLane>,
    /// The locks in use, which hear of lost leases.
    pub shelf: Arc<Shelf>,
}

/// Keeps a generation until its ZooKeeper session is over, or nothing is held after it was
/// retired; then closes it.
pub async fn keep(generation: Arc<Generation>, keeping: Keeping) {
    let (mut losses, mut doubts) = (0, 0);
    let mut beat: Option<Beat> = None;
    let mut next_beat = Instant::ORIGIN;
    let mut seen = generation.coordinator().link();
    loop {
        let changed = generation.changed();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();

        if std::mem::replace(&mut losses, generation.losses()) != losses {
            keeping.shelf.leases_lost();
        }
        let link = generation.coordinator().link();
        if link.is_over() || generation.is_over() {
            generation.end();
            break;
        }
        if link == Link::Up && seen == Link::Down {
            next_beat = Instant::ORIGIN;
            generation.reconnected();
        }
        seen = link;

        let (now, gap) = (generation.lease().clock().now(), generation.lease().heartbeat());
        let holds = !generation.holds_nothing();
        if generation.is_retired() && !holds {
            break;
        }
        let until = generation.valid_until(StopAt::Lost);
        if holds && now >= until {
            tracing::warn!("no commit was answered in time: what is held is lost");
            generation.lose_leases();
            continue;
        }
        let self_aware = generation.is_self_aware();
        let overdue = holds && !self_aware && generation.lease().condition(now) != Condition::Held;
        let suspect = link == Link::Down || overdue;
        if suspect {
            generation.doubt();
        } else if generation.lease().doubts() != doubts {
            generation.lose_doubted();
        }
        doubts = generation.lease().doubts();
        let due = next_beat.max(generation.lease().last_commit() + gap);
        let beats = holds && beat.is_none() && link == Link::Up && !self_aware;
        if beats && now >= due {
            next_beat = now + gap;
            beat = Some(Box::pin(heartbeat(generation.clone())));
        }
        // A retired generation is not the one that serves new acquires.
        if !generation.was_retired() {
            let connected = SessionState::Connected;
            keeping.standing.publish(if suspect { SessionState::Suspended } else { connected });
        }

        // Nobody wakes the keeper when something is taken: a grant has more than one gap to live.
        let wake_at = if self_aware && (!holds || link == Link::Up) {
            Instant::FAR
        } else if !holds {
            now + gap
        } else {
            let until = if suspect { until } else { generation.valid_until(StopAt::Suspect) };
            if beats && beat.is_none() { until.min(due) } else { until }
        };
        let mut timer = generation.lease().clock().sleep_until(wake_at);
        let mut link_changed = generation.coordinator().link_changed(link);
        poll_fn(|cx| {
            if beat.as_mut().is_some_and(|beat| beat.as_mut().poll(cx).is_ready()) {
                beat = None;
                return Poll::Ready(());
            }
            let woken = changed.as_mut().poll(cx).is_ready()
                || link_changed.as_mut().poll(cx).is_ready()
                || Pin::new(&mut timer).poll(cx).is_ready();
            if woken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    generation.end();
    keeping.shelf.leases_lost();
    if !generation.was_retired() {
        keeping.standing.publish(SessionState::Connecting);
    }
    generation.coordinator().close().await;
}

/// Commits that the held nodes exist, and finds those that do not.
async fn heartbeat(generation: Arc<Generation>) {
    let nodes = generation.held();
    for batch in nodes.chunks(BATCH) {
        if !check(&generation, batch).await {
            return;
        }
    }
    // What is held for longer than a heartbeat is watched, to learn at once if it is deleted.
    for node in nodes.iter().take(MOST_WATCHES) {
        watch_own(&generation, node);
    }
}

/// Checks a batch; takes out what is gone and checks the others again. Answers false when the
/// server did not answer.
async fn check(generation: &Arc<Generation>, batch: &[Arc<HeldNode>]) -> bool {
    let mut batch = batch.to_vec();
    while !batch.is_empty() {
        match generation.check(batch.iter().map(|node| node.path.clone())).await {
            Ok(()) => return true,
            Err(RequestError::Multi { index, error }) if *error == RequestError::NoNode => {
                if index >= batch.len() {
                    return false;
                }
                generation.lost_node(&batch.swap_remove(index));
            }
            Err(error) => {
                tracing::debug!(%error, "a heartbeat was not answered");
                return false;
            }
        }
    }
    true
}

/// Watches a held node, once, to learn of its deletion and of the wish that it be let go.
pub fn watch_own(generation: &Arc<Generation>, node: &Arc<HeldNode>) {
    let Some(watching) = generation.begin_watching(node, MOST_WATCHES) else { return };
    let (generation, node) = (generation.clone(), node.clone());
    let mut reply = generation.coordinator().get_watched(&node.path);
    generation.clone().spawner().spawn(async move {
        let _watching = watching;
        loop {
            match reply.await {
                // Another node has its path.
                Ok((_, stat, _)) if stat.czxid != node.czxid => return generation.lost_node(&node),
                Ok((data, _, watch)) => {
                    if data == REVOKE {
                        generation.revoked_node(&node);
                    }
                    match watch.await {
                        WatchEvent::Deleted => return generation.lost_node(&node),
                        WatchEvent::Changed => {}
                        WatchEvent::SessionEnded => return,
                    }
                }
                Err(RequestError::NoNode) => return generation.lost_node(&node),
                // The next heartbeat watches it again.
                Err(_) => return node.forget_watch(),
            }
            reply = generation.coordinator().get_watched(&node.path);
        }
    });
}
