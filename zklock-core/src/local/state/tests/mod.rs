//! The decisions alone, on leases that are all lost or all kept.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::*;
use crate::base::caller::Caller;
use crate::base::error_kind::ErrorKind;
use crate::local::todo::{Joined, TestLease};
use crate::local::waiter::QueuePolicy;
use crate::local::waiters::{Outcome, Waiters};

/// Numbers what it grants.
struct Numbers(Instant, Rc<Cell<u32>>);

impl<L> Grants<L, Mode, u32, u32> for Numbers {
    fn now(&self) -> Instant {
        self.0
    }
    fn grant(&self, _: &Waiter, _: &Arc<L>, _: impl Iterator<Item = Arc<L>>) -> (u32, u32) {
        self.1.set(self.1.get() + 1);
        (self.1.get(), self.1.get())
    }
    fn busy(&self, _: &Arc<L>) -> LockError {
        LockError::new(ErrorKind::Busy, "")
    }
}

/// Ten thousand waiters have ten thousand of these.
#[test]
fn what_is_kept_of_a_waiter_is_small() {
    type Grant = Option<Arc<()>>;
    let bytes = Waiters::<Waiter, Outcome<Grant>>::BYTES_EACH;
    assert!(bytes <= 152, "{bytes} bytes");
}

#[test]
fn nothing_is_kept_of_a_writer_whose_lease_was_lost_while_it_stepped_down() {
    let (now, by) = (Instant::ORIGIN, Numbers(Instant::ORIGIN, Rc::default()));
    let (writer, reader) = (1, 2);
    let [from, to] = [(); 2].map(|()| Arc::new(TestLease { is_valid: false, node: () }));
    let mut state = State::new(false);
    state.phase = Phase::Held { lease: from.clone(), mode: Mode::Write };
    state.holders.push(writer);
    let _ = state.leases_lost(now);
    assert_eq!(state.in_the_way().collect::<Vec<_>>(), [&writer]);
    let _ = state.stepped_down((&from, to.clone()), reader, false, &by);
    assert_eq!(state.in_the_way().collect::<Vec<_>>(), [&reader]);
    let todo = state.release([to.clone()], |by| *by == reader, Duration::ZERO, &by);
    assert!(todo.release.is_some_and(|released| Arc::ptr_eq(&released, &to)));
    assert_eq!(state.in_the_way().count(), 0);
}

/// Whoever comes first after the loss, and whether it waits or tries once: somebody has waited longer.
#[test]
fn who_comes_to_a_lost_lease_fetches_for_those_who_wait_already() {
    let now = Instant::ORIGIN;
    let by = Numbers(now, Rc::default());
    let join = |state: &mut State<TestLease<()>, u32, u32>, once| {
        let (who, queue_policy) = (Caller::thread(), QueuePolicy::default());
        let (wants, since, label, ahead) = (Mode::Mutex, now, None, 0);
        let waiter = Waiter { who, wants, since, once, queue_policy, label, ahead };
        let closed = || LockError::new(ErrorKind::Closing, "");
        state.join(&waiter, &by, |_: &u32| Conflict::None, closed, false)
    };
    for once in [false, true] {
        let holder = 7;
        let [lost, next] = [false, true].map(|is_valid| Arc::new(TestLease { is_valid, node: () }));
        let mut state = State::new(false);
        let Joined::Waits(first) = join(&mut state, false).0 else { panic!("it waits") };
        state.phase = Phase::Held { lease: lost, mode: Mode::Mutex };
        state.holders.push(holder);
        let (joined, todo) = join(&mut state, once);
        assert!(matches!(joined, Joined::Waits(_)), "{joined:?}, once: {once}");
        assert_eq!(state.in_the_way().collect::<Vec<_>>(), [&holder], "once: {once}");
        let fetch = todo.fetch.unwrap_or_else(|| panic!("nobody fetches, once: {once}"));
        drop(state.fetched(fetch.driver, Ok(next), &by));
        assert!(state.waiters.poll(first, Waker::noop(), &mut None).is_ready(), "once: {once}");
    }
}

