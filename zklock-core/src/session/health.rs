//! The state of a session: the worst of the states of its lanes.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::base::session_state::SessionState;
use crate::base::unharmed::unharmed;

/// Combines the states of a session's lanes.
#[derive(Clone, Debug)]
pub struct SessionHealth {
    session: Arc<watch::Sender<SessionState>>,
    lanes: Arc<Mutex<Lanes>>,
}

/// The last state of each lane that still exists.
#[derive(Debug, Default)]
struct Lanes {
    /// The number of lanes that were ever opened.
    opened: u64,
    /// By the lane's number, with that of the generation that it is about. `None` before its first report.
    said: Vec<(u64, Option<(u64, SessionState)>)>,
}

/// The report of one lane.
#[derive(Debug)]
pub struct LaneReport {
    health: SessionHealth,
    lane: u64,
}

impl SessionHealth {
    /// No lane has reported yet.
    pub fn connecting() -> Self {
        let session = Arc::new(watch::Sender::new(SessionState::Connecting));
        SessionHealth { session, lanes: Arc::default() }
    }

    /// The state of the session.
    pub fn state(&self) -> &watch::Sender<SessionState> {
        &self.session
    }

    /// A report for one more lane, which counts from its first state on.
    pub fn of_another(&self) -> Arc<LaneReport> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.opened += 1;
        let lane = lanes.opened;
        lanes.said.push((lane, None));
        Arc::new(LaneReport { health: self.clone(), lane })
    }
}

impl LaneReport {
    /// Publishes the state of a generation as the state of the lane, unless it has told of a later
    /// one. A session that is draining or closed stays so.
    pub fn publish(&self, generation: u64, now: SessionState) {
        self.say(Some((generation, now)));
    }

    /// Whether the lane is the first of its session.
    pub fn is_of_first(&self) -> bool {
        self.lane == 1
    }

    /// Whether the lane said last that it is connected.
    pub fn is_connected(&self) -> bool {
        self.is_any_connected(|lane| lane == self.lane)
    }

    /// Whether another lane said so.
    pub fn is_another_connected(&self) -> bool {
        self.is_any_connected(|lane| lane != self.lane)
    }

    fn is_any_connected(&self, of: impl Fn(u64) -> bool) -> bool {
        let lanes = self.health.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let connected = lanes
            .said
            .iter()
            .filter(|(_, said)| matches!(said, Some((_, SessionState::Connected))));
        connected.into_iter().any(|(lane, _)| of(*lane))
    }

    /// Removes the lane: what it publishes after this does not count.
    pub fn leave(&self) {
        self.say(None);
    }

    fn say(&self, word: Option<(u64, SessionState)>) {
        // The state is computed under one lock, so that the last one published includes all lanes;
        // receivers are notified after the lock is released, by wakers that may panic.
        let combined = |state: &mut SessionState| {
            let lanes = &self.health.lanes;
            let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = lanes.said.iter_mut().find(|(lane, _)| *lane == self.lane);
            match (mine, word) {
                // The keeper of a generation that is over may be late.
                (Some((_, Some((told, _)))), Some((now, _))) if *told > now => {}
                (Some((_, mine)), Some(_)) => *mine = word,
                (_, None) => lanes.said.retain(|(lane, _)| *lane != self.lane),
                (None, Some(_)) => {}
            }
            let states = lanes.said.iter().filter_map(|(_, said)| said.map(|(_, state)| state));
            let worst = states.min_by_key(rank).unwrap_or(*state);
            rank(state).is_some() && std::mem::replace(state, worst) != worst
        };
        unharmed(|| {
            self.health.session.send_if_modified(combined);
        });
    }
}

/// Ranks the states that lanes can have; a lower rank is worse.
fn rank(state: &SessionState) -> Option<u8> {
    match state {
        SessionState::Connecting => Some(0),
        SessionState::Suspended => Some(1),
        SessionState::Connected => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SessionState::{Closed, Connected, Connecting, Draining, Suspended};

    fn health() -> (watch::Receiver<SessionState>, SessionHealth) {
        let health = SessionHealth::connecting();
        (health.state().subscribe(), health)
    }

    #[test]
    fn the_worst_lane_tells() {
        let (state, health) = health();
        let (first, second) = (health.of_another(), health.of_another());
        first.publish(1, Connected);
        assert_eq!(*state.borrow(), Connected, "the second has not said anything yet");
        second.publish(1, Connected);
        second.publish(1, Suspended);
        assert_eq!(*state.borrow(), Suspended);
        first.publish(1, Connecting);
        assert_eq!(*state.borrow(), Connecting);
        first.publish(1, Connected);
        second.publish(1, Connected);
        assert_eq!(*state.borrow(), Connected);
    }

    #[test]
    fn a_lane_that_left_says_nothing_more() {
        let (state, health) = health();
        let (first, second) = (health.of_another(), health.of_another());
        first.publish(1, Connected);
        second.publish(1, Suspended);
        second.leave();
        assert_eq!(*state.borrow(), Connected);
        second.publish(1, Connecting);
        assert_eq!(*state.borrow(), Connected);
    }

    #[test]
    fn a_generation_that_is_over_says_nothing_more_of_its_lane() {
        let (state, health) = health();
        let lane = health.of_another();
        lane.publish(1, Connected);
        lane.publish(2, Connected);
        lane.publish(1, Connecting);
        assert_eq!(*state.borrow(), Connected);
        lane.publish(2, Suspended);
        assert_eq!(*state.borrow(), Suspended);
    }

    #[test]
    fn nothing_is_kept_of_lanes_that_left() {
        let (_state, health) = health();
        let first = health.of_another();
        first.publish(1, Connected);
        for _ in 0..1_000 {
            let lane = health.of_another();
            lane.publish(1, Connected);
            lane.leave();
            lane.publish(1, Suspended);
        }
        assert_eq!(health.lanes.lock().unwrap().said.len(), 1);
    }

    #[test]
    fn a_session_that_ends_stays_so() {
        let (state, health) = health();
        let lane = health.of_another();
        for last in [Draining, Closed] {
            lane.publish(1, Connecting);
            health.session.send_replace(last);
            lane.publish(1, Connected);
            assert_eq!(*state.borrow(), last);
        }
    }
}
