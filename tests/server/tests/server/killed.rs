//! Processes that are killed, and processes that are stopped and go on.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zklock::{MutexGuard, Session};
use zklock_test_support::{Control, monotonic_ns};

use crate::bed::{Bed, TICK, acquiring, soon};
use crate::kinds::{Held, KINDS, Kind, NEXT};
use crate::process::{Part, Process, WANTED};

#[tokio::test]
async fn a_killed_holder_frees_its_lock_within_the_session_timeout_and_a_tick() {
    let bed = Bed::shared("killed");
    let timeout = Duration::from_secs(2);
    let mut holder = Process::start(&bed, Part::Hold, timeout);
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    let control = Control::of(bed.server());
    let start = Instant::now();
    holder.kill();
    let guard = soon("the lock", waiting).await.unwrap();
    control.within("killed: free", start.elapsed(), timeout + TICK);
    guard.release().await.unwrap();
    bed.end().await;
}

/// Waits for a lock of each kind that a process holds, and notes when each is granted.
async fn waiting_for_each(bed: &Bed, waiter: &Session) -> Vec<(Kind, JoinHandle<(Held, Instant)>)> {
    let each = KINDS.map(|kind| (kind, kind.rival().granted(waiter)));
    for kind in [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write] {
        bed.until_nodes(kind.name(), 2).await;
    }
    each.into()
}

