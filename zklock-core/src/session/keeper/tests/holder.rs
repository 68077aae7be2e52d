//! Who holds for longer than a heartbeat is written into the node.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use super::bed::{Kept, MOMENT, T, kept};
use crate::base::clock::{Clock, Instant};
use crate::base::mode::Mode;
use crate::base::owner::{Owner, REVOKE};
use crate::base::pattern::Pattern;
use crate::base::policy::StopAt;
use crate::base::token::FencingToken;
use crate::coordinator::memory::{Fault, Op};
use crate::coordinator::node::NodeKind;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::session::generation::HeldNode;
use crate::session::local_queues::{Holding, LocalContender, LocalQueue};

/// A queue whose node is held by nobody, or by one after the other. It counts how often it is asked who.
#[derive(Debug)]
struct Holders(
    Arc<dyn LockDriver>,
    Mutex<Option<(u64, Instant, &'static str)>>,
    AtomicBool,
    AtomicU32,
    Arc<str>,
);

impl Holders {
    fn passes_to(&self, number: u64, label: &'static str) {
        let holder = Some((number, Clock::Caller.now(), label));
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = holder;
    }
}

impl LocalQueue for Holders {
    fn driver(&self) -> &Arc<dyn LockDriver> {
        &self.0
    }
    fn contenders(&self) -> Vec<LocalContender> {
        Vec::new()
    }
    fn is_in_use(&self) -> bool {
        false
    }
    fn tally(&self, _: &mut dyn FnMut(Pattern, Mode, bool)) {}
    fn holdings(&self, each: &mut dyn FnMut(&Arc<str>, Holding)) {
        self.3.fetch_add(1, Ordering::SeqCst);
        let Some((number, since, label)) = *self.1.lock().unwrap() else { return };
        let label = Some(label.into()).filter(|label: &Arc<str>| !label.is_empty());
        each(&self.4, Holding { token: FencingToken::new(7, number), since, label });
    }
    fn close(self: Arc<Self>) {}
    fn leases_lost(self: Arc<Self>) {}
    fn is_semaphore(&self) -> bool {
        false
    }
    fn user(&self) -> Option<(Mode, LocalContender)> {
        None
    }
    fn is_beside_another(&self) -> &AtomicBool {
        &self.2
    }
}

impl Kept {
    /// Holds a node with the data of this library, and with a queue that knows who holds it.
    async fn hold_with_label(&self, label: &'static str) -> (Arc<HeldNode>, Arc<Holders>) {
        self.hold_at("/a", label).await
    }

    /// The same at a path.
    async fn hold_at(&self, path: &str, label: &'static str) -> (Arc<HeldNode>, Arc<Holders>) {
        let make = |_| {
            let (driver, holder) = (Arc::new(Curator), Mutex::new(None));
            Arc::new(Holders(driver, holder, false.into(), 0.into(), path.into()))
        };
        let queue = self.local_queues.local_queue(path, make).unwrap();
        let payload = Owner::here(Some("orders")).label(Some(label)).to_payload();
        let generation = &self.generation;
        let created = generation.create(path, &payload, NodeKind::Ephemeral).await.unwrap();
        let term = generation.grantable(StopAt::Lost).unwrap();
        let (czxid, payload) = (created.stat.czxid, Some(payload.into()));
        let node = generation.hold(path.into(), "a".into(), czxid, term, payload).unwrap();
        queue.passes_to(1, label);
        (node, queue)
    }

    /// What others see of the holder: the label, whether it says since when, and the writes so
    /// far.
    async fn seen(&self) -> (Option<String>, bool, u32) {
        let (data, _) = self.generation.coordinator().get("/a").await.unwrap();
        let owner = Owner::from_payload(&data);
        assert_eq!(owner.app.as_deref(), Some("orders"));
        (owner.label, owner.granted.is_some(), self.writes.load(Ordering::SeqCst))
    }
}

fn label(label: &str) -> Option<String> {
    Some(label.to_owned())
}

#[tokio::test(start_paused = true)]
async fn who_holds_for_longer_than_a_heartbeat_is_written_once_with_that_heartbeat() {
    let kept = kept().await;
    let (_node, _queue) = kept.hold_with_label("import").await;
    sleep(T / 6 - MOMENT).await;
    assert_eq!(kept.seen().await, (label("import"), false, 0));
    sleep(2 * MOMENT).await;
    assert_eq!(kept.seen().await, (label("import"), true, 1));
    let beats = kept.multis.load(Ordering::SeqCst);
    assert_eq!(beats, 1, "it has no commit of its own");
    sleep(10 * T).await;
    assert_eq!(kept.seen().await, (label("import"), true, 1));
    let beats = kept.multis.load(Ordering::SeqCst);
    assert!((60..=62).contains(&beats), "{beats}: only heartbeats");
}

/// While what is written is under way, nobody knows the version of the data.
#[tokio::test(start_paused = true)]
async fn a_node_is_written_while_answers_come_late_and_stays_valid() {
    let kept = kept().await;
    let (node, queue) = kept.hold_with_label("import").await;
    kept.faults.delay_replies(T * 23 / 100);
    for tenths in 1..=40 {
        if tenths == 20 {
            queue.passes_to(2, "report");
        }
        sleep(T / 10).await;
        assert!(kept.is_valid(&node), "lost after {tenths} T/10");
    }
    kept.faults.delay_replies(Duration::ZERO);
    sleep(T).await;
    assert_eq!(kept.seen().await, (label("report"), true, 2));
}

#[tokio::test(start_paused = true)]
async fn the_node_names_the_present_holder_a_heartbeat_after_a_handoff() {
    let kept = kept().await;
    let (node, queue) = kept.hold_with_label("").await;
    // Many that hold for a short time: there is nothing to say.
    for number in 2..50 {
        sleep(T / 30).await;
        queue.passes_to(number, "");
    }
    assert_eq!(kept.seen().await, (None, false, 0));
    sleep(T / 4 + MOMENT).await;
    assert_eq!(kept.seen().await, (None, true, 1));
    let before = kept.generation.coordinator().get("/a").await.unwrap().0;
    // What it says now is wrong from the handoff on, at most for a heartbeat.
    queue.passes_to(50, "report");
    sleep(T / 6 + MOMENT).await;
    assert_eq!(kept.seen().await, (label("report"), true, 2));
    let after = kept.generation.coordinator().get("/a").await.unwrap().0;
    assert_ne!(Owner::from_payload(&before).granted, Owner::from_payload(&after).granted);
    // Nobody holds it while it lingers.
    *queue.1.lock().unwrap() = None;
    sleep(T / 6 + MOMENT).await;
    assert_eq!(kept.seen().await, (None, false, 3));
    sleep(T).await;
    assert_eq!(kept.seen().await, (None, false, 3));
    assert!(kept.is_valid(&node));
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_to_release_keeps_its_label_and_the_time_of_its_grant() {
    let kept = kept().await;
    let (node, _queue) = kept.hold_with_label("import").await;
    for round in 0..3 {
        kept.generation.coordinator().set("/a", REVOKE).await.unwrap();
        sleep(T / 6 + MOMENT).await;
        let (data, _) = kept.generation.coordinator().get("/a").await.unwrap();
        let owner = Owner::from_payload(&data);
        assert!(owner.revoked && node.is_revoked(), "{owner}");
        sleep(T / 3).await;
        let seen = kept.seen().await;
        assert_eq!((seen.0, seen.1), (label("import"), true), "{round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_written_is_still_checked() {
    let kept = kept().await;
    kept.refuses.store(true, Ordering::SeqCst);
    let (node, _queue) = kept.hold_with_label("import").await;
    let other = kept.hold("/b", StopAt::Lost).await;
    for _ in 0..100 {
        sleep(T / 10).await;
        assert!(kept.is_valid(&node) && kept.is_valid(&other));
    }
    assert_eq!(kept.seen().await, (label("import"), false, 1));
    let writes = kept.generation.begin_watching(&node);
    kept.generation.coordinator().delete("/a").await.unwrap();
    sleep(T / 6 + MOMENT).await;
    drop(writes);
    assert!(node.is_gone() && !other.is_gone());
}

/// A refused request commits nothing, so the lease would run out if there were one for each node.
#[tokio::test(start_paused = true)]
async fn of_many_nodes_that_may_not_be_written_one_is_tried() {
    const MANY: usize = 100;
    let kept = kept().await;
    kept.refuses.store(true, Ordering::SeqCst);
    let mut held = Vec::new();
    for number in 0..MANY {
        held.push(kept.hold_at(&format!("/{number}"), "import").await);
    }
    sleep(T / 3 + MOMENT).await;
    let sent = [&kept.multis, &kept.writes].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(
        sent,
        [3, 1],
        "a heartbeat that is refused, the same without data, and the next one"
    );
    assert!(held.iter().all(|(node, _)| kept.is_valid(node)));
}

#[tokio::test(start_paused = true)]
async fn data_of_another_format_and_nodes_whose_names_recur_stay_as_they_are() {
    let kept = kept().await;
    let (node, _queue) = kept.hold_with_label("import").await;
    node.recurs();
    let fixed = kept.hold("/b", StopAt::Lost).await;
    sleep(3 * T).await;
    assert_eq!(kept.seen().await, (label("import"), false, 0));
    assert!(kept.is_valid(&fixed));
}

#[tokio::test(start_paused = true)]
async fn what_was_written_without_an_answer_is_written_again() {
    let kept = kept().await;
    let (node, _queue) = kept.hold_with_label("import").await;
    kept.forgets.store(1, Ordering::SeqCst);
    sleep(2 * T).await;
    assert_eq!(kept.forgets.load(Ordering::SeqCst), 0);
    let seen = kept.seen().await;
    assert_eq!((seen.0, seen.1), (label("import"), true));
    assert!(seen.2 <= 3 && kept.is_valid(&node), "{}", seen.2);
}

/// Somebody deletes another node of the session while the holder of this one has gone: nothing of that
/// heartbeat is written.
#[tokio::test(start_paused = true)]
async fn a_holder_that_has_gone_is_taken_out_although_a_heartbeat_wrote_nothing() {
    let kept = kept().await;
    // No watch tells of the deletion before.
    let _all: Vec<_> = std::iter::from_fn(|| kept.generation.watches().take([""])).collect();
    let (_node, queue) = kept.hold_with_label("import").await;
    let _gone = kept.hold("/b", StopAt::Lost).await;
    sleep(T / 6 + MOMENT).await;
    assert_eq!(kept.seen().await, (label("import"), true, 1));
    *queue.1.lock().unwrap() = None;
    kept.generation.coordinator().delete("/b").await.unwrap();
    sleep(T / 3).await;
    let seen = kept.seen().await;
    assert_eq!((seen.0, seen.1), (None, false));
}

/// The request is lost, and no answer tells so.
#[tokio::test(start_paused = true)]
async fn what_a_heartbeat_that_was_given_up_did_not_write_is_written_again() {
    let kept = kept().await;
    let (_node, _queue) = kept.hold_with_label("import").await;
    kept.faults.inject(Fault::lose_request().on(Op::Multi));
    sleep(2 * T).await;
    let seen = kept.seen().await;
    assert_eq!((seen.0, seen.1), (label("import"), true));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_asks_each_queue_once_however_many_nodes_are_held() {
    let kept = kept().await;
    let (_node, queue) = kept.hold_with_label("import").await;
    for number in 0..300 {
        kept.hold(&format!("/{number}"), StopAt::Lost).await;
    }
    sleep(T / 6 + MOMENT).await;
    assert_eq!(kept.multis.load(Ordering::SeqCst), 2, "one for each batch");
    assert_eq!(queue.3.load(Ordering::SeqCst), 1);
    assert_eq!(kept.seen().await, (label("import"), true, 1));
}
