//! Which frames there are.

use std::collections::HashMap;

use zklock_test_support::{Frame, OpCode};

use super::case::Place;
use crate::locks::Kind;

/// The frames of a run, each with its place. Pings come when they like, and heartbeats (a `multi`)
/// when a run takes long: those count only where the lock itself sends one.
pub(super) fn places(log: &[Frame], kind: Kind) -> Vec<Place> {
    let mut seen = HashMap::new();
    let wanted = |frame: &&Frame| match frame.opcode {
        OpCode::Ping | OpCode::Connect | OpCode::SetWatches => false,
        OpCode::Multi => kind == Kind::Delayed,
        _ => true,
    };
    log.iter()
        .filter(wanted)
        .map(|frame| {
            let nth = seen.entry((frame.direction, frame.opcode)).or_insert(0);
            *nth += 1;
            Place { direction: frame.direction, opcode: frame.opcode, nth: *nth }
        })
        .collect()
}
