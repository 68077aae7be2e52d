//! An error is of the kind that it is.
//!
//! Busy only where somebody held or was ahead; unavailable only where an answer may be missing;
//! lost only where there was trouble, and never before it said; held for too long only where it was; a
//! deadlock only where there is one, or where the caller wants no lock twice.

use std::collections::HashSet;

use super::HELD_TOO_LONG;
use crate::calls::{Call, Outcome};
use crate::history::{History, Mode};
use crate::spans::outermost;
use crate::trouble::SETTLES;
use crate::verdict::{Rule, Verdict};

/// A wait this short may be over before a server that is well has answered, in nanoseconds.
const SHORT: u64 = 500_000_000;

/// So much later may a guard say what its process knows, in nanoseconds.
const TOLD: u64 = 100_000_000;

/// So often an acquire queues up again that does not say how often. Nothing is deleted so often here.
const USUAL: u32 = 20;

/// A check says in whole milliseconds for how long a lock is surely held.
const ROUNDED: u64 = 1_000_000;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let named = |client: usize, what: String| format!("{}: {what}", history.clients[client]);
    let ours = |client: usize| history.starts[client].peer.is_none();
    let mut by_lock = vec![Vec::new(); history.locks.len()];
    for (index, call) in history.calls.iter().enumerate() {
        call.locks.iter().for_each(|lock| by_lock[*lock].push(index));
    }
    for call in history.calls.iter().filter(|call| ours(call.client)) {
        let quiet = || history.trouble.is_quiet(call.client, call.asked, call.heard);
        // What is granted might have been refused: as lost or unavailable where that has a reason.
        if call.outcome == Outcome::Granted {
            match has_time(call) && quiet() {
                true => verdict.judge(Rule::Kind, "granted on a quiet day"),
                false => verdict.excuse(Rule::Kind, "granted in trouble, or soon"),
            }
        }
        let Outcome::Refused(error) = &call.outcome else { continue };
        let mut rule = Rule::Kind;
        let in_peace = || {
            has_time(call)
                && quiet()
                && history.trouble.stood_still(call.client, call.asked, call.heard) < SHORT / 2
        };
        let over_time =
            || call.parent.is_some_and(|parent| history.may_be_over_time(parent, call.heard));
        let wrong = match error.as_str() {
            "busy" => {
                let ahead = |what: What| {
                    let blocked = |lock: &usize| in_the_way(history, call, *lock, what, &by_lock);
                    call.locks.iter().any(blocked)
                };
                let asked = |lock: &usize| asked_to_release(history, call, *lock);
                let is_there = ahead(What::IsThere) || call.locks.iter().any(asked);
                if !is_there && ahead(What::IsLeft) {
                    rule = Rule::Whole;
                }
                !is_there
            }
            "unavailable" => in_peace() && !gives_up(call),
            "deadlock" => !reads_outside(history, call) && !wants_it_twice(history, call),
            "lost" => {
                call.parent.is_none_or(|parent| history.holds[parent].removed.is_none())
                    && quiet()
                    && !over_time()
            }
            HELD_TOO_LONG => !over_time(),
            "cancelled" | "closing" => false,
            _ => true,
        };
        match (error.as_str(), wrong) {
            ("unavailable", false) if in_peace() => {
                verdict.excuse(Rule::Kind, "unavailable to who does not queue up again");
            }
            ("unavailable", false) => verdict.excuse(Rule::Kind, "unavailable in trouble, or soon"),
            ("lost", false) => verdict.excuse(Rule::Kind, "lost in trouble"),
            ("cancelled" | "closing", _) => verdict.excuse(Rule::Kind, "cancelled"),
            ("busy", _) => verdict.judge(Rule::Kind, "busy"),
            ("deadlock", _) => verdict.judge(Rule::Kind, "deadlock"),
            _ => verdict.judge(Rule::Kind, "another error"),
        }
        if wrong {
            let what = format!(
                "{} as {:?} on {} was refused as {error} without a reason, from {} to {}",
                call.id,
                call.modes,
                history.names(&call.locks),
                call.asked,
                call.heard,
            );
            verdict.violated(rule, named(call.client, what));
        }
    }
    for (index, hold) in history.holds.iter().enumerate() {
        let again = hold.parent.is_some() && hold.stepped_down.is_none();
        if again && !history.options(index).reentrant {
            let (lock, at) = (&history.locks[hold.lock], hold.granted);
            let what = format!("{lock} was granted at {at} to who had it, and is not reentrant");
            verdict.violated(Rule::Kind, named(hold.client, what));
        }
    }
    for refusal in history.refusals.iter().filter(|refusal| ours(refusal.client)) {
        let quiet = || history.trouble.is_quiet(refusal.client, refusal.asked, refusal.heard);
        let wrong = match (refusal.op.as_str(), refusal.error.as_str()) {
            (_, "lost") => false, // Its guard is asked below.
            ("cancel", "not_found") => false,
            (_, "unavailable") => quiet(),
            (_, "closing") => false,
            (_, HELD_TOO_LONG) => {
                !refusal.hold.is_some_and(|hold| history.may_be_over_time(hold, refusal.heard))
            }
            _ => true,
        };
        match refusal.error.as_str() {
            "lost" | "unavailable" | "closing" if !wrong => {
                verdict.excuse(Rule::Kind, "request refused with a reason");
            }
            _ => verdict.judge(Rule::Kind, "another request refused"),
        }
        if wrong {
            let what = format!("{} was refused as {}", refusal.op, refusal.error);
            let what = format!("{what} without a reason, at {}", refusal.heard);
            verdict.violated(Rule::Kind, named(refusal.client, what));
        }
    }
    let refused = history.refusals.iter().filter(|refusal| refusal.error == "lost");
    let refused = refused.filter_map(|refusal| Some((refusal.hold?, refusal.heard)));
    let told = history.holds.iter().enumerate().filter_map(|(hold, one)| Some((hold, one.lost?)));
    let (mut seen, mut counted) = (HashSet::new(), HashSet::new());
    for (index, at) in told.chain(refused) {
        let hold = &history.holds[index];
        let trouble = history.holds_with(index).any(|one| history.holds[one].removed.is_some());
        if !ours(hold.client) {
            continue;
        }
        let is_new = counted.insert(index);
        if trouble || history.may_be_over_time(index, at) {
            if is_new {
                verdict.excuse(Rule::Kind, "lost with its node, or its time");
            }
            continue;
        }
        // One guard of several locks ends with the first of them.
        let stops_early = history.holds_with(index).any(|one| {
            // Inside a scope that holds the lock, it is the outermost call that decides.
            history.options(outermost(history, one)).stops_early
        });
        let wrong = match hold.surely {
            Some(until) if at + ROUNDED < until && !stops_early => "before its time",
            _ if history.trouble.is_quiet(hold.client, hold.granted, at) => "without a reason",
            surely => {
                match surely.filter(|_| is_new) {
                    Some(_) if stops_early => verdict.excuse(Rule::Kind, "lost early, as wanted"),
                    Some(_) => verdict.judge(Rule::Kind, "lost when its time was over"),
                    None if is_new => verdict.excuse(Rule::Kind, "lost in trouble, unseen"),
                    None => {}
                }
                continue;
            }
        };
        if seen.insert(index) {
            let what = format!("was lost {wrong} at {at}");
            verdict.violated(Rule::Kind, named(hold.client, history.describe(index, &what)));
        }
    }
    // Whoever keeps its lock might have lost it.
    for (index, hold) in history.holds.iter().enumerate() {
        let Some(closed) = hold.closed.filter(|_| ours(hold.client)) else { continue };
        if !counted.contains(&index) && history.trouble.is_quiet(hold.client, hold.granted, closed)
        {
            verdict.judge(Rule::Kind, "kept on a quiet day");
        }
    }
}