/// The writer is turned away by the readers, and keeps nobody out; one that waits does.
#[test]
fn who_tries_to_read_behind_one_who_tries_to_write_enters_beside_the_readers() {
    let now = Instant::ORIGIN;
    let by = Numbers(now, Rc::default());
    let node = Arc::new(TestLease { is_valid: true, node: () });
    let mut state = State::new(false);
    let callers = [
        (Mode::Read, false, Ok(())),
        (Mode::Write, true, Err(ErrorKind::Busy)),
        (Mode::Read, true, Ok(())),
        (Mode::Read, false, Ok(())),
    ];
    let join = |state: &mut State<TestLease<()>, u32, u32>, (wants, once)| {
        let (who, queue_policy) = (Caller::thread(), QueuePolicy::default());
        let (since, label, ahead) = (now, None, 0);
        let waiter = Waiter { who, wants, since, once, queue_policy, label, ahead };
        let closed = || LockError::new(ErrorKind::Closing, "");
        match state.join(&waiter, &by, |_: &u32| Conflict::None, closed, false) {
            (Joined::Waits(place), todo) => (place, todo.fetch),
            (joined, _) => panic!("{joined:?}"),
        }
    };
    let places = callers.map(|(wants, once, _)| join(&mut state, (wants, once)));
    let writes = join(&mut state, (Mode::Write, false)).0;
    let late = join(&mut state, (Mode::Read, true)).0;
    drop(state.fetched(places[0].1.unwrap().driver, Ok(node), &by));
    let mut polled = |place| match state.waiters.poll(place, Waker::noop(), &mut None) {
        Poll::Ready(settled) => Some(settled.unwrap().1.map(drop).map_err(|error| error.kind())),
        Poll::Pending => None,
    };
    for ((wants, once, expected), (place, _)) in callers.into_iter().zip(places) {
        assert_eq!(polled(place), Some(expected), "{wants:?}, once: {once}");
    }
    assert_eq!(polled(writes), None);
    assert_eq!(polled(late), Some(Err(ErrorKind::Busy)));
}

/// While the connection is down, the answer to its question does not come.
#[test]
fn who_asks_on_a_lost_lease_does_not_keep_the_others_waiting() {
    let now = Instant::ORIGIN;
    let by = Numbers(now, Rc::default());
    let waiter = || {
        let (who, queue_policy) = (Caller::thread(), QueuePolicy::default());
        let (wants, since, once, label, ahead) = (Mode::Mutex, now, false, None, 0);
        Waiter { who, wants, since, once, queue_policy, label, ahead }
    };
    let conflict = |_: &u32| Conflict::None;
    let closed = || LockError::new(ErrorKind::Closing, "");
    for comes_later in [false, true] {
        let node = Arc::new(TestLease { is_valid: false, node: () });
        let mut state = State::new(false);
        let asking = Phase::Asking { lease: node.clone(), mode: Mode::Mutex, until: now };
        let todo = if comes_later {
            state.phase = asking;
            state.join(&waiter(), &by, conflict, closed, false).1
        } else {
            drop(state.join(&waiter(), &by, conflict, closed, false));
            state.phase = asking;
            state.leases_lost(now)
        };
        assert!(todo.fetch.is_some() && todo.release.is_some(), "{comes_later}");
        let late = state.asked(&node, false, &by);
        assert!(late.fetch.is_none() && late.release.is_none() && late.wake.is_none());
    }
}

/// Somebody here waited when the lock was released, and does not any more when the answer comes.
#[test]
fn a_node_lingers_also_if_who_waited_here_has_given_up() {
    let now = Instant::ORIGIN;
    let by = Numbers(now, Rc::default());
    let later = now + Duration::from_secs(1);
    for (until, behind, lingers) in
        [(later, false, true), (later, true, false), (now, false, false)]
    {
        let node = Arc::new(TestLease { is_valid: true, node: () });
        let mut state = State::new(false);
        state.phase = Phase::Asking { lease: node.clone(), mode: Mode::Mutex, until };
        let todo = state.asked(&node, behind, &by);
        let keeps = todo.rare.is_some_and(|rare| rare.accompany.is_some());
        assert_eq!((keeps, todo.release.is_none()), (lingers, lingers));
        let (next, _) = state.linger_on(&node, false, now);
        assert_eq!(next, lingers.then_some(later));
    }
}

/// Whoever lets the node linger next starts another companion.
#[test]
fn a_companion_without_a_watch_that_ends_is_known_to_have_ended() {
    let now = Instant::ORIGIN;
    for behind in [None, Some(true)] {
        let node = Arc::new(TestLease { is_valid: true, node: () });
        let mut state = State::<_, u32, u32>::new(false);
        (state.behind, state.accompanied) = (behind, true);
        state.phase = Phase::Held { lease: node.clone(), mode: Mode::Read };
        let goes_on = state.goes_on_unwatched(&node, now).0;
        assert_eq!((goes_on, state.accompanied), (behind.is_some(), behind.is_some()));
    }
}

const WITHIN: Duration = Duration::from_millis(500);
const HOLD: Duration = Duration::from_millis(5);
const ANSWER: Duration = Duration::from_millis(40);

/// What happens to those who want the lock all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Join(u32),
    LetGo(u32, u32),
    Answered(bool),
}

