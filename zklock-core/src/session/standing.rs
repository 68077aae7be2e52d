//! What the lanes of a session say of it together: the worst of what each says.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::session_state::SessionState;

/// The state of a session, as its lanes see it.
#[derive(Clone, Debug)]
pub struct Standing {
    session: Arc<watch::Sender<SessionState>>,
    lanes: Arc<Mutex<Vec<Word>>>,
}

/// What a lane has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Nothing,
    Of(SessionState),
    /// It is over, and whatever it says does not count.
    Left,
}

/// The part of one lane in it.
#[derive(Debug)]
pub struct OfLane {
    standing: Standing,
    lane: usize,
}

impl Standing {
    /// Nobody has said anything yet.
    pub fn new(session: Arc<watch::Sender<SessionState>>) -> Self {
        Standing { session, lanes: Arc::default() }
    }

    /// The part of another lane, which counts from its first word on.
    pub fn of_another(&self) -> Arc<OfLane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.push(Word::Nothing);
        Arc::new(OfLane { standing: self.clone(), lane: lanes.len() - 1 })
    }
}

impl OfLane {
    /// Says where the lane stands. A session that is ending stays so.
    pub fn publish(&self, now: SessionState) {
        self.say(Word::Of(now));
    }

    /// The lane is over; the others go on.
    pub fn leave(&self) {
        self.say(Word::Left);
    }

    fn say(&self, word: Word) {
        // Under one lock, so that the last word is that of all; who is told is told after it.
        self.standing.session.send_if_modified(|state| {
            let lanes = &self.standing.lanes;
            let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(mine) = lanes.get_mut(self.lane).filter(|mine| **mine != Word::Left) {
                *mine = word;
            }
            let said = lanes.iter().filter_map(|word| match word {
                Word::Of(state) => Some(*state),
                Word::Nothing | Word::Left => None,
            });
            let worst = said.min_by_key(rank).unwrap_or(*state);
            rank(state).is_some() && std::mem::replace(state, worst) != worst
        });
    }
}

/// How good a state is, among those that lanes have.
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

    fn standing() -> (watch::Receiver<SessionState>, Standing) {
        let session = Arc::new(watch::Sender::new(Connecting));
        (session.subscribe(), Standing::new(session))
    }

    #[test]
    fn the_worst_lane_tells() {
        let (state, standing) = standing();
        let (first, second) = (standing.of_another(), standing.of_another());
        first.publish(Connected);
        assert_eq!(*state.borrow(), Connected, "the second has not said anything yet");
        second.publish(Connected);
        second.publish(Suspended);
        assert_eq!(*state.borrow(), Suspended);
        first.publish(Connecting);
        assert_eq!(*state.borrow(), Connecting);
        first.publish(Connected);
        second.publish(Connected);
        assert_eq!(*state.borrow(), Connected);
    }

    #[test]
    fn a_lane_that_left_says_nothing_more() {
        let (state, standing) = standing();
        let (first, second) = (standing.of_another(), standing.of_another());
        first.publish(Connected);
        second.publish(Suspended);
        second.leave();
        assert_eq!(*state.borrow(), Connected);
        second.publish(Connecting);
        assert_eq!(*state.borrow(), Connected);
    }

    #[test]
    fn a_session_that_ends_stays_so() {
        let (state, standing) = standing();
        let lane = standing.of_another();
        for last in [Draining, Closed] {
            lane.publish(Connecting);
            standing.session.send_replace(last);
            lane.publish(Connected);
            assert_eq!(*state.borrow(), last);
        }
    }
}
