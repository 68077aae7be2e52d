//! When a deletion counts as done that is not answered, or not in time.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::bed::{Kept, MOMENT, PAYLOAD, T, kept, unkept};
use crate::base::policy::StopAt;
use crate::base::times;
use crate::cooldown::mark::Mark;
use crate::cooldown::mark_removal::MarkRemoval;
use crate::coordinator::link::Link;
use crate::coordinator::memory::{Fault, Op};
use crate::coordinator::node::NodeKind;
use crate::coordinator::request_error::RequestError;
use crate::layout::new_node::{NewNode, Proof};
use crate::session::releaser::{DeleteOptions, Deletion, Deletions, Doomed, PendingCreate, Which};
use crate::session::unused::Unused;

/// For how long the servers keep a session that they hear nothing of: two ticks longer, each of which is
/// taken for half a session timeout.
const KEPT: Duration = Duration::from_secs(2 * T.as_secs());

/// A node, whose deletion sends nothing but a look at it that nobody answers.
async fn looked_for(kept: &Kept) -> Deletion {
    let coordinator = kept.generation.coordinator();
    let made = coordinator.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    kept.faults.hold_requests();
    let only = Some(Which::Czxid(made.stat.czxid));
    let options = DeleteOptions { only, directory: false };
    Deletion::send(&kept.generation, Doomed { options, ..Doomed::new("/a") })
}

/// A node, whose deletion is refused with an answer that says nothing of it.
async fn refused(kept: &Kept) -> Deletion {
    kept.generation.coordinator().create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    let throttled = RequestError::Other("throttled".to_owned());
    kept.faults.inject(Fault::refuse(throttled).on(Op::Delete).times(u64::MAX));
    Deletion::send(&kept.generation, Doomed::new("/a"))
}

