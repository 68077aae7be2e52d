//! Which frames there are.

use std::collections::HashMap;

use zklock_test_support::{Frame, OpCode};

use super::case::{Place, Scene};

/// The frames of a run, each with its place. Pings come when they like, and nobody connects in a run
/// in which nothing is broken: how that is broken is a matter of the second strike.
pub(super) fn places(scene: Scene, log: &[Frame]) -> Vec<Place> {
    let mut seen = HashMap::new();
    let wanted = |frame: &&Frame| {
        !matches!(frame.opcode, OpCode::Ping | OpCode::Connect) && scene.has(frame.opcode)
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