/// Whether servers that are well answer a call in time. One that tries once has as much as a try by default.
fn has_time(call: &Call) -> bool {
    call.timeout.is_none_or(|timeout| timeout == 0 || timeout >= SHORT)
}

/// Whether a call does not begin again and again where its node or the directory is deleted. That somebody has
/// deleted a directory, which anybody may who finds it empty, is in no history.
fn gives_up(call: &Call) -> bool {
    call.options.requeue.is_some_and(|times| times < USUAL)
}

/// Which of those who wanted a lock are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Those who may be there.
    IsThere,
    /// And what others may have left, who were refused one of several locks.
    IsLeft,
}

/// Whether somebody may have held one of the others, or been ahead of the call, or his node may have
/// been left behind.
fn in_the_way(
    history: &History,
    call: &Call,
    lock: usize,
    what: What,
    by_lock: &[Vec<usize>],
) -> bool {
    let (mut beside, others) = (0, &by_lock[lock][..]);
    let Some(mode) = call.mode(lock) else { return false };
    others.iter().map(|index| &history.calls[*index]).any(|other| {
        let Some(others_mode) = other.mode(lock) else { return false };
        let is_quiet = |from: u64| history.trouble.is_quiet(call.client, from, call.heard);
        // In trouble, a session before may have left a node of this very call.
        let is_it = (other.client, other.id) == (call.client, call.id);
        if is_it && is_quiet(call.asked) || other.asked > call.heard {
            return false;
        }
        // A session that has gone, and whatever the options keep, lives on for a while.
        let timeout = history.session_timeout(other.client);
        let is_gone = |ended: u64| {
            history.trouble.gone_by(ended, 3 * timeout) < call.asked
                && !other.hold.is_some_and(|hold| delays(history, call, hold, others))
        };
        let pieces = history.pieces(other).filter(|(_, ended)| !is_gone(*ended));
        let there: u32 = pieces.map(|(permits, _)| permits).sum();
        if there == 0 {
            return false;
        }
        if what == What::IsThere && has_let_go(history, other, call.asked) {
            return false;
        }
        if mode != Mode::Permit {
            return mode.excludes(others_mode);
        }
        // Whoever takes permits in another process keeps the others out for that moment, and so does a
        // node of this one's that a session before has left.
        beside += there;
        other.client != call.client
            || beside + call.permits.0 > call.permits.1
            || !is_quiet(other.asked)
    })
}

