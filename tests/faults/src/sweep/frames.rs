//! Which frames there are.

use std::collections::HashMap;

use zklock_test_support::{Frame, OpCode};

use super::case::Place;

/// The frames of a run, each with its place. Pings come when they like, and heartbeats (a `multi`)
/// when a run takes long.
pub(super) fn places(log: &[Frame]) -> Vec<Place> {
    let mut seen = HashMap::new();
    let wanted = |frame: &&Frame| {
        !matches!(frame.opcode, OpCode::Ping | OpCode::Connect | OpCode::Multi | OpCode::SetWatches)
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
