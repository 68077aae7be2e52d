//! Answers that come late, or not at all.

use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_lite::future::{or, poll_once};
use tokio::time::{advance, sleep, timeout};

use super::bed::{Kept, MOMENT, T, kept, kept_with, unkept, unkept_with};
use crate::base::clock::Clock;
use crate::base::policy::StopAt;
use crate::base::session_state::SessionState;
use crate::coordinator::link::Link;
use crate::coordinator::memory::{Fault, Op};
use crate::coordinator::node::NodeKind;
use crate::observe::observer::{Event, LossReason};
use crate::session::releaser::{Deletion, Doomed};

#[tokio::test(start_paused = true)]
async fn an_overdue_heartbeat_is_told_at_a_third_of_the_session_timeout() {
    let mut kept = kept().await;
    let careful = kept.hold("/a", StopAt::Suspect).await;
    let patient = kept.hold("/b", StopAt::Lost).await;
    sleep(2 * T).await;
    assert!(kept.is_valid(&careful) && kept.is_valid(&patient));
    let last = kept.generation.lease().last_commit();
    kept.faults.hold_replies();
    timeout(T, kept.state.wait_for(|state| *state == SessionState::Suspended))
        .await
        .unwrap()
        .unwrap();
    let after = Clock::Caller.now().since(last);
    assert!(after.abs_diff(T / 3) <= 2 * MOMENT, "{after:?}");
    assert_eq!(kept.generation.coordinator().link(), Link::Up);
    assert!(!kept.is_valid(&careful) && kept.is_valid(&patient));
    assert_eq!(kept.generation.held().len(), 1, "nobody cares for it any more");
    kept.faults.release();
    kept.state.wait_for(|state| *state == SessionState::Connected).await.unwrap();
    assert!(!kept.is_valid(&careful) && kept.is_valid(&patient));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_before_the_keeper_looks_hides_no_doubt() {
    let kept = kept().await;
    let careful = kept.hold("/a", StopAt::Suspect).await;
    let patient = kept.hold("/b", StopAt::Lost).await;
    // As if the process had been stopped.
    advance(T / 3).await;
    kept.generation.delete("/none").await.unwrap_err();
    let answered = kept.generation.check(["/a".into()]);
    answered.await.unwrap();
    assert!(!kept.is_valid(&careful) && kept.is_valid(&patient));
}

/// The leader may end the session before the next ping tells it of the commit.
#[tokio::test(start_paused = true)]
async fn a_session_whose_process_stood_still_grants_nothing_more() {
    let Kept { generation, .. } = kept().await;
    sleep(MOMENT).await;
    advance(generation.lease().timing().lease + MOMENT).await;
    generation.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    assert_eq!(generation.grantable(StopAt::Lost), None);
    sleep(MOMENT).await;
    assert!(generation.is_retired());
}

/// If its follower is cut off before the next ping, the leader does not know that it goes on.
#[tokio::test(start_paused = true)]
async fn what_is_answered_just_after_a_standstill_counts_from_before() {
    let (tick, half_tick) = (T / 30, T / 60);
    let kept = kept_with(Some(tick)).await;
    let patient = kept.hold("/b", StopAt::Lost).await;
    sleep(T).await;
    let (lease, stops) = (kept.generation.lease(), Clock::Caller.now());
    let margin = lease.timing().margin;
    advance(T / 2).await;
    kept.generation.check(["/b".into()]).await.unwrap();
    assert!(lease.last_commit() <= stops + margin);
    sleep(half_tick * 9 / 8 + MOMENT).await;
    assert!(lease.last_commit() >= stops + T / 2 + half_tick);
    assert!(kept.is_valid(&patient) && !kept.generation.is_retired());
}

/// The network may hold what a client sends, and then deliver it all at once.
#[tokio::test(start_paused = true)]
async fn what_is_answered_after_a_silence_of_the_network_counts_from_before() {
    let (tick, half_tick) = (T / 30, T / 60);
    let kept = kept_with(Some(tick)).await;
    sleep(T).await;
    let (lease, silent) = (kept.generation.lease(), Clock::Caller.now());
    let margin = lease.timing().margin;
    kept.faults.hold_requests();
    // A little later the client leaves the connection.
    sleep(T / 4).await;
    let sent = [(); 2].map(|()| kept.generation.create("/a", b"", NodeKind::EphemeralSequential));
    kept.faults.release();
    for sent in sent {
        sent.await.unwrap();
        assert!(lease.last_commit() <= silent + margin);
    }
    sleep(half_tick - MOMENT).await;
    kept.generation.create("/a", b"", NodeKind::EphemeralSequential).await.unwrap();
    assert!(lease.last_commit() <= silent + margin, "the leader may not know of it");
    sleep(half_tick / 8 + 2 * MOMENT).await;
    let sent = Clock::Caller.now();
    kept.generation.create("/a", b"", NodeKind::EphemeralSequential).await.unwrap();
    assert_eq!(lease.last_commit(), sent);
}

/// Nobody knows when the session asked for another server, so that counts for nothing.
#[tokio::test(start_paused = true)]
async fn what_is_answered_after_a_reconnect_counts_from_before_until_half_a_tick_is_over() {
    let told = T / 10 * 9 / 8;
    for tenths in [3, 6, 9] {
        let kept = kept_with(Some(T / 5)).await;
        sleep(T).await;
        let (lease, down) = (kept.generation.lease(), Clock::Caller.now());
        let latest = down + lease.timing().margin;
        kept.faults.disconnect();
        sleep(T * tenths / 10).await;
        kept.faults.reconnect();
        sleep(MOMENT).await;
        let back = Clock::Caller.now();
        kept.generation.create("/a", b"", NodeKind::EphemeralSequential).await.unwrap();
        assert!(lease.last_commit() <= latest);
        // It was up for a little less.
        assert!(lease.last_commit() + T / 12 + MOMENT >= latest.min(back));
        let slack = back.since(lease.last_commit());
        kept.generation.settled(StopAt::Lost).await;
        let waited = Clock::Caller.now().since(back);
        let waits = if slack <= T / 6 { Duration::ZERO } else { told };
        assert!(waited.abs_diff(waits) <= 2 * MOMENT, "{tenths} T/10: {waited:?}, {slack:?}");
        sleep(told - waits + MOMENT).await;
        let sent = Clock::Caller.now();
        kept.generation.check(["/".into()]).await.unwrap();
        assert_eq!(lease.last_commit(), sent);
        kept.generation.check(["/".into()]).await.unwrap();
        assert!(kept.generation.grantable(StopAt::Lost).is_some());
    }
}

/// While its thread stands still, nothing shows that the leader hears of it.
#[tokio::test(start_paused = true)]
async fn who_waits_until_a_session_has_settled_does_not_wait_for_one_that_is_over() {
    for is_retired in [false, true] {
        let Kept { generation, .. } = unkept_with(Some(T / 30)).await.0;
        advance(T / 2).await;
        let start = Clock::Caller.now();
        let [mut before, mut behind] = [(); 2].map(|()| Box::pin(generation.settled(StopAt::Lost)));
        assert_eq!((poll_once(&mut before).await, poll_once(&mut behind).await), (None, None));
        if is_retired {
            generation.take_out_of_use();
        } else {
            generation.end();
        }
        before.await;
        behind.await;
        generation.settled(StopAt::Lost).await;
        assert_eq!(Clock::Caller.now(), start);
    }
}

/// Its commits prove less than usual, and still as much as they can.
#[tokio::test(start_paused = true)]
async fn who_waits_until_a_session_has_settled_does_not_wait_for_ever() {
    let Kept { generation, .. } = unkept_with(Some(T / 30)).await.0;
    advance(T / 2).await;
    let start = Clock::Caller.now();
    generation.settled(StopAt::Lost).await;
    let waited = Clock::Caller.now().since(start);
    assert!(waited.abs_diff(2 * (T / 12 + T / 60 * 9 / 8)) <= 20 * MOMENT, "{waited:?}");
}

/// Its thread may stand still alone, for instance because a log that it writes is full.
#[tokio::test(start_paused = true)]
async fn callers_do_not_show_that_the_thread_of_the_session_runs() {
    let Kept { generation, .. } = unkept().await.0;
    let (stops, margin) = (Clock::Caller.now(), generation.lease().timing().margin);
    for _ in 0..4 {
        advance(T / 6).await;
        generation.create("/a", b"", NodeKind::EphemeralSequential).await.unwrap();
    }
    assert!(generation.lease().last_commit() <= stops + margin);
    assert_eq!(generation.grantable(StopAt::Lost), None);
}

/// The thread that stands still is the one that would tell them.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_loss_is_told_while_the_thread_of_the_session_stands_still() {
    let kept = unkept().await.0;
    let node = kept.hold("/a", StopAt::Lost).await;
    kept.faults.hold_replies();
    let looks = Cell::new(0);
    let told = node.until(|| {
        looks.set(looks.get() + 1);
        !kept.is_valid(&node)
    });
    // Other callers send much, before and after the lease is over.
    let sending = async {
        for _ in 0..100 {
            advance(T / 50).await;
            drop(kept.generation.delete("/none"));
        }
        panic!("it is not told");
    };
    or(told, sending).await;
    // At first, when it stands still, when the lease is less safe, and when it is over.
    assert!(looks.get() <= 4, "looked {} times", looks.get());
}