/// When this process lets go of a node that six of its callers want all the time, if a node of
/// another process is behind it from `rival` on; and how many grants there are meanwhile.
fn lets_go(mode: Mode, handoffs: Handoffs, rival: Instant) -> (Instant, u32) {
    let queue_policy = QueuePolicy { handoffs, ..QueuePolicy::default() };
    let (numbers, before) = (Rc::<Cell<u32>>::default(), Cell::new(0));
    let closed = || LockError::new(ErrorKind::Closing, "");
    let node = Arc::new(TestLease { is_valid: true, node: () });
    let mut state = State::new(false);
    let (mut steps, mut places) = (std::collections::BTreeSet::new(), Vec::new());
    for caller in 0..6 {
        let at = Instant::ORIGIN + Duration::from_millis(caller.into());
        steps.insert((at, Step::Join(caller)));
    }
    loop {
        let (now, step) = steps.pop_first().unwrap();
        if now < rival {
            before.set(numbers.get());
        }
        let by = Numbers(now, numbers.clone());
        let mut todo = match step {
            Step::Join(caller) => {
                let (who, since) = (Caller::thread(), now);
                let (once, label, ahead) = (false, None, 0);
                let waiter = Waiter { who, wants: mode, since, once, queue_policy, label, ahead };
                let (joined, todo) =
                    state.join(&waiter, &by, |_: &u32| Conflict::None, closed, false);
                match joined {
                    Joined::Granted(number) => {
                        steps.insert((now + HOLD, Step::LetGo(caller, number)));
                    }
                    Joined::Waits(place) => places.push((caller, place)),
                    other => panic!("{other:?}"),
                }
                todo
            }
            Step::LetGo(caller, number) => {
                steps.insert((now, Step::Join(caller)));
                let is_it = |by: &u32| *by == number;
                state.release([node.clone()], is_it, Duration::ZERO, &by)
            }
            Step::Answered(behind) => state.asked(&node, behind, &by),
        };
        if let Some(fetch) = todo.fetch.take().filter(|_| todo.release.is_none()) {
            todo = state.fetched(fetch.driver, Ok(node.clone()), &by);
        }
        if todo.release.is_some() {
            return (now, numbers.get() - before.get());
        }
        if todo.rare.is_some_and(|rare| rare.ask.is_some()) {
            // It is behind the node if the server knows of it when the question arrives.
            let behind = rival <= now + ANSWER / 2;
            steps.insert((now + ANSWER, Step::Answered(behind)));
        }
        places.retain(|(caller, place)| {
            match state.waiters.poll(*place, Waker::noop(), &mut None) {
                Poll::Ready(granted) => {
                    let number = granted.unwrap().1.unwrap();
                    steps.insert((now + HOLD, Step::LetGo(*caller, number)));
                    false
                }
                Poll::Pending => true,
            }
        });
    }
}

#[test]
fn another_process_waits_for_one_turn_and_two_answers() {
    // Of a question that arrives just before it the answer is under way, and begins a turn; at
    // the end of that turn, another question is asked.
    let most = ANSWER / 2 + WITHIN + ANSWER + 2 * HOLD;
    let handoffs = Handoffs { most: u32::MAX, within: WITHIN };
    for mode in [Mode::Mutex, Mode::Write, Mode::Read] {
        let mut longest = Duration::ZERO;
        for millis in 0..1_700 {
            let rival = Instant::ORIGIN + Duration::from_millis(millis);
            longest = longest.max(lets_go(mode, handoffs, rival).0.since(rival));
        }
        assert!(longest <= most && longest > WITHIN, "{mode:?}: {longest:?}");
    }
}

#[test]
fn another_process_waits_for_so_many_and_one_and_two_answers() {
    for mode in [Mode::Mutex, Mode::Write, Mode::Read] {
        for most in [0, 1, 3, 40] {
            let handoffs = Handoffs { most, within: Duration::from_secs(60) };
            let (mut longest, mut passed) = (Duration::ZERO, 0);
            for millis in (600..1_000).step_by(3) {
                let rival = Instant::ORIGIN + Duration::from_millis(millis);
                let (at, grants) = lets_go(mode, handoffs, rival);
                (longest, passed) = (longest.max(at.since(rival)), passed.max(grants));
            }
            let promised = ANSWER / 2 + (most + 1) * HOLD + ANSWER + HOLD;
            assert!(longest <= promised, "{mode:?}, {most}: {longest:?}");
            // With a handoff, all readers that wait enter.
            let readers = if mode == Mode::Read { 6 } else { 1 };
            assert!(passed <= (most + 1) * readers, "{mode:?}, {most}: {passed}");
        }
    }
}
