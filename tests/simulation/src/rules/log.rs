//! What the log says.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Rule;
use super::check::SOON;
use super::kept_out::Caller;
use super::ledger::{Held, Ledger, State};
use super::limits::Began;

/// A line of the log.
#[derive(Debug)]
pub struct Line {
    /// Which task wrote it.
    pub who: Caller,
    /// What it says.
    pub message: String,
    /// The path that it is about.
    pub path: Option<String>,
}

/// The lines of the log that nobody has looked at yet, and whether there are any.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<(AtomicBool, Mutex<Vec<Line>>)>);

impl Lines {
    /// Adds a line.
    pub fn add(&self, line: Line) {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        self.0.0.store(true, Ordering::Relaxed);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        !self.0.0.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self) -> Vec<Line> {
        self.0.0.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.0.1.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Ledger {
    /// Looks at what was written since the last time.
    pub(super) fn logged(&self, state: &mut State) -> Option<(Rule, String)> {
        if self.log.is_empty() {
            return None;
        }
        let lines = self.log.take();
        lines.into_iter().fold(None, |found, line| found.or(self.line(state, &line)))
    }

    fn line(&self, state: &mut State, line: &Line) -> Option<(Rule, String)> {
        let path = line.path.as_deref().unwrap_or_default();
        match &*line.message {
            "a held lock was lost" => {
                state.lost_at.insert(path.to_owned(), self.world.now());
                let life = self.only_life(path)?;
                let again = !state.told_lost.insert(life);
                again.then(|| (super::LOGGED_ONCE, format!("{path} is lost once more")))
            }
            "a node was lost under which nobody was granted the lock" => {
                let granted = self.was_granted(state, path);
                granted.then(|| (super::LOGGED_LOSS, format!("{path}: it was granted")))
            }
            "the process stood still: a new ZooKeeper session is opened" => {
                let (process, _) = line.who?;
                let stood = state.stood_still.contains(&process);
                (!stood).then(|| (super::STOOD_STILL, format!("{process} did not")))
            }
            _ => None,
        }
    }

    /// A guard has told of its loss for some time, and the log has not. Where a time is over, nothing is lost.
    pub(super) fn unlogged(
        &self,
        held: &Held,
        lost: u64,
        (told_lost, began): (&BTreeSet<u64>, &Began),
    ) -> Option<(Rule, String)> {
        let (czxid, late) = (held.token.czxid(), self.world.now().saturating_sub(lost));
        let is_told = late <= SOON || told_lost.contains(&czxid);
        let is_over = self.is_over(began, (held.entry.lock, held.token), lost);
        if is_told || held.entry.has_other_nodes() || is_over {
            return None;
        }
        // A reader that was a writer has the token of another node.
        let is_known = self.only_life(&held.path) == Some(czxid);
        is_known.then(|| (super::LOGGED_ONCE, format!("{} is lost, for {late} µs", held.path)))
    }

    /// The czxid of the node that was last at a path, where no other one can have been meant.
    fn only_life(&self, path: &str) -> Option<u64> {
        let recurs = self.plans[self.lock_of(path)?].layout.is_plain();
        let life = self.store.ensemble().life(path, None).filter(|_| !recurs)?;
        Some(life.czxid.unsigned_abs())
    }

    /// Whether somebody has held a lock with the node at a path: by its token, or because a guard of several permits has
    /// as many nodes as there are of its session.
    fn was_granted(&self, state: &State, path: &str) -> bool {
        let Some(czxid) = self.only_life(path) else { return false };
        if state.noted.contains(&czxid) {
            return true;
        }
        let Some((directory, _)) = path.rsplit_once('/') else { return false };
        let ensemble = self.store.ensemble();
        let lives = ensemble.lives();
        let Some(lost) = lives.iter().find(|life| life.czxid.unsigned_abs() == czxid) else {
            return false;
        };
        let mut held = state.held.values().filter(|held| {
            held.owner == lost.owner
                && held.entry.has_other_nodes()
                && held.path.starts_with(directory)
        });
        let (Some(held), None) = (held.next(), held.next()) else { return false };
        // Those that were there when it was granted, of which this is the first that goes.
        let of_it = lives.iter().filter(|life| {
            let there = life.gone.is_none_or(|(at, _)| at >= held.since);
            life.owner == held.owner
                && there
                && life.born <= held.since
                && life.path.rsplit_once('/').is_some_and(|(of, _)| of == directory)
        });
        let nodes: Vec<u64> = of_it.map(|life| life.czxid.unsigned_abs()).collect();
        held.lost.is_none() && nodes.len() == held.entry.share.0 as usize && nodes.contains(&czxid)
    }
}
