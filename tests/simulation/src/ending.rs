//! The end of a schedule: all sessions are closed, and nothing is left.

use std::sync::Arc;

use crate::rules;
use crate::schedule::Scene;
use crate::workload::{Layout, LockPlan};

/// Lets the world go on until something is so, or until a moment.
fn until(scene: &Scene, limit: u64, is_so: &dyn Fn() -> bool) {
    let (world, mut next) = (&scene.world, 0);
    while world.now() < limit {
        // Not at each step: nothing here is in a hurry.
        if world.now() >= next {
            if is_so() {
                return;
            }
            next = world.now() + 5_000;
        }
        if !world.step() {
            return;
        }
    }
}

/// Nobody watches anything who wants nothing, where nothing went wrong. What lingers is watched.
fn check_watches(scene: &Scene) {
    let (ensemble, timeout) = (scene.store.ensemble(), scene.crew.timeout);
    if scene.store.faults() > 0
        || scene.crew.profile.corner.is_some()
        || scene.crew.locks.iter().any(|plan| plan.lingers)
    {
        return;
    }
    // The answer to one who has let go meanwhile may be on its way, and what rests is watched until it is gone,
    // which takes longer by a clock that is slow.
    let rest = scene.crew.locks.iter().map(LockPlan::hold).max().unwrap_or_default();
    let none = || ensemble.watched().is_empty() && ensemble.watches() == 0;
    until(scene, scene.world.now() + timeout + 2 * rest, &none);
    let (watched, kept) = (ensemble.watched(), ensemble.watches());
    if !watched.is_empty() {
        scene.crew.ledger.fail(rules::CLEAN, format!("{watched:?} are watched by nobody"));
    } else if kept > 0 {
        scene.crew.ledger.fail(rules::CLEAN, format!("{kept} watches are left"));
    }
}

/// Closes all sessions, and looks at what is left.
pub(crate) fn close(scene: &Arc<Scene>) {
    let (world, ledger, timeout) = (&scene.world, &scene.crew.ledger, scene.crew.timeout);
    check_watches(scene);
    for running in scene.take_running() {
        scene.close(running);
    }
    // Also those of processes that closed their sessions long ago.
    let limit = world.now() + 2 * timeout;
    until(scene, limit, &|| world.left().0.is_empty());
    let (left, timers) = world.left();
    if !left.is_empty() || timers > 0 {
        ledger.fail(rules::CLEAN, format!("{timers} timers and tasks are left: {left:?}"));
    }
    // What was lost on the way goes with its session, which the servers keep for its timeout.
    let ensemble = scene.store.ensemble();
    let nodes = || ensemble.ephemerals("/");
    let limit = world.now() + 2 * timeout;
    until(scene, limit, &|| nodes().is_empty() && ensemble.sessions().is_empty());
    let left = nodes();
    if !left.is_empty() {
        ledger.fail(rules::CLEAN, format!("{left:?} are left"));
    }
    let unused = ensemble.unused("/zklock");
    if !unused.is_empty() && (scene.store.is_sound() || scene.store.only_forgot()) {
        ledger.fail(rules::UNUSED, format!("{unused:?} are left"));
    }
    let left = ensemble.sessions();
    if !left.is_empty() {
        ledger.fail(rules::CLEAN, format!("sessions {left:x?} are left"));
    }
    let (clients, watches) = (ensemble.clients(), ensemble.watches());
    if clients + watches > 0 {
        ledger.fail(rules::CLEAN, format!("{clients} clients and {watches} watches are left"));
    }
    let stays = ensemble.persistent("/zklock/");
    let stays: Vec<_> = stays.into_iter().filter(|path| !may_stay(scene, path)).collect();
    if !stays.is_empty() {
        ledger.fail(rules::CLEAN, format!("{stays:?} stay for good"));
    }
}

/// Whether a node may stay that no server reaps: the directories of other layouts than Curator's, of locks that
/// rest, and what an administrator made, and where limits are.
fn may_stay(scene: &Scene, path: &str) -> bool {
    if scene.crew.profile.corner.is_some() {
        return true;
    }
    let limits = path == "/zklock/limits" || path.starts_with("/zklock/limits/");
    // One door is that of a layout with such directories, and a lock may be asked for in another layout than its own.
    let profile = &scene.crew.profile;
    let doors = profile.doors && path.starts_with("/zklock/doors");
    let is_its = |name: &str| {
        let below = path.strip_prefix("/zklock/").and_then(|path| path.strip_prefix(name));
        below.is_some_and(|below| below.is_empty() || below == "-__lock__")
    };
    let stays = |plan: &LockPlan| {
        let own = plan.layout != Layout::Curator || plan.rests() || profile.rare;
        let made = plan.administered && plan.directories().iter().any(|(made, _)| made == path);
        own && is_its(plan.name) || made
    };
    limits || doors || scene.crew.locks.iter().any(stays)
}
