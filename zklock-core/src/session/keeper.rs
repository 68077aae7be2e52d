//! The keeper of a generation: heartbeats, the end of leases, the state of the session.

use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::base::clock::Instant;
use crate::base::owner::{Owner, REVOKE};
use crate::base::policy::StopAt;
use crate::base::session_state::SessionState;
use crate::coordinator::traits::{Link, Operation, Reply, RequestError, Stat, Watch, WatchEvent};
use crate::observe::observer::{Event, LossReason};
use crate::session::generation::{Generation, HeldNode, MOST_CHECKED};
use crate::session::health::LaneReport;
use crate::session::lease_clock::Condition;
use crate::session::local_queues::LocalQueues;
use crate::session::watch_budget::Watching;

type Beat = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the keeper reports to.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// The state of the session.
    pub health: Arc<LaneReport>,
    /// The locks in use, which are told about lost leases.
    pub local_queues: Arc<LocalQueues>,
}

/// Keeps a generation until its ZooKeeper session is over, or until nothing is held after it was
/// retired; then closes it.
pub async fn keep(generation: Arc<Generation>, keeping: Keeping) {
    let (mut losses, mut doubts) = (0, 0);
    let (mut beat, mut late): (Option<Beat>, Option<Beat>) = (None, None);
    let (mut next_beat, mut check_at) = (Instant::ORIGIN, Instant::ORIGIN);
    let mut seen = generation.coordinator().link();
    loop {
        let changed = generation.changed();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();

        if std::mem::replace(&mut losses, generation.losses()) != losses {
            keeping.local_queues.leases_lost();
        }
        let link = generation.coordinator().link();
        if link.is_over() || generation.is_over() {
            generation.end();
            break;
        }
        if link == Link::Up && seen == Link::Down {
            next_beat = Instant::ORIGIN;
            generation.reconnected();
        }
        seen = link;

        let (now, gap) = (generation.lease().clock().now(), generation.lease().heartbeat());
        let holds = !generation.holds_nothing();
        if generation.is_retired() && !holds {
            break;
        }
        let until = generation.valid_until(StopAt::Lost);
        if holds && now >= until {
            tracing::warn!("no commit was answered in time: the held locks are lost");
            generation.lose_leases(LossReason::Silence);
            continue;
        }
        let self_aware = generation.is_self_aware();
        let overdue = holds && !self_aware && generation.lease().condition(now) != Condition::Held;
        let suspect = link == Link::Down || overdue;
        let counted = generation.lease().doubts();
        if suspect {
            generation.doubt();
        } else if counted != doubts {
            generation.lose_doubted();
        }
        doubts = counted;
        if now >= check_at {
            // Other commits prove nothing about a held node. What is acquired from now on is
            // checked later.
            check_at = generation.unseen_since().unwrap_or(now) + gap;
        }
        let due = next_beat.max(check_at.min(generation.lease().last_commit() + gap));
        let beats = holds && link == Link::Up && !self_aware;
        if beats && now >= due {
            // The last heartbeat may still be answered, or be lost: another one is sent beside it.
            late = beat.take().or(late);
            next_beat = now + gap;
            let local_queues = keeping.local_queues.clone();
            beat = Some(Box::pin(heartbeat(generation.clone(), local_queues)));
        }
        // New acquires do not use a retired generation.
        if !generation.was_retired() {
            let connected = SessionState::Connected;
            keeping.health.publish(if suspect { SessionState::Suspended } else { connected });
        }

        // Nothing wakes the keeper when a lock is acquired: a grant is valid for more than one
        // interval.
        let wake_at = if self_aware && (!holds || link == Link::Up) {
            Instant::FAR
        } else if !holds {
            now + gap
        } else {
            let until = if suspect { until } else { generation.valid_until(StopAt::Suspect) };
            if beats { until.min(due) } else { until }
        };
        let mut timer = generation.lease().clock().sleep_until(wake_at);
        let mut link_changed = generation.coordinator().link_changed(link);
        poll_fn(|cx| {
            for beat in [&mut late, &mut beat] {
                if beat.as_mut().is_some_and(|beat| beat.as_mut().poll(cx).is_ready()) {
                    *beat = None;
                    return Poll::Ready(());
                }
            }
            let woken = changed.as_mut().poll(cx).is_ready()
                || link_changed.as_mut().poll(cx).is_ready()
                || Pin::new(&mut timer).poll(cx).is_ready();
            if woken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    // A pending reply would keep the ZooKeeper session open.
    drop((beat, late));
    generation.end();
    keeping.local_queues.leases_lost();
    if !generation.was_retired() {
        keeping.health.publish(SessionState::Connecting);
    }
    generation.coordinator().close().await;
}

/// Commits that the held nodes exist, and finds those that do not, or whose data have changed. Writes
/// into them who holds them.
async fn heartbeat(generation: Arc<Generation>, local_queues: Arc<LocalQueues>) {
    let start = generation.lease().clock().now();
    let nodes = generation.held();
    // A node that is held for longer than a heartbeat is watched, so that its deletion is noticed
    // at once.
    let long = generation.lease().heartbeat() / 2;
    let long_held = nodes.iter().filter(|node| start.since(node.since) >= long);
    for node in long_held {
        watch_own(&generation, node);
    }
    for batch in nodes.chunks(MOST_CHECKED) {
        // A late heartbeat leaves the rest to the next one, which has begun.
        let batch = batch.iter().filter(|node| node.seen() <= start).cloned().collect();
        if !check(&generation, &local_queues, batch).await {
            return;
        }
    }
}

/// Checks a batch; removes the nodes that are gone, and checks the others again. Returns false if
/// the server did not answer.
async fn check(
    generation: &Arc<Generation>,
    local_queues: &LocalQueues,
    mut batch: Vec<Arc<HeldNode>>,
) -> bool {
    // A client that writes to these nodes all the time must not prevent the check of the others.
    let mut looks = batch.len();
    loop {
        // A node that was released meanwhile would fail the whole batch, one node after the other.
        batch.retain(|node| generation.is_held(node));
        if batch.is_empty() {
            return true;
        }
        let sent = generation.lease().clock().now();
        let nodes: Vec<_> = batch.iter().map(|node| told(generation, local_queues, node)).collect();
        let written: Vec<_> =
            nodes.iter().map(|(_, version, data)| (*version, data.is_some())).collect();
        let checked = generation.check_held(nodes);
        // A node that another client has created at the same path passes the check. A read that is
        // sent behind a commit is as new as the commit.
        let coordinator = generation.coordinator();
        let recurring = batch.iter().filter(|node| node.is_recurring());
        let read: Vec<_> =
            recurring.map(|node| (node.clone(), coordinator.get(&node.path))).collect();
        let checked = checked.await;
        let writes = batch.iter().zip(&written).filter(|(_, (_, is_written))| *is_written);
        for (node, (version, _)) in writes {
            match &checked {
                Ok(()) => node.was_written(*version),
                Err(_) => node.unsure(),
            }
        }
        let (index, error) = match checked {
            Ok(()) => {
                for (node, look) in read {
                    if !heed_look(generation, &node, look).await {
                        return false;
                    }
                }
                batch.iter().for_each(|node| node.seen_at(sent));
                generation.events().tell(|| Event::Heartbeat {
                    nodes: batch.len(),
                    took: generation.lease().clock().now().since(sent),
                    undeleted: generation.undeleted(),
                });
                return true;
            }
            Err(RequestError::Multi { index, error }) if index < batch.len() => (index, *error),
            Err(error) => {
                tracing::debug!(%error, "a heartbeat was not answered");
                return false;
            }
        };
        match error {
            RequestError::NoNode => {
                generation.lost_node(&batch.swap_remove(index), LossReason::Deleted);
            }
            RequestError::BadVersion if looks > 0 && look_at(generation, &batch[index]).await => {
                looks -= 1;
            }
            RequestError::BadVersion => return false,
            // It may be looked at and not be written.
            error if error.is_definite() && written[index].1 => batch[index].refuses(),
            error if error.is_definite() => {
                // The server does not allow this check; the other nodes are checked.
                let node = batch.swap_remove(index);
                tracing::warn!(path = &*node.path, %error, "a held node could not be checked");
            }
            _ => return false,
        }
    }
}

/// What a heartbeat checks of a node: its version, and what is written at the same time.
fn told(
    generation: &Generation,
    local_queues: &LocalQueues,
    node: &Arc<HeldNode>,
) -> (Arc<HeldNode>, i32, Option<Vec<u8>>) {
    let lease = generation.lease();
    let holding = local_queues.holding(&node.path);
    // As for the watches of nodes that are held for longer than a heartbeat.
    let news = node.news(holding, lease.heartbeat() / 2, lease.clock());
    (node.clone(), node.version(), news)
}

/// Reads the data of a held node, which have changed. Returns false if the server did not answer.
async fn look_at(generation: &Arc<Generation>, node: &Arc<HeldNode>) -> bool {
    heed_look(generation, node, generation.coordinator().get(&node.path)).await
}

async fn heed_look(
    generation: &Arc<Generation>,
    node: &Arc<HeldNode>,
    look: Reply<(Vec<u8>, Stat)>,
) -> bool {
    match look.await {
        Ok((data, stat)) => {
            heed(generation, node, &data, &stat);
            true
        }
        // The next check finds out.
        Err(RequestError::NoNode) => true,
        Err(_) => false,
    }
}

/// Evaluates what was read of a held node. Returns whether the node still belongs to this session.
fn heed(generation: &Arc<Generation>, node: &Arc<HeldNode>, data: &[u8], stat: &Stat) -> bool {
    if stat.czxid != node.czxid {
        // Another node has the same path.
        generation.lost_node(node, LossReason::Deleted);
        return false;
    }
    node.has_version(stat.version);
    if data == REVOKE {
        generation.revoked_node(node);
        write_again(generation, node, stat.version);
    }
    true
}

/// Restores the data of a held node after a request for release has replaced them, with a mark that
/// says so: as long as it holds the lock, its owner must be known. A node that another client has
/// just created at the same path has another version.
fn write_again(generation: &Arc<Generation>, node: &Arc<HeldNode>, version: i32) {
    let Some(payload) = node.data() else { return };
    let (path, data) = (node.path.to_string(), Owner::asked_to_let_go(&payload));
    let written = generation.write(vec![Operation::Replace { path, data, version }]);
    let node = node.clone();
    generation.spawner().spawn(async move {
        match written.await {
            Ok(()) => node.has_version(version.wrapping_add(1)),
            // The next heartbeat reads it again.
            Err(error) if !error.is_definite() => node.has_version(i32::MIN),
            Err(error) => tracing::debug!(path = &*node.path, %error, "the data of a held node \
                                                                       could not be restored"),
        }
    });
}

/// Watches a held node, once, to notice its deletion, and a request for its release.
pub fn watch_own(generation: &Arc<Generation>, node: &Arc<HeldNode>) {
    let Some(watching) = generation.begin_watching(node) else { return };
    let (generation, node) = (generation.clone(), node.clone());
    let first = generation.coordinator().get_watched(&node.path);
    generation.clone().spawner().spawn(async move {
        let _watching = watching;
        go_on_watching(&generation, &node, first).await;
    });
}

/// Reads a held node, and watches it until it is gone.
async fn go_on_watching(
    generation: &Arc<Generation>,
    node: &Arc<HeldNode>,
    first: Reply<(Vec<u8>, Stat, Watch)>,
) {
    let mut reply = first;
    loop {
        match reply.await {
            Ok((data, stat, watch)) => {
                if !heed(generation, node, &data, &stat) {
                    return;
                }
                match watch.await {
                    WatchEvent::Deleted => return generation.lost_node(node, LossReason::Deleted),
                    WatchEvent::Changed => {}
                    WatchEvent::SessionEnded => return,
                }
            }
            Err(RequestError::NoNode) => return generation.lost_node(node, LossReason::Deleted),
            // The next heartbeat watches it again.
            Err(_) => return node.forget_watch(),
        }
        reply = generation.coordinator().get_watched(&node.path);
    }
}

/// The watch on this session's own waiting node: it shows whether the node still exists when the
/// one ahead is deleted. It is kept when the waiter becomes the holder.
pub struct OwnWatch {
    watch: Watch,
    /// What was read when the watch was set.
    read: (Vec<u8>, Stat),
    watching: Watching,
}

impl OwnWatch {
    /// A watch that was just set, with what was read.
    pub fn new(watch: Watch, read: (Vec<u8>, Stat), watching: Watching) -> Self {
        OwnWatch { watch, read, watching }
    }

    /// The event of the watch.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        self.watch.as_mut().poll(cx)
    }

    /// Watches the node from now on as a held one.
    pub fn hold(self, generation: &Arc<Generation>, node: &Arc<HeldNode>) {
        // Locks that are held for long leave room for waiters; the heartbeats check them without
        // watches.
        let Some(watching) = self.watching.for_held() else { return };
        node.remember_watch();
        let (generation, node) = (generation.clone(), node.clone());
        generation.clone().spawner().spawn(async move {
            let _watching = watching;
            let (data, stat) = self.read;
            go_on_watching(&generation, &node, Box::pin(ready(Ok((data, stat, self.watch))))).await;
        });
    }
}

impl fmt::Debug for OwnWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnWatch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::base::mode::Mode;
    use crate::base::token::FencingToken;
    use crate::coordinator::memory::{Embedded, Faults};
    use crate::coordinator::traits::{Connector, Coordinator, Created, NodeKind};
    use crate::layout::curator::Curator;
    use crate::layout::driver::LockDriver;
    use crate::layout::driver::{NewNode, Proof};
    use crate::observe::observer::{Events, Observer};
    use crate::session::health::SessionHealth;
    use crate::session::lease_clock::LeaseClock;
    use crate::session::local_queues::{Held, Holding, LocalQueue, Place};
    use crate::session::releaser::{Deletion, PendingCreate};
    use crate::session::spawner::Spawner;
    use crate::session::timing::Timing;
    use crate::session::watch_budget::WatchBudget;
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;
    use tokio::sync::watch;
    use tokio::time::{advance, sleep, timeout};

    const T: Duration = Duration::from_secs(12);
    const MOMENT: Duration = Duration::from_millis(1);
    const PAYLOAD: &[u8] = b"who";

    /// The embedded coordinator, which does not know when it was last in contact, and forgets
    /// answers.
    #[derive(Debug)]
    struct Unaware(
        Arc<dyn Coordinator>,
        Arc<AtomicU32>,
        Arc<AtomicU32>,
        Arc<AtomicU32>,
        Arc<AtomicBool>,
    );

    impl Unaware {
        fn forget<T: Send + 'static>(&self, reply: Reply<T>) -> Reply<T> {
            let one_less = |left: u32| left.checked_sub(1);
            match self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
                Ok(_) => Box::pin(pending()),
                Err(_) => reply,
            }
        }
    }

    impl Coordinator for Unaware {
        fn session_id(&self) -> i64 {
            self.0.session_id()
        }
        fn session_timeout(&self) -> Duration {
            self.0.session_timeout()
        }
        fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
            self.forget(self.0.create(path, data, kind))
        }
        fn delete(&self, path: &str) -> Reply<()> {
            self.forget(self.0.delete(path))
        }
        fn children(&self, path: &str) -> Reply<Vec<String>> {
            self.0.children(path)
        }
        fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
            self.0.children_watched(path)
        }
        fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
            self.0.get(path)
        }
        fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
            self.0.get_watched(path)
        }
        fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
            self.0.set(path, data)
        }
        fn multi(&self, operations: Vec<Operation>) -> Reply<()> {
            self.2.fetch_add(1, Ordering::SeqCst);
            let written = |one: &Operation| matches!(one, Operation::Replace { .. });
            if let Some(index) = operations.iter().position(written) {
                self.3.fetch_add(1, Ordering::SeqCst);
                if self.4.load(Ordering::SeqCst) {
                    let error = Box::new(RequestError::NoAuth);
                    return Box::pin(async move { Err(RequestError::Multi { index, error }) });
                }
            }
            self.forget(self.0.multi(operations))
        }
        fn sync(&self, path: &str) -> Reply<()> {
            self.0.sync(path)
        }
        fn link(&self) -> Link {
            self.0.link()
        }
        fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
            self.0.link_changed(seen)
        }
        fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            self.0.close()
        }
    }

    struct Kept {
        generation: Arc<Generation>,
        faults: Faults,
        forgets: Arc<AtomicU32>,
        multis: Arc<AtomicU32>,
        /// How many of them wrote something.
        writes: Arc<AtomicU32>,
        /// Whether the server refuses writing.
        refuses: Arc<AtomicBool>,
        local_queues: Arc<LocalQueues>,
        events: std::sync::mpsc::Receiver<Event>,
        state: watch::Receiver<SessionState>,
    }

    #[derive(Debug)]
    struct Told(Mutex<std::sync::mpsc::Sender<Event>>);

    impl Observer for Told {
        fn event(&self, event: &Event) {
            let _ = self.0.lock().unwrap().send(event.clone());
        }
    }

    async fn kept() -> Kept {
        let store = Embedded::new();
        let coordinator = store.connector(T).connect().await.unwrap();
        let faults = store.faults(coordinator.session_id());
        let timing = Timing::of(T, None).unwrap();
        let lease = LeaseClock::new(Clock::Caller, timing, Clock::Caller.now());
        let (sender, events_told) = std::sync::mpsc::channel();
        let observer: Arc<dyn Observer> = Arc::new(Told(Mutex::new(sender)));
        let (spawner, events) = (Spawner::Inline, Events::to([observer]));
        let [forgets, multis, writes] = [const { AtomicU32::new(0) }; 3].map(Arc::new);
        let refuses = Arc::new(AtomicBool::new(false));
        let (w, r) = (writes.clone(), refuses.clone());
        let coordinator = Unaware(coordinator, forgets.clone(), multis.clone(), w, r);
        let coordinator = Arc::new(coordinator);
        let watches = WatchBudget::new("");
        let generation = Generation::new(1, coordinator, lease, spawner, events, watches);
        let (state, told) = watch::channel(SessionState::Connecting);
        let health = SessionHealth::new(Arc::new(state)).of_another();
        let local_queues = LocalQueues::new(Place { servers: "keeper".into(), chroot: "".into() });
        let keeping = Keeping { health, local_queues: local_queues.clone() };
        tokio::spawn(keep(generation.clone(), keeping));
        Kept {
            generation,
            faults,
            forgets,
            multis,
            writes,
            refuses,
            local_queues,
            events: events_told,
            state: told,
        }
    }

    impl Kept {
        async fn hold(&self, path: &str, stop_at: StopAt) -> Arc<HeldNode> {
            let generation = &self.generation;
            let created = generation.create(path, b"", NodeKind::Ephemeral).await.unwrap();
            let term = generation.grantable(stop_at).unwrap();
            let payload = Some(PAYLOAD.into());
            generation.hold(path.into(), "a".into(), created.stat.czxid, term, payload).unwrap()
        }

        fn is_valid(&self, node: &HeldNode) -> bool {
            self.generation.is_valid_at(node.term, Clock::Caller.now())
        }
    }

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
        let kept = kept().await;
        let generation = &kept.generation;
        let created = generation.coordinator().create("/a", b"", NodeKind::Ephemeral);
        let czxid = created.await.unwrap().stat.czxid;
        // It looks every T/6 while nothing is held, and has just done so. The heartbeat is nearly
        // due, and will take long.
        sleep(T / 3 + 10 * MOMENT).await;
        generation.check(["/a".into()]).await.unwrap();
        sleep(T / 6 - 5 * MOMENT).await;
        kept.faults.delay_replies(T / 12);
        let term = generation.grantable(StopAt::Suspect).unwrap();
        let node = generation.hold("/a".into(), "a".into(), czxid, term, None).unwrap();
        for _ in 0..100 {
            sleep(T / 30).await;
            assert!(kept.is_valid(&node));
        }
    }

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
        kept.faults.delay_replies(T / 60);
        while kept.multis.load(Ordering::SeqCst) == 0 {
            sleep(MOMENT).await;
        }
        // The first batch is on its way, and these are in the second.
        short.iter().for_each(|node| generation.unhold(node));
        let deleted: Vec<_> =
            short.iter().map(|node| generation.coordinator().delete(&node.path)).collect();
        for reply in deleted {
            reply.await.unwrap();
        }
        sleep(T / 10).await;
        assert_eq!(kept.multis.load(Ordering::SeqCst), 1);
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
            timeout(2 * T, PendingCreate::send(generation, "/d", new)).await.unwrap().unwrap();
        let names = coordinator.children("/d").await.unwrap();
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(made.path.ends_with(&names[0]));
        kept.forgets.store(1, Ordering::SeqCst);
        let deletion = Deletion::send(generation, made.path.into());
        timeout(2 * T, deletion).await.unwrap().unwrap();
        assert!(coordinator.children("/d").await.unwrap().is_empty());
        generation.clean().await;
    }

    /// A queue whose node is held by nobody, or by one after the other.
    #[derive(Debug)]
    struct Holders(Arc<dyn LockDriver>, Mutex<Option<(u64, Instant, &'static str)>>, AtomicBool);

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
        fn held(&self) -> Vec<Held> {
            Vec::new()
        }
        fn holding(&self, path: &str) -> Option<Holding> {
            let (number, since, label) = (*self.1.lock().unwrap())?;
            let (token, held_for) =
                (FencingToken::new(7, number), Clock::Caller.now().since(since));
            let label = Some(label.into()).filter(|label: &Arc<str>| !label.is_empty());
            (path == "/a").then_some(Holding { token, held_for, label })
        }
        fn close(self: Arc<Self>) {}
        fn leases_lost(self: Arc<Self>) {}
        fn is_semaphore(&self) -> bool {
            false
        }
        fn user(&self) -> Option<(Mode, Held)> {
            None
        }
        fn is_beside_another(&self) -> &AtomicBool {
            &self.2
        }
    }

    impl Kept {
        /// Holds a node with the data of this library, and with a queue that knows who holds it.
        async fn hold_with_label(&self, label: &'static str) -> (Arc<HeldNode>, Arc<Holders>) {
            let make = |_| Arc::new(Holders(Arc::new(Curator), Mutex::new(None), false.into()));
            let queue = self.local_queues.local_queue("", make).unwrap();
            let payload = Owner::here(Some("orders")).labelled(Some(label)).to_payload();
            let generation = &self.generation;
            let created = generation.create("/a", &payload, NodeKind::Ephemeral).await.unwrap();
            let term = generation.grantable(StopAt::Lost).unwrap();
            let (czxid, payload) = (created.stat.czxid, Some(payload.into()));
            let node = generation.hold("/a".into(), "a".into(), czxid, term, payload).unwrap();
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
            Event::Lost { lock, czxid, why: LossReason::Silence, .. } => {
                assert_eq!((&*lock, czxid), ("a", node.czxid.unsigned_abs()));
            }
            event => panic!("{event:?}"),
        }
    }
}
