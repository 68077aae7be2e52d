//! What is told although the log panics, a waker of the application or an observer.

use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures_lite::future::zip;
use tokio::time::{sleep, timeout};

use super::bed::{Kept, MOMENT, T, kept, unkept};
use crate::base::policy::StopAt;
use crate::coordinator::memory::{Fault, Op};
use crate::coordinator::node::NodeKind;
use crate::coordinator::request_error::RequestError;
use crate::layout::curator::Curator;
use crate::layout::driver::LockDriver;
use crate::layout::new_node::{NewNode, Proof};
use crate::observe::observer::{Event, Events, Observer};
use crate::session::broken_log::panics_at;
use crate::session::generation::{HeldNode, Since};
use crate::session::releaser::{Deletion, Doomed, PendingCreate};

async fn is_told(kept: &Kept, node: &Arc<HeldNode>) {
    let told = node.until(|| !kept.is_valid(node));
    timeout(2 * T, told).await.expect("who waits for the loss is not told");
}

/// Otherwise it would be in use for ever, and its ZooKeeper session would keep the nodes.
async fn is_ended_and_closed(kept: &Kept) {
    kept.faults.release();
    let generation = &kept.generation;
    let is_over = generation.until(|| generation.is_over());
    timeout(T, is_over).await.expect("the generation goes on");
    let closed = async {
        while !generation.coordinator().link().is_over() {
            sleep(MOMENT).await;
        }
    };
    timeout(T, closed).await.expect("the ZooKeeper session goes on");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_at_a_loss_keeps_it_from_nobody() {
    let kept = kept().await;
    let _log = panics_at("was lost");
    let (one, other) = (kept.hold("/a", StopAt::Lost).await, kept.hold("/b", StopAt::Lost).await);
    kept.faults.hold_replies();
    zip(is_told(&kept, &one), is_told(&kept, &other)).await;
    assert_eq!(kept.generation.losses(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_ends_no_other_lock() {
    for refused in [RequestError::NoAuth, RequestError::NoNode] {
        let kept = kept().await;
        let is_gone = refused == RequestError::NoNode;
        let _log = panics_at(if is_gone { "was lost" } else { "could not be checked" });
        let one = kept.hold("/a", StopAt::Lost).await;
        let other = kept.hold("/b", StopAt::Lost).await;
        let refused = RequestError::Multi { index: 0, error: Box::new(refused) };
        kept.faults.inject(Fault::refuse(refused).on(Op::Multi));
        sleep(2 * T).await;
        let valid = [&one, &other].map(|node| kept.is_valid(node) && !node.is_gone());
        assert_eq!(valid.iter().filter(|valid| **valid).count(), if is_gone { 1 } else { 2 });
        assert!(!kept.generation.is_over());
    }
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_panics_ends_what_it_keeps() {
    let kept = kept().await;
    let node = kept.hold("/a", StopAt::Lost).await;
    kept.panics.store(true, Ordering::SeqCst);
    is_told(&kept, &node).await;
    is_ended_and_closed(&kept).await;
}

/// A waker of the application.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

/// Lets it wait for something.
fn waits(work: Pin<&mut impl Future>) {
    let waker = Waker::from(Arc::new(Panics));
    assert!(work.poll(&mut Context::from_waker(&waker)).is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_at_a_loss_keeps_it_from_no_other_lock() {
    let kept = kept().await;
    let (one, other) = (kept.hold("/a", StopAt::Lost).await, kept.hold("/b", StopAt::Lost).await);
    let mut waiting = pin!(one.until(|| !kept.is_valid(&one)));
    waits(waiting.as_mut());
    kept.faults.hold_replies();
    is_told(&kept, &other).await;
    assert_eq!(kept.generation.losses(), 2);
    assert!(!kept.generation.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_at_a_standstill_keeps_no_other_from_looking() {
    let kept = unkept().await.0;
    let (one, other) = (kept.hold("/a", StopAt::Lost).await, kept.hold("/b", StopAt::Lost).await);
    let mut waiting = pin!(one.until(|| false));
    waits(waiting.as_mut());
    let mut changed = pin!(kept.generation.changed());
    waits(changed.as_mut());
    let mut told = pin!(other.changed());
    told.as_mut().enable();
    tokio::time::advance(T / 3).await;
    drop(kept.generation.delete("/none"));
    timeout(MOMENT / 2, told).await.expect("it does not look");
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_at_the_end_of_a_session_does_not_keep_it_open() {
    let kept = kept().await;
    let node = kept.hold("/a", StopAt::Lost).await;
    sleep(MOMENT).await;
    let mut state = kept.state.clone();
    state.mark_unchanged();
    let mut changed = pin!(state.changed());
    waits(changed.as_mut());
    kept.panics.store(true, Ordering::SeqCst);
    is_told(&kept, &node).await;
    is_ended_and_closed(&kept).await;
}

/// It can be a user's.
#[tokio::test(start_paused = true)]
async fn a_coordinator_that_panics_at_a_list_keeps_no_later_one_from_being_made() {
    let (kept, _keeping) = unkept().await;
    let driver: Arc<dyn LockDriver> = Arc::new(Curator);
    let list = || kept.generation.list("/", &driver, Since::Now);
    kept.panics.store(true, Ordering::SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(list)).is_err());
    let listed = timeout(2 * T, list()).await.expect("it waits for a list that nobody makes");
    assert!(listed.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_ends_no_deletion() {
    let kept = kept().await;
    let coordinator = kept.generation.coordinator();
    for (text, refusal) in
        [("deleting again", None), ("refused to delete", Some(RequestError::NoAuth))]
    {
        coordinator.create("/a", b"", NodeKind::Ephemeral).await.unwrap();
        let _log = panics_at(text);
        let fault = refusal.clone().map_or_else(Fault::lose_reply, Fault::refuse);
        kept.faults.inject(fault.on(Op::Delete));
        let deletion = Deletion::send(&kept.generation, Doomed::new("/a"));
        let deleted = timeout(2 * T, deletion).await.expect("it does not end");
        assert_eq!(deleted.err(), refusal);
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_loses_no_creation_in_doubt() {
    let kept = kept().await;
    let (generation, coordinator) = (&kept.generation, kept.generation.coordinator());
    coordinator.create("/d", b"", NodeKind::Persistent).await.unwrap();
    for text in ["a creation is in doubt", "looking again"] {
        let _log = panics_at(text);
        kept.faults.inject(Fault::lose_reply().on(Op::Create).path("/d/"));
        kept.faults.inject(Fault::lose_reply().on(Op::Children).path("/d"));
        let (prefix, payload) = (format!("{}-", text.replace(' ', "-")), Vec::new());
        let new =
            NewNode { prefix, payload, proof: Proof::Name, kind: NodeKind::EphemeralSequential };
        let made = PendingCreate::send(generation, "/d".into(), new);
        timeout(2 * T, made).await.expect("it does not end").unwrap();
    }
    assert_eq!(coordinator.children("/d").await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_at_a_heartbeat_without_an_answer_ends_nothing() {
    let kept = kept().await;
    let _log = panics_at("a heartbeat was not answered");
    let node = kept.hold("/a", StopAt::Lost).await;
    kept.faults.inject(Fault::lose_reply().on(Op::Multi));
    sleep(2 * T).await;
    assert!(kept.is_valid(&node) && !kept.generation.is_over());
}

/// Panics at the first event, and so does the log on its thread from then on.
#[derive(Debug)]
struct Breaks(AtomicBool, Mutex<mpsc::Sender<u64>>);

impl Observer for Breaks {
    fn event(&self, event: &Event) {
        if !self.0.swap(true, Ordering::SeqCst) {
            forget(panics_at("an observer panicked"));
            panic!("an observer that panics");
        }
        if let Event::Dropped { count } = event {
            self.1.lock().unwrap().send(*count).unwrap();
        }
    }
}

#[test]
fn a_log_that_panics_at_an_observer_that_panics_keeps_no_event_from_it() {
    let (tell, told) = mpsc::channel();
    let observer: Arc<dyn Observer> = Arc::new(Breaks(AtomicBool::new(false), Mutex::new(tell)));
    let events = Events::to([observer]);
    for count in 1..=2 {
        events.tell(|| Event::Dropped { count });
    }
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(2));
}
