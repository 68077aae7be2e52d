//! What must be true of a round.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::plan::Fault;
use crate::round::{Hit, Seen, ended_by, own_code};

/// How long what a killed `zklock` ran may live, at most. It is killed when another process has noticed;
/// that nobody else has the lock by then is looked at as well.
pub(crate) const NOTICED: Duration = Duration::from_millis(500);

/// A machine that stands still for so long may cost a lock as well.
const STALL: Duration = Duration::from_millis(500);

/// What is wrong with a round, in words; and for how long a command lived after its `zklock` was killed,
/// at most.
pub(crate) fn judge(seen: &Seen) -> (Vec<String>, Duration) {
    let mut wrong = Vec::new();
    side_by_side(seen, &mut wrong);
    without_a_node(seen, &mut wrong);
    let longest = after_the_end(seen, &mut wrong);
    for who in 0..seen.ends.len() {
        if let Some(why) = wrong_code(seen, who) {
            wrong.push(format!("number {who}: {why}: {:?}", seen.ends[who].status));
        }
    }
    if !seen.left.is_empty() {
        wrong.push(format!("these processes are left: {:?}", seen.left));
    }
    (wrong, longest)
}

/// For how long all of these ran at the same time, if they did.
fn beside(seen: &Seen, some: &[usize]) -> Option<Duration> {
    let lives = || some.iter().map(|who| &seen.lives[*who]);
    let all_ran = lives().all(|life| life.pid.is_some());
    let (begin, end) =
        (lives().map(|life| life.first).max()?, lives().map(|life| life.last).min()?);
    end.checked_sub(begin).filter(|_| all_ran).map(Duration::from_nanos)
}

/// Commands that exclude each other never run at the same time.
fn side_by_side(seen: &Seen, wrong: &mut Vec<String>) {
    for some in seen.plan.excluded() {
        if let Some(beside) = beside(seen, &some) {
            wrong.push(format!("{some:?} ran at the same time, for {beside:?}"));
        }
    }
}

/// Whether two ran at the same time, as they may.
pub(crate) fn is_shared(seen: &Seen) -> bool {
    let all = 0..seen.lives.len();
    all.clone()
        .any(|one| all.clone().skip(one + 1).any(|other| beside(seen, &[one, other]).is_some()))
}

/// A command runs only while its node is there.
fn without_a_node(seen: &Seen, wrong: &mut Vec<String>) {
    for (who, life) in seen.lives.iter().enumerate().filter(|(_, life)| life.pid.is_some()) {
        let gone = seen.looks.iter().find(|look| {
            // The look came when it had begun, and it went on.
            life.first < look.from && look.to < life.last && !look.shown[who]
        });
        if let Some(gone) = gone {
            let on = Duration::from_nanos(life.last - gone.to);
            wrong.push(format!("{who} ran without a node for at least {on:?}"));
        }
    }
}

/// A command does not outlive its `zklock`.
fn after_the_end(seen: &Seen, wrong: &mut Vec<String>) -> Duration {
    let mut longest = Duration::ZERO;
    for (who, (life, end)) in seen.lives.iter().zip(&seen.ends).enumerate() {
        let after = Duration::from_nanos(life.last.saturating_sub(end.at));
        let killed = ended_by(end.status, Signal::SIGKILL);
        longest = longest.max(if killed { after } else { Duration::ZERO });
        if after > if killed { NOTICED } else { Duration::ZERO } {
            wrong.push(format!("{who} ran for {after:?} after its zklock"));
        }
    }
    longest
}

/// The longest time for which the server showed nothing, or that a process took to start.
fn slowest(seen: &Seen) -> Duration {
    let gaps = seen.looks.windows(2).map(|two| two[1].to - two[0].to);
    Duration::from_nanos(gaps.max().unwrap_or_default()).max(seen.slowest_start)
}

/// Why the exit code of one is wrong, if it is.
fn wrong_code(seen: &Seen, who: usize) -> Option<&'static str> {
    let (plan, life, status) = (&seen.plan, &seen.lives[who], seen.ends[who].status);
    let hit = |fault| plan.fault == fault && seen.hit.is_some_and(|hit| hit.who == Some(who));
    let struck = seen.hit.is_some() && (plan.fault.is_of_the_server() || hit(plan.fault));
    let (ran, ended) = (life.pid.is_some(), life.ended.is_some());
    let unless = |right: bool, why| (!right).then_some(why);
    if ended_by(status, Signal::SIGKILL) {
        return unless(hit(Fault::Kill) || hit(Fault::KillBoth), "nobody has killed it");
    }
    if ended_by(status, Signal::SIGTERM) {
        return unless(
            hit(Fault::Terminate) && !ran,
            "it was not told to end, or not before it began",
        );
    }
    let must_be_lost = struck
        && plan.fault.may_cost_the_lock()
        && plan.is_long()
        && plan.fault != Fault::Cut
        && (plan.no_quorum || !plan.fault.is_of_the_server())
        && plan.wishes[who].patient
        && matches!(seen.hit, Some(Hit { who: Some(one), ran: true }) if one == who);
    match status.code() {
        // Only then is it the guardian who ends the command.
        Some(124) if seen.words[who].contains("was stopped") => {
            unless(hit(Fault::Stop) || slowest(seen) > STALL, "it was not stopped")
        }
        Some(124) => unless(
            struck && plan.fault.may_cost_the_lock() || slowest(seen) > STALL,
            "nothing could cost the lock",
        ),
        _ if must_be_lost => Some("its lock was lost"),
        Some(code) if code == own_code(who) => unless(ended, "the command did not end by itself"),
        Some(137) => unless(hit(Fault::KillCommand), "nobody has killed the command"),
        Some(143) => unless(hit(Fault::Terminate), "nobody has terminated it"),
        Some(75) => unless(!ran && plan.wishes[who].hurried, "it was not busy, or had time"),
        Some(69) => unless(
            !ran && (struck && plan.fault.may_cost_the_lock() || plan.wishes[who].hurried),
            "ZooKeeper answered",
        ),
        _ => Some("this code is none of those that are documented, or nothing had to fail"),
    }
}
