//! When a guard is lost, row by row of `docs/lost.md`: for locks of every kind, on a busy day.

use std::time::{Duration, Instant};

use zklock::{LockOptions, SessionState, StopAt};
use zklock_test_support::{BOUND, Control, Proxy, RawClient, ZooKeeper};

use crate::bed::{Bed, TICK, soon, until};
use crate::kinds::{Held, KINDS, Kind, NEXT, Wait, all, had_by_another, lost};

/// The promises are fractions of it.
const T: Duration = Duration::from_secs(6);
const HEARTBEAT: Duration = Duration::from_secs(1);

/// T − T/5 − tick/2, where nobody has told the tick, so that it counts as T/2.
const LEASE: Duration = Duration::from_millis(3_300);

/// Longer than any test.
const LONG: Duration = Duration::from_secs(120);

/// All of them are valid for as long as they said when the silence had begun, and no longer: a lease after the last
/// write that can have been answered. Answers when they were lost.
async fn lost_in_silence(control: &Control, all: &[(Kind, Held)], silent: Instant) -> Vec<Instant> {
    // What was under way may still have been answered.
    tokio::time::sleep(BOUND).await;
    let mut ends = Vec::new();
    for (kind, held) in all {
        assert!(held.is_valid(), "{kind:?}");
        let end = Instant::now() + held.remaining();
        assert!(end <= silent + LEASE, "{kind:?} is valid for {:?}", end - silent);
        ends.push(end);
    }
    // They are in two lanes, and those of one may end before those of the other: whoever waits for the
    // later one first sees the earlier one late.
    let mut order: Vec<_> = (0..all.len()).collect();
    order.sort_by_key(|number| ends[*number]);
    let mut lost = ends.clone();
    for number in order {
        let ((kind, held), end) = (&all[number], ends[number]);
        soon(&format!("the loss of {kind:?}"), held.lost()).await;
        let now = Instant::now();
        assert!(now >= end, "{kind:?} was lost before its time");
        control.within(&format!("{kind:?} in silence"), now - end, Duration::ZERO);
        assert!(!held.is_valid() && held.remaining().is_zero());
        lost[number] = now;
    }
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_dead_network_each_is_lost_in_time_and_before_another_is_granted() {
    let bed = Bed::shared("lost-silence");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T);
    let (holder, other) = (bed.adopt(builder.connect().await.unwrap()), bed.session().await);
    let busy = bed.busy_while_broken(&[&holder, &other]).await;
    let all = all(&holder, LockOptions::default()).await;
    let waiting: Vec<_> = KINDS.map(|kind| kind.rival().granted(&other)).into();
    let (control, grants) = (Control::timers(), Control::of(bed.server()));
    proxy.black_hole(true);
    let start = Instant::now();
    let lost = lost_in_silence(&control, &all, start).await;
    for ((waiting, (kind, held)), lost) in waiting.into_iter().zip(&all).zip(lost) {
        let (next, at) = soon("the next", waiting).await.unwrap();
        println!("{kind:?}: lost after {:?}, granted after {:?}", lost - start, at - start);
        assert!(lost < at, "{kind:?}");
        let what = format!("{kind:?} of a cut network");
        grants.within_answers(&what, at - start, T + 2 * TICK, NEXT);
        assert!(!held.is_valid() && next.is_valid(), "{kind:?}");
        next.release().await.unwrap();
    }
    proxy.heal();
    until("it is connected", || holder.is_ready().then_some(())).await;
    for (kind, held) in all {
        assert!(held.release().await.unwrap_err().is_lost(), "{kind:?}");
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn on_a_frozen_server_each_is_lost_in_time() {
    let bed = Bed::own();
    let session = bed.session_of(T).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let all = all(&session, LockOptions::default()).await;
    let control = Control::timers();
    bed.server().pause();
    lost_in_silence(&control, &all, Instant::now()).await;
    bed.server().resume();
    for (kind, held) in all {
        assert!(held.release().await.unwrap_err().is_lost(), "{kind:?}");
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn without_a_quorum_each_is_lost_in_time() {
    let bed = Bed::three(ZooKeeper::builder());
    let ensemble = bed.ensemble();
    let leader = ensemble.server(ensemble.leader()).addr();
    let builder = bed.builder_at(&leader).session_timeout(T);
    let session = bed.adopt(builder.connect().await.unwrap());
    let busy = bed.busy_while_broken(&[&session]).await;
    let all = all(&session, LockOptions::default()).await;
    let control = Control::timers();
    // They are silent for the leader at once, and say no goodbye.
    let followers = ensemble.followers();
    followers.iter().for_each(|follower| ensemble.server(*follower).pause());
    lost_in_silence(&control, &all, Instant::now()).await;
    followers.iter().for_each(|follower| ensemble.server(*follower).resume());
    for (kind, held) in all {
        assert!(held.release().await.unwrap_err().is_lost(), "{kind:?}");
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn who_stops_at_suspect_is_lost_in_time_and_its_session_says_so() {
    let bed = Bed::shared("lost-suspect");
    let proxy = bed.proxy();
    let session = bed.session_of_through(T, &proxy).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let careful = LockOptions::default().stop_at(StopAt::Suspect);
    let connected = || (session.state() == SessionState::Connected).then_some(());

    // A connection that is cut is in doubt at once.
    let all_here = all(&session, careful).await;
    // Longer than what is broken here takes on a busy machine.
    let beside = bed.session_of_through(4 * T, &proxy).await;
    let patient = beside.mutex("patient").unwrap().acquire().await.unwrap();
    let control = Control::timers();
    proxy.refuse(true);
    proxy.cut_reset();
    let start = Instant::now();
    for (kind, held) in &all_here {
        let took = lost(*kind, held, start).await;
        control.within(&format!("{kind:?} cut"), took, Duration::ZERO);
    }
    until("it says so", || (session.state() == SessionState::Suspended).then_some(())).await;
    control.within("suspended by a cut", start.elapsed(), Duration::ZERO);
    assert!(patient.is_valid());
    proxy.refuse(false);
    until("it is connected", connected).await;
    for (kind, held) in all_here {
        assert!(!held.is_valid(), "{kind:?} came back");
        assert!(held.release().await.unwrap_err().is_lost(), "{kind:?}");
    }

    // One that is silent is in doubt after a third of the session timeout, or when the client leaves it.
    let all_here = all(&session, careful).await;
    let control = Control::timers();
    proxy.black_hole(true);
    let start = Instant::now();
    for (kind, held) in &all_here {
        let took = lost(*kind, held, start).await;
        control.within(&format!("{kind:?} in silence"), took, T / 3);
    }
    until("it says so", || (session.state() == SessionState::Suspended).then_some(())).await;
    control.within("suspended in silence", start.elapsed(), T / 3);
    assert!(patient.is_valid());
    proxy.black_hole(false);
    until("it is connected", connected).await;
    for (kind, held) in all_here {
        assert!(held.release().await.unwrap_err().is_lost(), "{kind:?}");
    }
    patient.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn a_lost_guard_stays_lost_and_keeps_others_out_until_it_is_dropped() {
    let bed = Bed::shared("lost-stays");
    let proxy = bed.proxy();
    let builder = bed.builder_at(&proxy.addr()).session_timeout(2 * T);
    let (holder, other) = (bed.adopt(builder.connect().await.unwrap()), bed.session().await);
    let busy = bed.busy_while_broken(&[&holder, &other]).await;
    let all = all(&holder, LockOptions::default()).await;
    proxy.black_hole(true);
    for (kind, held) in &all {
        lost(*kind, held, Instant::now()).await;
    }
    // The server has not given up the session by now.
    proxy.black_hole(false);
    until("it is connected", || (holder.state() == SessionState::Connected).then_some(())).await;
    for (kind, held) in all {
        let rival = kind.rival();
        let once = rival.take(&other, LockOptions::default(), Wait::Once).await;
        assert!(once.unwrap_err().is_busy(), "{kind:?}");
        assert!(!held.is_valid(), "{kind:?}");
        drop(held);
        soon("the next", rival.acquire(&other)).await.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

/// Closes a session as somebody does who knows its password. Its client comes back only after that:
/// the server gives a session to whoever comes last.
fn close(bed: &Bed, proxy: &Proxy, id: i64) {
    let key = proxy.sessions().into_iter().find(|key| key.id == id).unwrap();
    proxy.black_hole(true);
    RawClient::resume(&bed.server().addr(), &key).and_then(RawClient::close).unwrap();
    proxy.black_hole(false);
}

#[tokio::test]
async fn a_session_that_somebody_closes_is_known_within_a_heartbeat() {
    let bed = Bed::shared("lost-closed");
    let proxy = bed.proxy();
    // All of its locks are in the session that is closed.
    let builder = bed.builder_at(&proxy.addr()).session_timeout(T).max_connections(1);
    let holder = bed.adopt(builder.connect().await.unwrap());
    let other = bed.adopt(bed.builder().max_connections(1).connect().await.unwrap());
    let busy = bed.busy_in_one_lane_while_broken(&[&holder]).await;
    for _ in 0..2 {
        let first = holder.zookeeper_session().unwrap().id;
        let all = all(&holder, LockOptions::default()).await;
        let lanes = bed.server().sessions();
        let lane = lanes.iter().find(|lane| lane.id == first).unwrap();
        let is_here = |path: &&str| lane.ephemerals.iter().any(|node| node == path);
        assert!(all.iter().all(|(_, held)| held.paths().iter().all(is_here)), "{lanes:?}");
        let waiting = KINDS.map(|kind| kind.rival().granted(&other));
        for (kind, held) in &all {
            bed.until_awaited(*kind, held, &other).await;
        }
        let control = Control::of(bed.server());
        close(&bed, &proxy, first);
        let start = Instant::now();
        for (kind, held) in &all {
            let took = lost(*kind, held, start).await;
            control.within(&format!("{kind:?} in a closed session"), took, HEARTBEAT);
        }
        for ((kind, held), waiting) in all.into_iter().zip(waiting) {
            had_by_another(kind, held, waiting, (&control, start)).await;
        }
        until("it is connected", || holder.is_ready().then_some(())).await;
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn who_closes_its_session_loses_at_once_and_another_is_granted() {
    let bed = Bed::shared("lost-closing");
    let holder = bed.session_of(LONG).await;
    let other = bed.adopt(bed.builder().max_connections(1).connect().await.unwrap());
    let busy = bed.busy_while_broken(&[&holder]).await;
    let all = all(&holder, LockOptions::default()).await;
    let waiting = KINDS.map(|kind| kind.rival().granted(&other));
    for (kind, held) in &all {
        bed.until_awaited(*kind, held, &other).await;
    }
    let control = Control::of(bed.server());
    let start = Instant::now();
    let closing = tokio::spawn({
        let holder = holder.clone();
        async move { holder.close().await }
    });
    for (kind, held) in &all {
        let took = lost(*kind, held, start).await;
        control.within(&format!("{kind:?} closed here"), took, Duration::ZERO);
    }
    closing.await.unwrap();
    for ((kind, held), waiting) in all.into_iter().zip(waiting) {
        had_by_another(kind, held, waiting, (&control, start)).await;
    }
    drop(busy);
    bed.end().await;
}