#[tokio::test]
async fn a_killed_holder_of_every_kind_frees_its_locks_in_time_on_a_busy_day() {
    let bed = Bed::shared("killed-each");
    let (timeout, waiter) = (Duration::from_secs(2), bed.session().await);
    let busy = bed.busy(&[&waiter]).await;
    let mut holder = Process::start_with_all(&bed, Part::Hold, timeout);
    let each = waiting_for_each(&bed, &waiter).await;
    let control = Control::of(bed.server());
    let start = Instant::now();
    holder.kill();
    for (kind, waiting) in each {
        let (held, granted) = soon("the lock", waiting).await.unwrap();
        let what = format!("{kind:?} killed: free");
        control.within_answers(&what, granted - start, timeout + TICK, NEXT);
        held.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_stopped_holder_of_every_kind_says_lost_when_it_goes_on_on_a_busy_day() {
    let bed = Bed::shared("stopped-each");
    let (timeout, waiter) = (Duration::from_secs(2), bed.session().await);
    let busy = bed.busy(&[&waiter]).await;
    let mut holder = Process::start_with_all(&bed, Part::Answer, timeout);
    let each = waiting_for_each(&bed, &waiter).await;
    holder.ask();
    assert!(holder.answer());
    let (control, start) = (Control::of(bed.server()), Instant::now());
    holder.stop();
    let mut granted = Vec::new();
    for (kind, waiting) in each {
        let (held, at) = soon("the lock", waiting).await.unwrap();
        let what = format!("{kind:?} of a process that is stopped");
        control.within_answers(&what, at - start, timeout + 2 * TICK, NEXT);
        granted.push(held);
    }
    holder.ask();
    holder.go_on();
    assert!(!holder.answer(), "it took itself for a holder beside another");
    assert!(granted.iter().all(Held::is_valid));
    holder.kill();
    for held in granted {
        held.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

/// Stops a holder until another is granted its lock, and lets it go on. What it says with this word is when it last
/// went by its lock: before that grant.
async fn stopped_until_another(root: &str, part: Part, word: &str) -> (Bed, Process, MutexGuard) {
    let bed = Bed::shared(root);
    let timeout = Duration::from_secs(2);
    let mut holder = Process::start(&bed, part, timeout);
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    let (control, start) = (Control::of(bed.server()), Instant::now());
    holder.stop();
    let guard = soon("the lock", waiting).await.unwrap();
    let (took, granted) = (start.elapsed(), monotonic_ns());
    control.within_answers("stopped: another is granted", took, timeout + 2 * TICK, NEXT);
    holder.go_on();
    let last: u64 = holder.hears(word).parse().unwrap();
    assert!(last < granted, "it took itself for the holder beside another");
    println!("{root}: {word}{:?} before the grant", Duration::from_nanos(granted - last));
    (bed, holder, guard)
}

#[tokio::test]
async fn a_process_that_was_stopped_for_too_long_knows_when_it_goes_on() {
    let (bed, mut holder, guard) = stopped_until_another("stopped", Part::Watch, "lost ").await;
    assert!(holder.wait().success());
    guard.release().await.unwrap();
    bed.end().await;
}

/// Nobody asks for the guard here: the body is dropped before its next statement.
#[tokio::test]
async fn an_async_body_whose_process_was_stopped_for_too_long_does_not_go_on() {
    let (bed, mut holder, guard) = stopped_until_another("stopped-body", Part::Body, "last ").await;
    assert_eq!(holder.hears("error "), "Lost Some(Dropped)");
    assert!(guard.is_valid() && holder.wait().success());
    guard.release().await.unwrap();
    bed.end().await;
}

/// Just after a standstill an answer proves less, so who is about to be granted a lock waits for half a tick. The process
/// is stopped again meanwhile, and when it goes on, its session is over.
#[tokio::test]
async fn a_process_that_waits_for_many_locks_and_was_stopped_gets_them_at_once_when_it_goes_on() {
    let bed = Bed::shared("stopped-waiting");
    let (timeout, session) = (Duration::from_secs(4), bed.session().await);
    let mut held = Vec::new();
    for number in 0..WANTED {
        held.push(session.mutex(format!("m{number}")).unwrap().acquire().await.unwrap());
    }
    let mut process = Process::waiting(&bed, timeout);
    for number in 0..WANTED {
        bed.until_contenders(&format!("m{number}"), 2).await;
    }
    // The last answer is then too old for a grant.
    tokio::time::sleep(timeout).await;
    process.stop();
    for guard in held {
        guard.release().await.unwrap();
    }
    // Longer than a client is silent anyhow, and shorter than a lease.
    tokio::time::sleep(timeout * 3 / 10).await;
    process.go_on();
    tokio::time::sleep(timeout / 10).await;
    process.stop();
    for number in 0..WANTED {
        bed.until_contenders(&format!("m{number}"), 0).await;
    }
    let (control, start) = (Control::of(bed.server()), Instant::now());
    process.go_on();
    (0..WANTED).for_each(|_| drop(process.hears("got")));
    // It takes half a tick for a quarter of the session timeout.
    control.within("stopped: all are granted", start.elapsed(), timeout / 8);
    assert!(process.wait().success());
    bed.end().await;
}

#[tokio::test]
async fn a_process_that_was_stopped_for_half_a_session_timeout_holds_its_lock() {
    let bed = Bed::shared("stopped-half");
    // Its last heartbeat may be a sixth of it old, and it is valid for five sixths without a tick.
    let timeout = Duration::from_secs(10);
    let mut holder = Process::start(&bed, Part::Answer, timeout);
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    holder.stop();
    tokio::time::sleep(timeout / 2).await;
    holder.ask();
    assert!(!waiting.is_finished(), "another was granted");
    holder.go_on();
    assert!(holder.answer());
    // And it goes on holding it.
    tokio::time::sleep(timeout).await;
    holder.ask();
    assert!(holder.answer() && !waiting.is_finished());
    holder.kill();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    bed.end().await;
}

/// Its session lives on, and with it the node.
#[tokio::test]
async fn a_process_that_was_stopped_for_longer_than_its_lease_keeps_others_out() {
    let bed = Bed::shared("stopped-lease");
    let timeout = Duration::from_secs(12);
    let mut holder = Process::start(&bed, Part::Lose, timeout);
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    holder.stop();
    // The lease is eleven twentieths of it.
    tokio::time::sleep(timeout * 5 / 8).await;
    holder.ask();
    holder.go_on();
    assert!(!holder.answer());
    tokio::time::sleep(timeout / 2).await;
    holder.ask();
    assert!(!holder.answer() && !waiting.is_finished(), "another was granted beside its guard");
    holder.kill();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    bed.end().await;
}

/// Stops a holder for so many halves of its session timeout. Another is granted meanwhile, and
/// the first thing that the holder hears is that it has lost.
async fn stopped_for(root: &str, halves: u32) {
    let bed = Bed::shared(root);
    let timeout = Duration::from_secs(2);
    let mut holder = Process::start(&bed, Part::Answer, timeout);
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    holder.ask();
    assert!(holder.answer());
    let (control, start) = (Control::of(bed.server()), Instant::now());
    holder.stop();
    let guard = soon("the lock", waiting).await.unwrap();
    let granted = start.elapsed();
    control.within_answers("stopped: another is granted", granted, timeout + 2 * TICK, NEXT);
    tokio::time::sleep((halves * timeout / 2).saturating_sub(granted)).await;
    println!("stopped for {:?}: another was granted after {granted:?}", start.elapsed());
    assert!(guard.is_valid());
    holder.ask();
    holder.go_on();
    assert!(!holder.answer(), "it took itself for the holder beside another");
    // It stays so, with a new session.
    holder.ask();
    assert!(!holder.answer() && guard.is_valid());
    holder.kill();
    guard.release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_process_that_was_stopped_for_one_and_a_half_session_timeouts_says_lost() {
    stopped_for("stopped-longer", 3).await;
}

#[tokio::test]
async fn a_process_that_was_stopped_for_three_session_timeouts_says_lost() {
    stopped_for("stopped-long", 6).await;
}
