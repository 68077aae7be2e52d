//! The keeper of a generation: when a heartbeat is due, the end of leases, the state of the session.

#[cfg(test)]
mod tests;

use std::future::{Future as _, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_lite::FutureExt as _;

use crate::base::clock::Instant;
use crate::base::policy::StopAt;
use crate::base::session_state::SessionState;
use crate::base::unharmed::unharmed;
use crate::coordinator::link::Link;
use crate::session::generation::{Generation, Pending};
use crate::session::health::LaneReport;
use crate::session::heartbeat::heartbeat;
use crate::session::lease_clock::Condition;
use crate::session::local_queues::LocalQueues;

/// What the keeper reports to.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// The state of the session.
    pub health: Arc<LaneReport>,
    /// The locks in use, which are told about lost leases.
    pub local_queues: Arc<LocalQueues>,
}

/// Keeps a generation until its ZooKeeper session is over, or until nothing is held nor to be deleted
/// after it was retired, and nobody keeps what was lost; then closes it. What cannot be deleted for long is deleted
/// with the session.
pub async fn keep(generation: Arc<Generation>, keeping: Keeping) {
    // The log that it writes is the application's, and may panic. Otherwise nobody would tell that the leases
    // are lost, and the lane would wait for ever for the end of this generation.
    let kept = AssertUnwindSafe(until_over(&generation, &keeping)).catch_unwind();
    drop(kept.await);
    unharmed(|| generation.end());
    unharmed(|| keeping.local_queues.leases_lost());
    if !generation.was_retired() {
        keeping.health.publish(generation.number(), SessionState::Connecting);
    }
    generation.close().await;
}

async fn until_over(generation: &Arc<Generation>, keeping: &Keeping) {
    let (mut losses, mut was_suspect) = (0, false);
    // Those that are not answered yet, and when each was sent.
    let mut pending: Vec<(Instant, Pending)> = Vec::new();
    let (mut next_beat, mut check_at) = (Instant::ORIGIN, Instant::ORIGIN);
    let (mut seen, mut unheld) = (generation.coordinator().link(), None);
    let clock = generation.lease().clock();
    // Whether a message is sent at once, so that commits soon prove as much as usual.
    let mut at_once = true;
    loop {
        let changed = generation.changed();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();

        if std::mem::replace(&mut losses, generation.losses()) != losses {
            keeping.local_queues.leases_lost();
        }
        let now = clock.now();
        let link = generation.coordinator().link();
        if link.is_over() || generation.is_over() {
            generation.end();
            break;
        }
        if link == Link::Up && seen == Link::Down {
            next_beat = Instant::ORIGIN;
            at_once = true;
            generation.reconnected();
        } else if link == Link::Down && seen == Link::Up {
            generation.disconnected();
        }
        seen = link;

        let (holds, gap) = (generation.keeper_holds(), generation.lease().heartbeat());
        // By when a node is gone depends on what is recorded here of the connection.
        let keeps = holds || generation.keeps_lost();
        unheld = (generation.is_retired() && !keeps).then(|| unheld.unwrap_or(now));
        if unheld.is_some_and(|since| generation.is_clean() || now >= generation.gone_by(since)) {
            break;
        }
        let until = generation.valid_until(StopAt::Lost);
        if holds && now >= until {
            generation.lose_leases();
            continue;
        }
        let self_aware = generation.is_self_aware();
        // After the time of a lease, an answer proves nothing any more.
        let lease = generation.lease().timing().lease;
        pending.retain(|(sent, _)| now < *sent + lease);
        let speaks = link == Link::Up && std::mem::take(&mut at_once);
        let (next_message, answer) = generation.awake(now, link, speaks).await;
        pending.extend(answer.map(|answer| (now, answer)));
        let overdue = holds && !self_aware && generation.lease().condition(now) != Condition::Held;
        let suspect = link == Link::Down || overdue;
        if suspect {
            if !std::mem::replace(&mut was_suspect, true) {
                generation.tell_suspect();
            }
            generation.doubt();
        } else {
            generation.lose_what_ended();
        }
        was_suspect = suspect;
        if now >= check_at {
            // Other commits prove nothing about a held node. What is acquired from now on is
            // checked later.
            check_at = generation.unseen_since().unwrap_or(now) + gap;
        }
        // Until then, a heartbeat proves less.
        next_beat = generation.settles_at(now).map_or(next_beat, |at| at.min(next_beat));
        let due = next_beat.max(check_at.min(generation.lease().last_commit() + gap));
        let beats = holds && link == Link::Up && !self_aware;
        if beats && now >= due {
            // Those before it may be lost, or still be answered, however many there are: another one is
            // sent beside them.
            next_beat = now + gap;
            let local_queues = keeping.local_queues.clone();
            pending.push((now, Box::pin(heartbeat(generation.clone(), local_queues))));
        }
        // New acquires do not use a retired generation.
        if !generation.was_retired() {
            let state = if suspect { SessionState::Suspended } else { SessionState::Connected };
            keeping.health.publish(generation.number(), state);
        }

        // Nothing wakes the keeper when a lock is acquired: a grant is valid for more than one
        // interval.
        let wake_at = if self_aware && unheld.is_none() && (!holds || link == Link::Up) {
            Instant::FAR
        } else if !holds {
            next_message.min(now + gap)
        } else {
            let until = if suspect { until } else { generation.valid_until(StopAt::Suspect) };
            let until = until.min(next_message);
            if beats { until.min(due) } else { until }
        };
        let mut timer = clock.sleep_until(wake_at);
        let mut link_changed = generation.coordinator().link_changed(link);
        let mut due = std::pin::pin!(generation.keeper_is_due());
        poll_fn(|cx| {
            let mut requests = pending.iter_mut();
            if let Some(answered) = requests.position(|(_, one)| one.as_mut().poll(cx).is_ready()) {
                drop(pending.remove(answered));
                return Poll::Ready(());
            }
            let woken = changed.as_mut().poll(cx).is_ready()
                || due.as_mut().poll(cx).is_ready()
                || link_changed.as_mut().poll(cx).is_ready()
                || Pin::new(&mut timer).poll(cx).is_ready();
            if woken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    // Heartbeats that are not answered end here: a pending reply would keep the ZooKeeper session open.
}