/// Nobody sends anything, either.
#[tokio::test(start_paused = true)]
async fn who_waits_for_a_loss_looks_when_the_lease_runs_out_whoever_stands_still() {
    for stop_at in [StopAt::Lost, StopAt::Suspect] {
        let kept = unkept().await.0;
        let node = kept.hold("/a", stop_at).await;
        let over = kept.generation.valid_until(stop_at);
        let told = kept.generation.until_over(&node, || !kept.is_valid(&node));
        timeout(T, told).await.expect("it is not told");
        let late = Clock::Caller.now().since(over);
        assert!(late <= 2 * MOMENT, "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_loss_looks_once_in_a_heartbeat_at_most() {
    for stop_at in [StopAt::Lost, StopAt::Suspect] {
        let kept = kept().await;
        let (node, looks) = (kept.hold("/a", stop_at).await, Cell::new(0));
        let told = kept.generation.until_over(&node, || {
            looks.set(looks.get() + 1);
            !kept.is_valid(&node)
        });
        assert!(timeout(10 * T, told).await.is_err());
        // At first, every T/6, and at the end.
        assert!(looks.get() <= 62, "looked {} times", looks.get());
    }
}

/// The client library counts the time in which a machine was suspended for nothing.
#[tokio::test(start_paused = true)]
async fn a_session_that_stood_still_says_at_once_that_it_goes_on() {
    let kept = kept().await;
    sleep(T + MOMENT).await;
    let said = || kept.acls.load(Ordering::SeqCst);
    assert_eq!(said(), 13, "messages in a session timeout, and one at its beginning");
    advance(T / 3).await;
    sleep(MOMENT).await;
    assert_eq!(said(), 14);
    sleep(T).await;
    assert_eq!(said(), 26);
}

/// A machine with too few processors is late each time, and still sends enough.
#[tokio::test(start_paused = true)]
async fn a_thread_that_is_late_by_a_tenth_of_the_session_timeout_each_time_does_not_stand_still() {
    for (busy, due) in [(false, T / 12), (true, T / 12), (false, T / 6), (true, T / 6)] {
        let kept = kept().await;
        let node = kept.hold("/a", StopAt::Lost).await;
        for _ in 0..40 {
            sleep(due - 2 * MOMENT).await;
            advance(T / 10 + MOMENT).await;
            sleep(MOMENT).await;
            if busy {
                kept.generation.delete("/none").await.unwrap_err();
            }
            assert!(kept.is_valid(&node), "it is lost");
            let settled = pin!(kept.generation.settled(StopAt::Suspect));
            assert!(poll_once(settled).await.is_some(), "it stands still");
            assert!(kept.generation.grantable(StopAt::Lost).is_some(), "nothing is granted");
        }
        assert!(!kept.generation.is_retired());
    }
}

/// A leader that is not heard by its followers for a while lets a session end that it hears nothing of,
/// and the answer to a creation from before that end comes first.
#[tokio::test(start_paused = true)]
async fn after_a_long_silence_one_answer_is_too_little_for_a_grant() {
    let Kept { generation, .. } = kept().await;
    let granted = |stop_at| generation.grantable(stop_at).is_some();
    sleep(generation.lease().timing().lease + MOMENT).await;
    let both = [
        generation.create("/a", b"", NodeKind::Ephemeral),
        generation.create("/b", b"", NodeKind::Ephemeral),
    ];
    for created in both {
        created.await.unwrap();
        assert!(!granted(StopAt::Suspect) && !granted(StopAt::Lost));
    }
    generation.check(["/a".into()]).await.unwrap();
    assert!(granted(StopAt::Suspect) && granted(StopAt::Lost));
}

#[tokio::test(start_paused = true)]
async fn who_stops_at_suspect_is_granted_only_while_no_heartbeat_is_due() {
    let Kept { generation, .. } = kept().await;
    let granted = |stop_at| generation.grantable(stop_at).is_some();
    sleep(T / 6 - MOMENT).await;
    assert!(granted(StopAt::Suspect) && granted(StopAt::Lost));
    sleep(2 * MOMENT).await;
    assert!(!granted(StopAt::Suspect) && granted(StopAt::Lost));
    sleep(T / 6).await;
    assert!(!granted(StopAt::Suspect) && !granted(StopAt::Lost));
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_sleeps_looks_when_something_is_held_that_stops_at_suspect() {
    for beside in [false, true] {
        looks_in_time(&kept().await, beside).await;
    }
}

async fn looks_in_time(kept: &Kept, beside: bool) {
    let generation = &kept.generation;
    let create = |path| generation.coordinator().create(path, b"", NodeKind::Ephemeral);
    let czxid = create("/a").await.unwrap().stat.czxid;
    let other = create("/b").await.unwrap().stat.czxid;
    // It looks every T/12 while nothing is held, and has just done so. The heartbeat is nearly
    // due, and will take long.
    sleep(T / 3 + 10 * MOMENT).await;
    generation.check(["/a".into()]).await.unwrap();
    sleep(T / 6 - 5 * MOMENT).await;
    kept.faults.delay_replies(T / 8);
    if beside {
        // For this one it need not look earlier.
        let term = generation.grantable(StopAt::Lost).unwrap();
        generation.hold("/b".into(), "b".into(), other, term, None).unwrap();
    }
    let term = generation.grantable(StopAt::Suspect).unwrap();
    let node = generation.hold("/a".into(), "a".into(), czxid, term, None).unwrap();
    for _ in 0..100 {
        sleep(T / 30).await;
        assert!(kept.is_valid(&node));
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_stops_at_suspect_wakes_the_keeper_only() {
    let kept = kept().await;
    sleep(MOMENT).await;
    let mut changed = pin!(kept.generation.changed());
    changed.as_mut().enable();
    kept.hold("/a", StopAt::Suspect).await;
    sleep(MOMENT).await;
    assert!(poll_once(changed).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_whose_answer_is_forgotten_is_sent_again_in_time() {
    let kept = kept().await;
    let patient = kept.hold("/b", StopAt::Lost).await;
    for _ in 0..3 {
        kept.forgets.store(1, Ordering::SeqCst);
        for _ in 0..20 {
            sleep(T / 10).await;
            assert!(kept.is_valid(&patient));
        }
        assert_eq!(kept.forgets.load(Ordering::SeqCst), 0);
    }
}

/// Not with the next heartbeat, which is due later.
#[tokio::test(start_paused = true)]
async fn leases_that_run_out_between_two_heartbeats_are_lost_at_once() {
    let kept = kept().await;
    let _node = kept.hold("/a", StopAt::Lost).await;
    sleep(T / 12).await;
    kept.generation.create("/b", b"", NodeKind::Ephemeral).await.unwrap();
    let lease = kept.generation.lease().timing().lease;
    kept.faults.hold_requests();
    sleep(lease - MOMENT).await;
    assert_eq!(kept.generation.losses(), 0);
    sleep(2 * MOMENT).await;
    assert_eq!(kept.generation.losses(), 1);
}

/// However many heartbeats are sent before the first of them is answered.
#[tokio::test(start_paused = true)]
async fn a_guard_is_valid_while_answers_come_late_and_regularly() {
    // A heartbeat is due at another time than a message.
    for later in 0..8 {
        let kept = kept().await;
        sleep(T / 50 * later).await;
        let patient = kept.hold("/a", StopAt::Lost).await;
        kept.faults.delay_replies(T * 23 / 100);
        for tenths in 1..=30 {
            sleep(T / 10).await;
            assert!(kept.is_valid(&patient), "{later} T/50: lost after {tenths} T/10");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_and_silence_are_told() {
    let kept = kept().await;
    let node = kept.hold("/a", StopAt::Lost).await;
    kept.faults.delay_replies(T / 60);
    sleep(T / 4).await;
    let next = || kept.events.recv_timeout(Duration::from_secs(60)).unwrap();
    match next() {
        Event::Heartbeat { nodes: 1, took, undeleted: 0 } => {
            assert!((T / 60..T / 50).contains(&took), "{took:?}");
        }
        event => panic!("{event:?}"),
    }
    kept.faults.hold_replies();
    sleep(2 * T).await;
    match next() {
        Event::Suspect { lock, czxid, .. } => {
            assert_eq!((&*lock, czxid), ("a", node.czxid.unsigned_abs()));
        }
        event => panic!("{event:?}"),
    }
    match next() {
        Event::Lost { lock, czxid, reason: LossReason::Silence, .. } => {
            assert_eq!((&*lock, czxid), ("a", node.czxid.unsigned_abs()));
        }
        event => panic!("{event:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_tells_how_many_deletions_are_not_confirmed() {
    let kept = kept().await;
    kept.hold("/a", StopAt::Lost).await;
    kept.faults.inject(Fault::lose_request().on(Op::Delete).times(u64::MAX));
    let deletion = tokio::spawn(Deletion::send(&kept.generation, Doomed::new("/b")));
    sleep(T).await;
    kept.faults.clear();
    deletion.await.unwrap().unwrap();
    sleep(T).await;
    let told = std::iter::from_fn(|| kept.events.recv_timeout(Duration::from_secs(60)).ok());
    let mut counts = told.map(|event| match event {
        Event::Heartbeat { nodes: 1, undeleted, .. } => undeleted,
        event => panic!("{event:?}"),
    });
    assert_eq!(counts.next(), Some(1));
    assert_eq!(counts.find(|count| *count != 1), Some(0));
}

/// The answer that is recorded afterwards may have come before.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_seen_to_be_over_stays_so_and_is_told_within_a_heartbeat() {
    for (stop_at, reason) in
        [(StopAt::Lost, LossReason::Silence), (StopAt::Suspect, LossReason::Suspect)]
    {
        let kept = kept().await;
        let (node, other) = (kept.hold("/a", stop_at).await, kept.hold("/b", StopAt::Lost).await);
        let seen = kept.generation.valid_until(stop_at);
        assert!(!kept.generation.is_valid_at(node.term, seen));
        kept.generation.check(["/a".into()]).await.unwrap();
        assert!(!kept.is_valid(&node));
        assert_eq!(kept.is_valid(&other), stop_at == StopAt::Suspect);
        sleep(T / 6 + MOMENT).await;
        assert!(!kept.generation.is_held(&node));
        // Heartbeats are told as well.
        let told = std::iter::from_fn(|| kept.events.recv_timeout(Duration::from_secs(60)).ok());
        let mut losses = told.filter_map(|event| match event {
            Event::Lost { reason, .. } => Some(reason),
            _ => None,
        });
        assert_eq!(losses.next(), Some(reason));
    }
}

/// A caller that begins anew lets go of the lease that it lost, perhaps before the keeper looks.
#[tokio::test(start_paused = true)]
async fn who_lets_go_of_a_lost_lease_tells_those_who_wait_for_its_end() {
    let kept = kept().await;
    for (stop_at, reason) in
        [(StopAt::Lost, LossReason::Silence), (StopAt::Suspect, LossReason::Suspect)]
    {
        let node = kept.hold("/a", stop_at).await;
        let mut told = std::pin::pin!(node.changed());
        told.as_mut().enable();
        kept.generation.lease().end_epoch();
        assert!(!kept.is_valid(&node));
        kept.generation.lost_lease(&node);
        timeout(MOMENT / 2, told).await.unwrap();
        kept.generation.lost_lease(&node);
        // Once: otherwise it would be the next one as well.
        match kept.events.recv_timeout(Duration::from_secs(60)).unwrap() {
            Event::Lost { reason: told, .. } => assert_eq!(told, reason),
            event => panic!("{event:?}"),
        }
        kept.generation.delete("/a").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_ended_does_not_say_that_the_process_stood_still() {
    let Kept { generation, .. } = kept().await;
    generation.end();
    sleep(T).await;
    generation.delete("/none").await.unwrap_err();
    assert!(!generation.was_retired(), "nobody stood still");
}

/// The client library may take long to find that the session is over.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_the_connection_of_a_session_that_is_used_no_more() {
    let (kept, _keeping) = unkept().await;
    kept.faults.disconnect();
    let mut waits = pin!(kept.generation.connected());
    assert_eq!(poll_once(&mut waits).await, None);
    kept.generation.take_out_of_use();
    assert!(!timeout(MOMENT, waits).await.unwrap());
}

/// A node of another client at the same path passes the check.
#[tokio::test(start_paused = true)]
async fn a_node_is_read_anew_where_its_check_was_asked_again() {
    let (kept, _keeping) = unkept().await;
    let (generation, path) = (&kept.generation, "/a");
    let coordinator = generation.coordinator();
    let made = generation.create(path, b"", NodeKind::Ephemeral).await.unwrap();
    kept.forgets.store(1, Ordering::SeqCst);
    let sent = generation.lease().clock().now();
    let mut checked = pin!(generation.check([path.into()]));
    let read = coordinator.get(path);
    assert_eq!(poll_once(&mut checked).await, None);
    sleep(MOMENT).await;
    coordinator.delete(path).await.unwrap();
    coordinator.create(path, b"", NodeKind::Ephemeral).await.unwrap();
    assert_eq!(checked.await, Ok(()));
    let (_, stat) = generation.read_beside(sent, path, read).await.unwrap();
    assert_ne!(stat.czxid, made.stat.czxid);
}
