//! What a heartbeat finds, and what it costs beside the other requests of the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::bed::{Kept, MEDDLED, MOMENT, PAYLOAD, T, kept, kept_below};
use crate::base::owner::{Owner, REVOKE};
use crate::base::policy::StopAt;
use crate::coordinator::memory::{Fault, Op};
use crate::coordinator::node::NodeKind;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Reply;
use crate::layout::new_node::{NewNode, Proof};
use crate::observe::observer::{Event, LossReason};
use crate::session::generation::{Generation, HeldNode, MOST_CHECKED};
use crate::session::releaser::{DeleteOptions, Deletion, Doomed, PendingCreate, Which};

/// Commits again and again, as short locks on the same session do.
async fn is_busy(generation: Arc<Generation>) {
    loop {
        generation.create("/short", b"", NodeKind::Ephemeral).await.unwrap();
        sleep(T / 60).await;
        generation.delete("/short").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn other_commits_hide_neither_a_deletion_nor_a_wish() {
    let kept = kept().await;
    let busy = tokio::spawn(is_busy(kept.generation.clone()));
    // Between two heartbeats, at various moments; and the first has no watch yet.
    for (round, held_for) in [0, 3, 11, 17, 60].into_iter().enumerate() {
        for is_watched in [true, false] {
            let path = format!("/{round}-{is_watched}");
            let (gone, asked) = (format!("{path}-gone"), format!("{path}-asked"));
            let gone = kept.hold(&gone, StopAt::Suspect).await;
            let asked = kept.hold(&asked, StopAt::Lost).await;
            let watches = kept.generation.watches();
            let more = || watches.take(["/elsewhere"]).filter(|_| !is_watched);
            let full: Vec<_> = std::iter::from_fn(more).collect();
            sleep(held_for * T / 60).await;
            let coordinator = kept.generation.coordinator();
            coordinator.delete(&gone.path).await.unwrap();
            coordinator.set(&asked.path, REVOKE).await.unwrap();
            sleep(T / 6 + MOMENT).await;
            assert!(gone.is_gone() && asked.is_revoked(), "{path}");
            assert!(kept.is_valid(&asked));
            assert_eq!(coordinator.get(&asked.path).await.unwrap().0, PAYLOAD);
            drop(full);
            kept.generation.unhold(&asked);
            coordinator.delete(&asked.path).await.unwrap();
            sleep(T / 3).await;
        }
    }
    busy.abort();
}

/// Whenever between two heartbeats it came.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_known_at_once_to_who_held_for_longer_than_a_quarter_of_the_session_timeout()
{
    let kept = kept().await;
    let _always = kept.hold("/always", StopAt::Lost).await;
    for phase in 0..20 {
        sleep(T / 6 + phase * T / 120).await;
        let held = kept.hold(&format!("/{phase}"), StopAt::Lost).await;
        sleep(T / 4 + MOMENT).await;
        kept.generation.coordinator().delete(&held.path).await.unwrap();
        sleep(MOMENT).await;
        assert!(held.is_gone(), "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_released_during_a_heartbeat_does_not_fail_it_node_by_node() {
    let kept = kept().await;
    let generation = &kept.generation;
    for number in 0..MOST_CHECKED {
        kept.hold(&format!("/long{number}"), StopAt::Lost).await;
    }
    sleep(MOMENT).await;
    let mut short = Vec::new();
    for number in 0..50 {
        short.push(kept.hold(&format!("/short{number}"), StopAt::Lost).await);
    }
    for node in &short {
        generation.coordinator().delete(&node.path).await.unwrap();
    }
    kept.faults.delay_replies(T / 60);
    while kept.multis.load(Ordering::SeqCst) == 0 {
        sleep(MOMENT).await;
    }
    // They are in the second batch, whose answer names one of them.
    short.iter().for_each(|node| generation.unhold(node));
    sleep(T / 10).await;
    assert_eq!((kept.multis.load(Ordering::SeqCst), generation.losses()), (2, 0));
}

/// The answer to the first commit is lost, and the second one comes behind their deletions. What others delete is
/// found all the same.
#[tokio::test(start_paused = true)]
async fn what_is_released_before_a_heartbeat_is_sent_again_leads_to_no_reads() {
    for is_another_deleted in [false, true] {
        let kept = kept().await;
        let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
        let full: Vec<_> = std::iter::from_fn(|| generation.watches().take([""])).collect();
        kept.hold("/long", StopAt::Lost).await;
        // Later than the heartbeat that writes into it, and soon before the next one.
        sleep(T / 3 - T / 24).await;
        let mut short = Vec::new();
        for number in 0..100 {
            short.push(kept.hold(&format!("/short{number}"), StopAt::Lost).await);
        }
        let before = kept.multis.load(Ordering::SeqCst);
        kept.forgets.store(1, Ordering::SeqCst);
        sleep(T / 24 + MOMENT).await;
        assert_eq!(kept.multis.load(Ordering::SeqCst), before + 1);
        for node in &short[..50] {
            generation.unhold(node);
            coordinator.delete(&node.path).await.unwrap();
        }
        if is_another_deleted {
            coordinator.delete(&short[70].path).await.unwrap();
        }
        sleep(generation.patience()).await;
        if is_another_deleted {
            assert!(short[70].is_gone() && generation.losses() == 1);
        } else {
            // Again, and without them.
            assert_eq!(kept.multis.load(Ordering::SeqCst), before + 3);
            assert_eq!((kept.gets.load(Ordering::SeqCst), generation.losses()), (0, 0));
        }
        drop(full);
    }
}

#[tokio::test(start_paused = true)]
async fn short_locks_on_a_busy_session_cost_no_heartbeat() {
    let kept = kept().await;
    let generation = &kept.generation;
    for _ in 0..200 {
        let node = kept.hold("/a", StopAt::Suspect).await;
        sleep(T / 10).await;
        generation.unhold(&node);
        generation.delete("/a").await.unwrap();
    }
    assert_eq!(kept.multis.load(Ordering::SeqCst), 0);
    let _long = kept.hold("/a", StopAt::Suspect).await;
    for _ in 0..200 {
        let node = kept.hold("/b", StopAt::Suspect).await;
        sleep(T / 10).await;
        generation.unhold(&node);
        generation.delete("/b").await.unwrap();
    }
    // One in each sixth of a session timeout.
    let beats = kept.multis.load(Ordering::SeqCst);
    assert!((118..=121).contains(&beats), "{beats}");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_deleted_and_made_although_the_answers_are_forgotten() {
    let kept = kept().await;
    let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
    coordinator.create("/d", b"", NodeKind::Persistent).await.unwrap();
    kept.hold("/b", StopAt::Lost).await;
    let prefix = "n-".to_owned();
    let (payload, proof, kind) = (Vec::new(), Proof::Name, NodeKind::EphemeralSequential);
    let new = NewNode { prefix, payload, proof, kind };
    kept.forgets.store(1, Ordering::SeqCst);
    let made =
        timeout(2 * T, PendingCreate::send(generation, "/d".into(), new)).await.unwrap().unwrap();
    let names = coordinator.children("/d").await.unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(made.path.ends_with(&names[0]));
    kept.forgets.store(1, Ordering::SeqCst);
    let deletion = Deletion::send(generation, Doomed::new(made.path));
    timeout(2 * T, deletion).await.unwrap().unwrap();
    assert!(coordinator.children("/d").await.unwrap().is_empty());
    generation.clean().await;
}

/// The server of a new connection may be behind: it would show the node that is deleted, and what is at
/// its path by then is another's.
#[tokio::test(start_paused = true)]
async fn who_deletes_only_its_own_node_lets_the_server_catch_up_before_each_look() {
    let kept = kept().await;
    let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
    for recurs in [false, true] {
        let made = coordinator.create("/d", b"", NodeKind::Ephemeral).await.unwrap();
        let only = recurs.then_some(Which::Czxid(made.stat.czxid));
        let options = DeleteOptions { only, directory: false };
        kept.forgets.store(1, Ordering::SeqCst);
        let deletion = Deletion::send(generation, Doomed { options, ..Doomed::new("/d") });
        timeout(2 * T, deletion).await.unwrap().unwrap();
        assert_eq!(coordinator.get("/d").await.unwrap_err(), RequestError::NoNode);
        // Before each of two looks.
        assert_eq!(kept.syncs.load(Ordering::SeqCst), 2 * u32::from(recurs));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_looked_for_goes_with_its_session() {
    let kept = kept().await;
    let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
    coordinator.create("/d", b"", NodeKind::Persistent).await.unwrap();
    let held = kept.hold("/b", StopAt::Lost).await;
    let prefix = "n-".to_owned();
    let (payload, proof, kind) = (Vec::new(), Proof::Name, NodeKind::EphemeralSequential);
    let new = NewNode { prefix, payload, proof, kind };
    kept.forgets.store(1, Ordering::SeqCst);
    kept.faults.inject(Fault::refuse(RequestError::NoAuth).on(Op::Children).path("/d"));
    let made = timeout(2 * T, PendingCreate::send(generation, "/d".into(), new)).await.unwrap();
    assert_eq!(made.unwrap_err(), RequestError::NoAuth);
    assert!(generation.was_retired() && kept.is_valid(&held));
    generation.unhold(&held);
    sleep(T).await;
    assert!(generation.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_written_all_the_time_hides_no_deletion() {
    let kept = kept().await;
    let coordinator = kept.generation.coordinator();
    let full: Vec<_> = std::iter::from_fn(|| kept.generation.watches().take([""])).collect();
    let written = kept.hold(MEDDLED, StopAt::Lost).await;
    let gone = kept.hold("/gone", StopAt::Lost).await;
    kept.meddles.store(true, Ordering::SeqCst);
    coordinator.set(MEDDLED, b"a stranger's").await.unwrap();
    coordinator.delete("/gone").await.unwrap();
    sleep(T / 6 + MOMENT).await;
    assert!(gone.is_gone() && kept.is_valid(&written) && !written.is_gone());
    drop(full);
}

/// Its session commits nothing else.
#[tokio::test(start_paused = true)]
async fn a_lone_node_that_is_written_all_the_time_is_checked_all_the_same() {
    let kept = kept().await;
    let coordinator = kept.generation.coordinator();
    let full: Vec<_> = std::iter::from_fn(|| kept.generation.watches().take([""])).collect();
    let written = kept.hold(MEDDLED, StopAt::Lost).await;
    kept.meddles.store(true, Ordering::SeqCst);
    coordinator.set(MEDDLED, b"a stranger's").await.unwrap();
    for tenths in 1..=20 {
        sleep(T / 10).await;
        assert!(kept.is_valid(&written), "lost after {tenths} T/10");
    }
    coordinator.delete(MEDDLED).await.unwrap();
    sleep(T / 6 + MOMENT).await;
    assert!(written.is_gone());
    drop(full);
}

#[tokio::test(start_paused = true)]
async fn of_many_batches_none_waits_for_the_answer_to_another() {
    const ANSWER: Duration = Duration::from_millis(100);
    let kept = kept().await;
    let full: Vec<_> = std::iter::from_fn(|| kept.generation.watches().take([""])).collect();
    for number in 0..8 * MOST_CHECKED {
        kept.hold(&format!("/{number}"), StopAt::Lost).await;
    }
    let gone = kept.hold("/gone", StopAt::Lost).await;
    kept.generation.coordinator().delete("/gone").await.unwrap();
    kept.faults.delay_replies(ANSWER);
    // It is asked for all, and what is not there is read.
    sleep(T / 6 + 2 * ANSWER + MOMENT).await;
    assert!(gone.is_gone());
    drop(full);
}

/// All together would be more than a server accepts in one request.
#[tokio::test(start_paused = true)]
async fn where_paths_are_long_a_heartbeat_is_several_requests() {
    let kept = kept().await;
    let full: Vec<_> = std::iter::from_fn(|| kept.generation.watches().take([""])).collect();
    let long = "n".repeat(8_000);
    let mut held = Vec::new();
    for number in 1..MOST_CHECKED {
        held.push(kept.hold(&format!("/{long}{number}"), StopAt::Lost).await);
    }
    let gone = kept.hold(&format!("/{long}-gone"), StopAt::Lost).await;
    kept.generation.coordinator().delete(&gone.path).await.unwrap();
    sleep(T / 6 + MOMENT).await;
    assert!(gone.is_gone());
    sleep(2 * T).await;
    assert!(held.iter().all(|node| kept.is_valid(node)) && kept.generation.losses() == 1);
    drop(full);
}

/// What is written into the nodes counts as well.
#[tokio::test(start_paused = true)]
async fn where_much_is_written_into_nodes_a_heartbeat_is_several_requests() {
    let kept = kept().await;
    let owner = Owner::here(Some(&"a".repeat(2_000))).to_payload();
    let (long, mut held) = ("n".repeat(3_000), Vec::new());
    for number in 0..MOST_CHECKED {
        let path = format!("/{long}{number}");
        held.push(kept.hold_with(&path, StopAt::Lost, &owner).await);
    }
    held.iter().for_each(|node| node.unsure());
    sleep(T / 6 + MOMENT).await;
    assert!(held.iter().all(|node| node.seen() > node.since() && node.version() == 1));
}

/// The client library puts the chroot before each path.
#[tokio::test(start_paused = true)]
async fn below_a_long_chroot_a_heartbeat_is_several_requests() {
    let kept = kept_below(&"/c".repeat(2_500)).await;
    for number in 0..MOST_CHECKED {
        kept.hold(&format!("/{number}"), StopAt::Lost).await;
    }
    sleep(T / 6 + MOMENT).await;
    assert_eq!(kept.multis.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_read_keeps_no_other_from_being_checked() {
    let kept = kept().await;
    let full: Vec<_> = std::iter::from_fn(|| kept.generation.watches().take([""])).collect();
    let unreadable = kept.hold("/unreadable", StopAt::Lost).await;
    unreadable.recurs();
    let other = kept.hold("/other", StopAt::Lost).await;
    for number in 2..MOST_CHECKED {
        kept.hold(&format!("/{number}"), StopAt::Lost).await;
    }
    let gone = kept.hold("/gone", StopAt::Lost).await;
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Get).path("/unreadable");
    kept.faults.inject(refused.times(u64::MAX));
    kept.generation.coordinator().delete("/gone").await.unwrap();
    sleep(T / 6 + MOMENT).await;
    assert!(gone.is_gone() && kept.is_valid(&unreadable) && !unreadable.is_gone());
    assert!([&unreadable, &other].iter().all(|node| node.seen() > node.since()));
    drop(full);
}

/// As with an ACL that does not let its own session read: other commits renew its lease.
#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_node_that_may_not_be_checked_goes_unnoticed_while_others_commit() {
    let kept = kept().await;
    let busy = tokio::spawn(is_busy(kept.generation.clone()));
    let node = kept.hold("/hidden", StopAt::Lost).await;
    let check = RequestError::Multi { index: 0, error: Box::new(RequestError::NoAuth) };
    for (op, refusal) in [(Op::Multi, check), (Op::Get, RequestError::NoAuth)] {
        let refused = Fault::refuse(refusal).on(op).path("/hidden");
        kept.faults.inject(refused.times(u64::MAX));
    }
    kept.generation.coordinator().delete("/hidden").await.unwrap();
    sleep(2 * T).await;
    assert!(kept.is_valid(&node) && !node.is_gone());
    busy.abort();
    sleep(T).await;
    assert!(!kept.is_valid(&node) && !node.is_gone() && !kept.generation.is_over());
}

/// Holds many nodes without watches, lets a stranger do something to all of them, and counts what the next
/// heartbeat costs: commits, reads, and how often those who wait for a change are woken.
async fn costs_of_many(kept: &Kept, done: impl Fn(&Arc<HeldNode>) -> Reply<()>) -> [u32; 3] {
    let full: Vec<_> = std::iter::from_fn(|| kept.generation.watches().take([""])).collect();
    let mut nodes = Vec::new();
    for number in 0..MANY {
        nodes.push(kept.hold(&format!("/{number}"), StopAt::Lost).await);
    }
    for node in &nodes {
        done(node).await.unwrap();
    }
    let (generation, woken) = (kept.generation.clone(), Arc::new(AtomicU32::new(0)));
    let wakes = woken.clone();
    let waiter = tokio::spawn(async move {
        loop {
            generation.changed().await;
            wakes.fetch_add(1, Ordering::SeqCst);
        }
    });
    // Each round trip takes some time.
    kept.faults.delay_replies(T / 200);
    sleep(T / 3 - MOMENT).await;
    assert!(nodes.iter().all(|node| node.is_gone() || node.is_revoked()));
    waiter.abort();
    drop(full);
    [&kept.multis, &kept.gets, &woken].map(|count| count.load(Ordering::SeqCst))
}

/// Three batches.
const MANY: u32 = 3 * MOST_CHECKED as u32;

#[tokio::test(start_paused = true)]
async fn of_a_mass_deletion_all_are_told_at_once() {
    let kept = kept().await;
    let coordinator = kept.generation.coordinator();
    let [commits, reads, wakes] = costs_of_many(&kept, |node| coordinator.delete(&node.path)).await;
    assert_eq!(kept.generation.losses(), u64::from(MANY));
    assert!(commits <= 3 && reads < MANY && wakes <= 6, "{commits}, {reads}, {wakes}");
}

#[tokio::test(start_paused = true)]
async fn of_a_mass_request_for_release_all_are_told_at_once() {
    let kept = kept().await;
    let coordinator = kept.generation.coordinator();
    let asks = |node: &Arc<HeldNode>| -> Reply<()> {
        let asked = coordinator.set(&node.path, REVOKE);
        Box::pin(async move { asked.await.map(drop) })
    };
    let [commits, reads, _] = costs_of_many(&kept, asks).await;
    // Each node is restored, and read again after that.
    assert!(commits <= MANY + 9 && reads <= 2 * MANY, "{commits}, {reads}");
    assert_eq!(kept.generation.losses(), 0);
}

/// Its paths recur, and it was not watched.
#[tokio::test(start_paused = true)]
async fn a_held_node_is_lost_when_another_one_is_held_at_its_path() {
    let kept = kept().await;
    let before = kept.hold("/a", StopAt::Lost).await;
    kept.generation.coordinator().delete("/a").await.unwrap();
    let after = kept.hold("/a", StopAt::Suspect).await;
    assert!(before.is_gone() && !after.is_gone() && kept.generation.losses() == 1);
    // Observers have a thread of their own.
    let told = loop {
        if let Event::Lost { czxid, reason, .. } =
            kept.events.recv_timeout(Duration::from_secs(60)).unwrap()
        {
            break (czxid, reason);
        }
    };
    assert_eq!(told, (before.czxid.unsigned_abs(), LossReason::Deleted));
    // A late word about the first one is not about the second.
    kept.generation.lost_node(&before, LossReason::Deleted);
    assert!(kept.generation.is_held(&after));
}
