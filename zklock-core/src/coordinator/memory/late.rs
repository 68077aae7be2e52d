//! The delays of requests and replies, derived from a seed.

use std::time::Duration;

use crate::base::clock::Instant;

/// The delays of a store's replies.
#[derive(Debug, Default)]
pub(super) struct Late {
    seed: u64,
    most: Duration,
    sessions: u64,
}

impl Late {
    pub(super) fn new(seed: u64, most: Duration) -> Self {
        Late { seed, most, sessions: 0 }
    }

    /// The delays of one more session. They depend on the seed and on the number of sessions
    /// before, and not on what other sessions do.
    pub(super) fn another(&mut self) -> Travel {
        self.sessions += 1;
        let state = self.seed ^ self.sessions.wrapping_mul(0xd134_2543_de82_ef95);
        Travel {
            state,
            most: self.most,
            delay: Duration::ZERO,
            there: Instant::ORIGIN,
            back: Instant::ORIGIN,
        }
    }
}

/// The two directions of one session. In each, what was sent first arrives first.
#[derive(Debug)]
pub(super) struct Travel {
    /// An additional delay of every reply and every event.
    pub(super) delay: Duration,
    most: Duration,
    state: u64,
    /// The arrival time of the last request that was sent so far.
    there: Instant,
    /// The arrival time of the last reply or event that was sent so far.
    back: Instant,
}

impl Travel {
    /// Takes over the delays of another; what was sent already stays ahead.
    pub(super) fn as_late_as(&mut self, other: Travel) {
        (self.most, self.state) = (other.most, other.state);
    }

    /// When a request arrives that is sent now.
    pub(super) fn there(&mut self, now: Instant) -> Instant {
        let way = self.draw();
        self.there = self.there.max(now + way);
        self.there
    }

    /// When a reply or an event arrives that is sent now.
    pub(super) fn back(&mut self, now: Instant) -> Instant {
        let way = self.delay + self.draw();
        self.back = self.back.max(now + way);
        self.back
    }

    /// The delay of one direction: in one of four cases zero.
    fn draw(&mut self) -> Duration {
        if self.most.is_zero() {
            return Duration::ZERO;
        }
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = self.state;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn ^= drawn >> 31;
        if drawn & 3 == 0 {
            return Duration::ZERO;
        }
        // In thousandths of the largest delay of one direction.
        let part = u32::try_from((drawn >> 2) % 1_001).unwrap_or_default();
        self.most / 2_000 * part
    }
}