/// Whether readers of the same process were asked to release: it lets no more of its callers in beside
/// them. A guard says so a moment after its process knows.
fn asked_to_release(history: &History, call: &Call, lock: usize) -> bool {
    call.mode(lock) == Some(Mode::Read)
        && history.holds.iter().any(|hold| {
            (hold.client, hold.lock, hold.mode) == (call.client, lock, Mode::Read)
                && hold.revoked.is_some_and(|at| at < call.heard.saturating_add(TOLD))
                && hold.released.is_none_or(|released| released > call.asked)
        })
}

/// Whether a call for several locks that was refused had surely given back at a moment what it had taken.
fn has_let_go(history: &History, call: &Call, at: u64) -> bool {
    let still = || history.trouble.stood_still(call.client, call.heard, at);
    call.locks.len() > 1
        && matches!(call.outcome, Outcome::Refused(_))
        && history.starts[call.client].peer.is_none()
        && history.trouble.is_quiet(call.client, call.asked, at)
        && call.heard.saturating_add(SETTLES).saturating_add(still()) < at
}

/// Whether the call found the lock in the delay after the loss of its last holder, which begins when
/// somebody finds that this one is gone, however much later.
fn delays(history: &History, call: &Call, last: usize, others: &[usize]) -> bool {
    let hold = &history.holds[last];
    // Permits have no such delay.
    if hold.mode == Mode::Permit || !history.options(last).delays {
        return false;
    }
    let ended = hold.released.unwrap_or(call.asked);
    // Nobody saw its release on the servers.
    let may_be_lost = !history.trouble.is_quiet(hold.client, hold.granted, ended);
    let held = others.iter().filter_map(|index| history.calls[*index].hold);
    let mut since = held.map(|other| history.holds[other].granted);
    may_be_lost && !since.any(|granted| granted > hold.granted && granted < call.asked)
}

/// Whether a call wants to write what it reads.
fn reads_outside(history: &History, call: &Call) -> bool {
    let mut outer = call.parent;
    while let Some(hold) = outer {
        let hold = &history.holds[hold];
        if call.mode(hold.lock) == Some(Mode::Write) && hold.mode == Mode::Read {
            return true;
        }
        outer = hold.parent;
    }
    false
}

/// Whether a call wants a lock that is held around it, and acquires none twice.
fn wants_it_twice(history: &History, call: &Call) -> bool {
    let parent = call.parent;
    let holds = |lock: &usize| history.holder_among(parent, *lock).is_some();
    !call.options.reentrant && call.locks.iter().any(holds)
}