/// The servers may keep the session for all that time, and the node with it.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_nobody_answers_counts_once_the_servers_have_ended_the_session() {
    let kept = kept().await;
    kept.generation.coordinator().create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    kept.faults.hold_requests();
    let mut deletion = pin!(Deletion::send(&kept.generation, Doomed::new("/a")));
    assert!(timeout(KEPT - MOMENT, &mut deletion).await.is_err());
    timeout(2 * MOMENT, deletion).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_says_nothing_of_the_node_never_ends_the_wait_for_it() {
    let kept = kept().await;
    let coordinator = kept.generation.coordinator();
    let mut deletion = pin!(refused(&kept).await);
    assert!(timeout(5 * T, &mut deletion).await.is_err());
    kept.faults.clear();
    timeout(T, deletion).await.unwrap().unwrap();
    assert_eq!(coordinator.get("/a").await.unwrap_err(), RequestError::NoNode);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_used_no_more_stays_until_its_nodes_are_deleted() {
    let kept = kept().await;
    let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
    let held = kept.hold("/a", StopAt::Lost).await;
    generation.retire("/b", None, &RequestError::NoAuth);
    kept.faults.inject(Fault::lose_request().on(Op::Delete));
    kept.faults.delay_replies(MOMENT);
    let deletion = tokio::spawn(Deletion::send(generation, Doomed::new("/a")));
    generation.unhold(&held);
    sleep(2 * MOMENT).await;
    assert!(!generation.is_over() && coordinator.get("/a").await.is_ok());
    deletion.await.unwrap().unwrap();
    sleep(MOMENT / 2).await;
    assert!(generation.is_over());
}

/// Its node keeps others out until then.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_used_no_more_stays_until_what_was_lost_is_given_back() {
    for stop_at in [StopAt::Suspect, StopAt::Lost] {
        let kept = kept().await;
        let generation = &kept.generation;
        let lost = [kept.hold("/a", stop_at).await, kept.hold("/b", stop_at).await];
        generation.retire("/c", None, &RequestError::NoAuth);
        // Longer than a lease, and shorter than the servers keep a session.
        kept.faults.disconnect();
        sleep(generation.lease().timing().lease + MOMENT).await;
        kept.faults.reconnect();
        for node in &lost {
            sleep(5 * T).await;
            assert!(!kept.is_valid(node) && generation.holds_nothing() && !generation.is_over());
            generation.unhold(node);
        }
        sleep(MOMENT).await;
        assert!(generation.is_over());
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_used_no_more_does_not_wait_for_a_deletion_for_ever() {
    let kept = kept().await;
    let generation = &kept.generation;
    let mut deletion = pin!(refused(&kept).await);
    generation.retire("/b", None, &RequestError::NoAuth);
    assert!(timeout(KEPT - MOMENT, &mut deletion).await.is_err() && !generation.is_over());
    timeout(2 * MOMENT, deletion).await.unwrap().unwrap();
    assert!(generation.is_over());
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_in_a_living_session_waits_until_the_servers_have_ended_it() {
    let (kept, _) = unkept().await;
    let generation = &kept.generation;
    generation.coordinator().create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    let refused = Fault::refuse(RequestError::AuthFailed);
    for fault in [Fault::forget_reply(), refused] {
        kept.faults.inject(fault.on(Op::Delete));
    }
    kept.say(Link::AuthFailed);
    let mut deletion = pin!(Deletion::send(generation, Doomed::new("/a")));
    // The second attempt is refused.
    let refused = generation.patience() + times::DELETE.0;
    assert!(timeout(refused + MOMENT, &mut deletion).await.is_err() && generation.is_over());
    generation.close().await;
    assert!(timeout(KEPT - 2 * MOMENT, &mut deletion).await.is_err());
    timeout(3 * MOMENT, deletion).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_close_that_nobody_answers_counts_from_the_end() {
    let (kept, _) = unkept().await;
    let mut deletion = pin!(looked_for(&kept).await);
    kept.say(Link::Down);
    kept.generation.end();
    kept.generation.close().await;
    assert!(timeout(KEPT - times::CLOSE - MOMENT, &mut deletion).await.is_err());
    timeout(2 * MOMENT, deletion).await.unwrap().unwrap();
}

/// Which it may do at any time, and it is not recorded when it was connected last.
#[tokio::test(start_paused = true)]
async fn a_client_that_gives_up_while_it_is_closed_does_not_speak_for_the_servers() {
    let (kept, _) = unkept().await;
    let mut deletion = pin!(looked_for(&kept).await);
    kept.say(Link::Down);
    kept.generation.end();
    kept.generation.close().await;
    assert!(timeout(T, &mut deletion).await.is_err());
    kept.say(Link::Expired);
    // A session can be closed twice.
    kept.generation.close().await;
    assert!(timeout(KEPT - MOMENT, &mut deletion).await.is_err());
    timeout(2 * MOMENT, deletion).await.unwrap().unwrap();
}

/// It loses the connection and gives up in one step, of which the keeper sees the end only.
#[tokio::test(start_paused = true)]
async fn a_client_that_stood_still_and_gives_up_does_not_speak_for_the_servers() {
    for (stood, word) in [(Duration::ZERO, true), (T + T / 2, false)] {
        let (kept, _) = unkept().await;
        drop(kept.hold("/b", StopAt::Lost).await);
        let mut deletion = pin!(looked_for(&kept).await);
        sleep(stood).await;
        kept.say(Link::Expired);
        kept.generation.end();
        kept.generation.close().await;
        let bound = if word { times::CLOSE + MOMENT } else { KEPT - MOMENT };
        let over = timeout(bound, &mut deletion).await;
        assert_eq!(over.is_ok(), word, "after {stood:?}");
        if !word {
            timeout(2 * MOMENT, deletion).await.unwrap().unwrap();
        }
    }
}

/// As after a shorter standstill: the connection was lost long before that is seen.
#[tokio::test(start_paused = true)]
async fn so_it_is_where_the_loss_of_the_connection_is_seen_late() {
    let (kept, _) = unkept().await;
    drop(kept.hold("/b", StopAt::Lost).await);
    let mut deletion = pin!(looked_for(&kept).await);
    sleep(T * 7 / 10).await;
    kept.generation.disconnected();
    let lost = MOMENT;
    sleep(T * 7 / 10).await;
    kept.say(Link::Expired);
    kept.generation.end();
    kept.generation.close().await;
    let rest = KEPT - T * 7 / 10;
    assert!(timeout(rest - lost, &mut deletion).await.is_err());
    timeout(2 * MOMENT, deletion).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_close_that_is_answered_is_enough_however_the_connection_was() {
    let (kept, _) = unkept().await;
    let mut deletion = pin!(looked_for(&kept).await);
    sleep(MOMENT).await;
    kept.generation.disconnected();
    sleep(MOMENT).await;
    kept.generation.reconnected();
    kept.generation.end();
    kept.say(Link::Closed);
    kept.generation.close().await;
    timeout(times::CLOSE + MOMENT, &mut deletion).await.unwrap().unwrap();
}

/// The server answered none of its attempts for so long that it must have ended the session, and did not.
#[tokio::test(start_paused = true)]
async fn one_of_several_that_counts_as_done_is_sent_again_while_another_is_waited_for() {
    for is_last in [false, true] {
        let kept = kept().await;
        let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
        let throttled = || {
            let error = RequestError::Other("throttled".to_owned());
            Fault::refuse(error).on(Op::Delete).path("/a").times(u64::MAX)
        };
        kept.faults.inject(throttled());
        kept.faults.inject(Fault::forget_reply().on(Op::Delete).path("/b").times(u64::MAX));
        let mut deletions = Vec::new();
        for path in if is_last { ["/a", "/b"] } else { ["/b", "/a"] } {
            coordinator.create(path, b"", NodeKind::Ephemeral).await.unwrap();
            deletions.push(Deletion::send(generation, Doomed::new(path)));
        }
        let mut all = pin!(Deletions::from_iter(deletions));
        assert!(timeout(KEPT + T, &mut all).await.is_err());
        assert_eq!((generation.undeleted(), generation.overdue()), (2, 2));
        kept.faults.clear();
        kept.faults.inject(throttled());
        assert!(timeout(2 * T, &mut all).await.is_err());
        assert_eq!(generation.undeleted(), 1, "that of `/b` was not sent again");
        kept.faults.clear();
        timeout(T, all).await.unwrap().unwrap();
        assert_eq!(generation.overdue(), 0);
    }
}

/// The answer to the creation is lost, and the server shows nobody what is in the directory.
#[tokio::test(start_paused = true)]
async fn a_node_in_doubt_that_nobody_waits_for_and_cannot_be_found_is_overdue() {
    let kept = kept().await;
    let generation = &kept.generation;
    generation.create("/d", b"", NodeKind::Persistent).await.unwrap();
    kept.faults.inject(Fault::forget_reply().on(Op::Create));
    let throttled = Fault::refuse(RequestError::Other("throttled".to_owned())).on(Op::Children);
    kept.faults.inject(throttled.times(u64::MAX));
    let (prefix, payload, proof) = ("x-".to_owned(), PAYLOAD.to_vec(), Proof::Name);
    let node = NewNode { prefix, payload, proof, kind: NodeKind::EphemeralSequential };
    drop(PendingCreate::send(generation, "/d".into(), node));
    sleep(MOMENT).await;
    assert_eq!((generation.undeleted(), generation.overdue()), (1, 0));
    sleep(T).await;
    assert_eq!((generation.undeleted(), generation.overdue()), (1, 1));
    kept.faults.clear();
    sleep(T).await;
    assert_eq!((generation.undeleted(), generation.overdue()), (0, 0));
    assert!(generation.coordinator().children("/d").await.unwrap().is_empty());
}

/// The same for a directory that was created and not used.
#[tokio::test(start_paused = true)]
async fn an_unused_directory_whose_deletion_is_not_answered_is_overdue() {
    let kept = kept().await;
    let generation = &kept.generation;
    generation.create("/d", b"", NodeKind::Container).await.unwrap();
    let unused = Unused::default();
    assert!(unused.making(generation, "/d"));
    kept.faults.inject(Fault::forget_reply().on(Op::Multi).path("/d").times(u64::MAX));
    drop(unused);
    sleep(MOMENT).await;
    assert_eq!((generation.undeleted(), generation.overdue()), (1, 0));
    sleep(T / 2).await;
    assert_eq!((generation.undeleted(), generation.overdue()), (1, 1));
    kept.faults.clear();
    sleep(2 * T).await;
    assert_eq!((generation.undeleted(), generation.overdue()), (0, 0));
    assert_eq!(generation.coordinator().children("/d").await, Err(RequestError::NoNode));
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_an_unused_directory_is_sent_again_if_its_answer_is_lost() {
    for is_applied in [true, false] {
        let kept = kept().await;
        let generation = &kept.generation;
        generation.create("/d", b"", NodeKind::Container).await.unwrap();
        let unused = Unused::default();
        assert!(unused.making(generation, "/d"));
        let lost = if is_applied { Fault::forget_reply() } else { Fault::lose_request() };
        kept.faults.inject(lost.on(Op::Multi).path("/d"));
        drop(unused);
        let again = timeout(2 * generation.patience(), generation.clean());
        again.await.expect("it is not sent again");
        assert_eq!(generation.coordinator().children("/d").await, Err(RequestError::NoNode));
    }
}

/// Its removal is tidiness, and nobody waits for that.
#[tokio::test(start_paused = true)]
async fn a_directory_whose_removal_is_not_answered_keeps_no_session_open() {
    let kept = kept().await;
    let generation = &kept.generation;
    generation.create("/d", b"", NodeKind::Persistent).await.unwrap();
    generation.create("/d/a", b"", NodeKind::Ephemeral).await.unwrap();
    kept.faults.inject(Fault::forget_reply().on(Op::Delete).path("/d").skip(1));
    let options = DeleteOptions { only: None, directory: true };
    let doomed = Doomed { options, ..Doomed::new("/d/a") };
    Deletion::send(generation, doomed).await.unwrap();
    let clean = timeout(2 * generation.patience(), generation.clean());
    clean.await.expect("it is waited for");
    assert_eq!(generation.coordinator().children("/d").await, Err(RequestError::NoNode));
}

/// Where one node at a time is created, who is next waits until that of the one before is gone. After the end
/// of the session, that may be as late as the servers end it; a creation has no use for the session any more.
#[tokio::test(start_paused = true)]
async fn who_waits_for_the_turn_of_a_node_in_doubt_does_not_wait_for_the_end_of_the_session() {
    let (kept, _) = unkept().await;
    let generation = &kept.generation;
    let made = generation.coordinator().create("/a", b"", NodeKind::Ephemeral).await.unwrap();
    let options = DeleteOptions { only: Some(Which::Newer(made.stat.czxid - 1)), directory: false };
    let turn = generation.gate("/d").lock_owned().await;
    kept.faults.hold_requests();
    let doomed = Doomed { options, turn: Some(turn), ..Doomed::new("/a") };
    drop(Deletion::send(generation, doomed));
    let (prefix, payload) = ("n-".to_owned(), Vec::new());
    let (proof, kind) = (Proof::Owner, NodeKind::EphemeralSequential);
    let next =
        PendingCreate::send(generation, "/d".into(), NewNode { prefix, payload, proof, kind });
    let mut next = pin!(next);
    assert!(timeout(T, &mut next).await.is_err());
    generation.end();
    assert_eq!(timeout(MOMENT, next).await.unwrap().unwrap_err(), RequestError::ConnectionLoss);
}

/// A request that is sent meanwhile is applied after the reconnect, when nobody may want it any more.
#[tokio::test(start_paused = true)]
async fn who_waits_for_its_turn_creates_a_node_only_while_connected() {
    let kept = kept().await;
    let generation = &kept.generation;
    generation.coordinator().create("/d", b"", NodeKind::Persistent).await.unwrap();
    let turn = generation.gate("/d").lock_owned().await;
    let (prefix, payload) = ("n-".to_owned(), Vec::new());
    let (proof, kind) = (Proof::Owner, NodeKind::EphemeralSequential);
    let node = NewNode { prefix, payload, proof, kind };
    let mut made = pin!(PendingCreate::send(generation, "/d".into(), node));
    assert!(timeout(MOMENT, &mut made).await.is_err());
    kept.faults.disconnect();
    drop(turn);
    assert!(timeout(MOMENT, &mut made).await.is_err());
    assert!(!made.is_sent());
    kept.faults.reconnect();
    made.await.unwrap();
}

/// The server may not have heard yet of a mark whose write was not answered.
#[tokio::test(start_paused = true)]
async fn a_mark_in_doubt_is_looked_for_behind_what_the_leader_knows() {
    let (kept, _keeping) = unkept().await;
    let coordinator = kept.generation.coordinator();
    let mark = Mark { kept: false, node: 7, delay: T, until: 0, lost: false };
    coordinator.create("/d", &mark.to_data(), NodeKind::Persistent).await.unwrap();
    coordinator.create("/d/n", b"", NodeKind::Ephemeral).await.unwrap();
    let removal = MarkRemoval { directory: "/d".into(), mark, version: None };
    let doomed = Doomed { mark: Some(Box::new(removal)), ..Doomed::new("/d/n") };
    Deletion::send(&kept.generation, doomed).await.unwrap();
    assert_eq!(kept.syncs.load(Ordering::SeqCst), 1);
    assert!(coordinator.get("/d").await.unwrap().0.is_empty());
    assert!(coordinator.get("/d/n").await.is_err());
}
