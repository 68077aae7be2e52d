//! Which frames there are.

use std::collections::HashMap;

use zklock_test_support::Frame;

use super::case::{Place, Scene};

/// The frames of a run, each with its place.
pub(super) fn places(scene: Scene, log: &[Frame]) -> Vec<Place> {
    let mut seen = HashMap::new();
    log.iter()
        .filter(|frame| scene.has(frame.opcode))
        .map(|frame| {
            let nth = seen.entry((frame.direction, frame.opcode)).or_insert(0);
            *nth += 1;
            Place { direction: frame.direction, opcode: frame.opcode, nth: *nth }
        })
        .collect()
}
