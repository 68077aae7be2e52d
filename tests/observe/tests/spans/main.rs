//! Spans and logs, as a subscriber collects them. In a process of their own: `tracing` asks for each
//! span once whether anybody wants it, and a test without a subscriber may be the first to open it.

// What cannot be had fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Instrument as _, Level, Metadata, Subscriber, info_span};
use zklock::driver::RequestError;
use zklock::testing::{Fault, Op};
use zklock::{
    Embedded, LockError, LockOptions, Observer, OnRevoked, Session, ZkLockTemplate, zk_locked,
};

const SECOND: Duration = Duration::from_secs(1);

/// A span that was begun.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
    references: usize,
}

impl Seen {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |value| value)
    }

    fn is_closed(&self) -> bool {
        self.references == 0
    }
}

#[derive(Default)]
struct All {
    spans: Vec<Seen>,
    inside: Vec<u64>,
    lines: Vec<(Level, BTreeMap<&'static str, String>)>,
    /// Whether it panics at the end of a span.
    is_broken: bool,
}

/// Collects what is told on this thread.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<All>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut all = self.0.lock().unwrap();
        let parent = span.parent().map(Id::into_u64).or(all.inside.last().copied());
        let mut seen =
            Seen { name: span.metadata().name(), parent, references: 1, ..Seen::default() };
        span.record(&mut Fields(&mut seen.fields));
        all.spans.push(seen);
        Id::from_u64(all.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut all = self.0.lock().unwrap();
        let fields = &mut all.spans[span.into_u64() as usize - 1].fields;
        values.record(&mut Fields(fields));
        let is_over = fields.contains_key("waited") || fields.contains_key("held");
        let panics = is_over && all.is_broken;
        drop(all);
        assert!(!panics, "the log is broken");
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().lines.push((*event.metadata().level(), fields));
    }

    fn enter(&self, span: &Id) {
        self.0.lock().unwrap().inside.push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        let mut all = self.0.lock().unwrap();
        let at = all.inside.iter().rposition(|other| *other == span.into_u64()).unwrap();
        all.inside.remove(at);
    }

    fn clone_span(&self, span: &Id) -> Id {
        self.0.lock().unwrap().spans[span.into_u64() as usize - 1].references += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut all = self.0.lock().unwrap();
        let seen = &mut all.spans[span.into_u64() as usize - 1];
        seen.references -= 1;
        seen.references == 0
    }
}

impl Collector {
    fn install() -> (Self, DefaultGuard) {
        let collector = Collector::default();
        let installed = tracing::subscriber::set_default(collector.clone());
        (collector, installed)
    }

    /// The spans with a name, in order, and the number of each.
    fn spans(&self, name: &str) -> Vec<Seen> {
        let all = self.0.lock().unwrap();
        all.spans.iter().filter(|span| span.name == name).cloned().collect()
    }

    fn last(&self, name: &str) -> Seen {
        self.spans(name).pop().unwrap()
    }

    /// The lines of a level since the last time.
    fn lines(&self, level: Level) -> Vec<BTreeMap<&'static str, String>> {
        let mut all = self.0.lock().unwrap();
        let lines = all.lines.extract_if(.., |(its, _)| *its == level);
        lines.map(|(_, fields)| fields).collect()
    }
}

#[zk_locked("orders/{id}", session = session, mode = write)]
async fn order(session: &Session, id: u32) -> Result<String, LockError> {
    Ok(zklock::current().view().unwrap().fencing_token().to_string())
}

#[tokio::test]
async fn a_wait_and_a_hold_are_spans_inside_the_callers() {
    let (collector, _installed) = Collector::install();
    let session = Session::embedded();
    let token = order(&session, 7).instrument(info_span!("request")).await.unwrap();
    let names: Vec<_> = collector.0.lock().unwrap().spans.iter().map(|span| span.name).collect();
    assert_eq!(names, ["request", "zklock.acquire", "zklock.hold"]);
    for name in ["zklock.acquire", "zklock.hold"] {
        let span = collector.last(name);
        assert_eq!((span.parent, span.is_closed()), (Some(1), true), "{name}");
        let fields = ["lock", "pattern", "mode", "token"].map(|field| span.field(field).to_owned());
        assert_eq!(fields, ["orders/7", "orders/{id}", "write", &token], "{name}");
    }
    let acquire = collector.last("zklock.acquire");
    assert_eq!((acquire.field("tries"), acquire.field("outcome")), ("1", "node"));
    assert!(acquire.field("waited").parse::<f64>().unwrap() < 60.0);
    let hold = collector.last("zklock.hold");
    assert_eq!(hold.field("outcome"), "released");
    assert!(hold.field("held").parse::<f64>().is_ok());
}

#[zk_locked("plain/{id}", session = session)]
fn plain(session: &Session, id: u32) -> Result<(), LockError> {
    Ok(())
}

#[derive(Debug)]
struct Released(Mutex<mpsc::Sender<String>>);

impl Observer for Released {
    fn event(&self, event: &zklock::Event) {
        if let zklock::Event::Released { lock, .. } = event {
            let _ = self.0.lock().unwrap().send(lock.to_string());
        }
    }
}

#[tokio::test]
async fn a_log_that_panics_at_the_end_of_a_span_harms_nobody() {
    let (collector, _installed) = Collector::install();
    let (sender, told) = mpsc::channel();
    let builder = Session::embedded_builder(&Embedded::new());
    let session = builder.observer(Arc::new(Released(Mutex::new(sender)))).open().unwrap();
    collector.0.lock().unwrap().is_broken = true;
    let mutex = session.mutex("a").unwrap();
    for waits in [false, true] {
        let guard = mutex.acquire().await.unwrap();
        if waits {
            guard.release().await.unwrap();
        } else {
            drop(guard);
        }
        assert_eq!(told.recv_timeout(60 * SECOND).unwrap(), "a");
    }
    assert!(mutex.try_acquire().await.is_ok());
}

/// Each has a span of its own, and is logged if it is held for long; what was logged of both is not said again.
#[tokio::test(start_paused = true)]
async fn permits_that_are_split_off_are_held_like_others() {
    let (collector, _installed) = Collector::install();
    let session = Session::embedded();
    let slow = LockOptions::new().warn_holding(3 * SECOND);
    let mut three =
        session.semaphore("p", 3).unwrap().with_options(slow).acquire_many(3).await.unwrap();
    sleep(SECOND).await;
    let part = three.split(1).unwrap();
    let holds = collector.spans("zklock.hold");
    assert_eq!(holds.len(), 2);
    assert_eq!(holds[1].field("token"), part.fencing_token().to_string());
    assert!(collector.lines(Level::WARN).is_empty());
    sleep(3 * SECOND).await;
    assert_eq!(collector.lines(Level::WARN).len(), 2);
    let late = three.split(1).unwrap();
    sleep(10 * SECOND).await;
    assert!(collector.lines(Level::WARN).is_empty());
    drop((three, part, late));
    let ends = collector.spans("zklock.hold");
    let ends: Vec<_> = ends.iter().map(|hold| (hold.is_closed(), hold.field("outcome"))).collect();
    assert_eq!(ends, [(true, "released"); 3]);
}

/// Nobody holds the lock any more, although its nodes are still being changed.
#[tokio::test(start_paused = true)]
async fn the_span_of_a_writer_ends_where_its_step_down_is_given_up() {
    let (collector, _installed) = Collector::install();
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).open().unwrap();
    let writer = session.rw_lock("rw").unwrap().write().await.unwrap();
    let faults = store.faults(session.zookeeper_session().unwrap().id);
    faults.hold_replies();
    assert!(tokio::time::timeout(SECOND, writer.downgrade()).await.is_err());
    let hold = collector.last("zklock.hold");
    assert_eq!(
        (hold.is_closed(), hold.field("outcome"), hold.field("held")),
        (true, "released", "1.0")
    );
    faults.release();
    sleep(SECOND).await;
    assert_eq!(collector.spans("zklock.hold").len(), 1);
}

/// Whoever hands it the lock.
#[tokio::test(start_paused = true)]
async fn the_spans_of_every_caller_are_inside_its_own() {
    let (collector, _installed) = Collector::install();
    let session = Session::embedded();
    let mutex = session.mutex("a").unwrap();
    let calls = ["one", "two"].map(|request| {
        let (mutex, session) = (mutex.clone(), session.clone());
        let call = async move {
            let held = mutex.acquire().await.unwrap();
            sleep(SECOND).await;
            held.release().await.unwrap();
            if request == "two" {
                plain(&session, 7).unwrap();
            }
        };
        tokio::spawn(call.instrument(info_span!("request")))
    });
    for call in calls {
        call.await.unwrap();
    }
    for (name, outcomes) in
        [("zklock.acquire", ["node", "handoff", "node"]), ("zklock.hold", ["released"; 3])]
    {
        let spans = collector.spans(name);
        let parents: Vec<_> = spans.iter().map(|span| span.parent).collect();
        assert_eq!(parents, [Some(1), Some(2), Some(2)], "{name}");
        assert_eq!(spans.iter().map(|span| span.field("outcome")).collect::<Vec<_>>(), outcomes);
    }
}

#[tokio::test(start_paused = true)]
async fn spans_say_how_waits_and_holds_end() {
    let (collector, _installed) = Collector::install();
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).open().unwrap();
    let mutex = session.mutex("a").unwrap();
    let mutex = mutex.with_options(LockOptions::new().timeout(SECOND).retries(2));
    let acquired = |outcome: &str| {
        let span = collector.last("zklock.acquire");
        assert!(span.is_closed());
        assert_eq!(span.field("outcome"), outcome);
        (span.field("waited").parse::<f64>().unwrap(), span.field("tries").to_owned())
    };
    let held = mutex.acquire().await.unwrap();
    acquired("node");
    held.scope(async { drop(mutex.acquire().await.unwrap()) }).await;
    acquired("scope");
    assert_eq!(collector.spans("zklock.hold").len(), 1);
    assert!(!collector.last("zklock.hold").is_closed());
    assert!(mutex.acquire_tries().await.unwrap_err().is_busy());
    let (waited, tries) = acquired("busy");
    assert!((2.0..2.1).contains(&waited) && tries == "2", "{waited} {tries}");
    assert!(tokio::time::timeout(SECOND, mutex.acquire()).await.is_err());
    acquired("cancelled");
    let waiting = mutex.clone();
    let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    sleep(3 * SECOND).await;
    held.release().await.unwrap();
    assert_eq!(collector.last("zklock.hold").field("outcome"), "released");
    let held = waiting.await.unwrap();
    let (waited, _) = acquired("handoff");
    assert!((3.0..3.1).contains(&waited), "{waited}");
    // A permit, and a writer that becomes a reader: each has its own hold.
    drop(session.semaphore("s", 1).unwrap().acquire().await.unwrap());
    acquired("node");
    let writer = session.rw_lock("rw").unwrap().write().await.unwrap();
    let holds = collector.spans("zklock.hold").len();
    let reader = writer.downgrade().await.unwrap();
    let two = collector.spans("zklock.hold").split_off(holds - 1);
    let [writing, reading] = &two[..] else { panic!("{} holds", two.len()) };
    assert!(writing.is_closed() && writing.field("outcome") == "released");
    assert!(!reading.is_closed() && reading.field("mode") == "read");
    drop(reader);
    let hold = collector.last("zklock.hold");
    assert!(hold.is_closed() && hold.field("outcome") == "released");
    let before = collector.lines(Level::ERROR);
    assert!(before.is_empty(), "{before:?}");
    store.faults(session.zookeeper_session().unwrap().id).expire();
    held.lost().await;
    drop(held);
    let lost = collector.lines(Level::ERROR);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!((&*lost[0]["lock"], &*lost[0]["reason"]), ("a", "SessionEnded"));
    let outcomes = collector.spans("zklock.hold");
    assert!(outcomes.iter().all(Seen::is_closed));
    assert_eq!(outcomes.iter().filter(|hold| hold.field("outcome") == "lost").count(), 1);
    session.close().await;
    let states = collector.lines(Level::INFO);
    let states: Vec<_> = states.iter().filter_map(|line| Some(&**line.get("state")?)).collect();
    assert!(states.contains(&"connected") && states.ends_with(&["closed"]), "{states:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_an_error_with_the_path_and_the_outcome_of_the_hold() {
    let (collector, _installed) = Collector::install();
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).open().unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let path = guard.node_path().to_owned();
    let refused = Fault::refuse(RequestError::NoAuth).on(Op::Delete).path(&path);
    store.faults(session.zookeeper_session().unwrap().id).inject(refused);
    guard.release().await.unwrap_err();
    sleep(SECOND).await;
    let [line] = &collector.lines(Level::ERROR)[..] else { panic!("one line") };
    assert!(line["message"].contains("refused to delete a lock's node"), "{line:?}");
    assert_eq!(line["path"], path);
    assert!(line["why"].starts_with("an ACL denies it: compare "), "{line:?}");
    let hold = collector.last("zklock.hold");
    assert_eq!((hold.field("outcome"), hold.is_closed()), ("refused", true));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_logged_with_the_zookeeper_session() {
    let (collector, _installed) = Collector::install();
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).open().unwrap();
    let id = session.zookeeper_session().unwrap().id;
    store.faults(id).hold_replies();
    let outcome = session.mutex("a").unwrap().acquire_timeout(60 * SECOND).await;
    assert!(outcome.unwrap_err().is_unavailable());
    let lines = collector.lines(Level::WARN);
    let silent = lines.iter().find(|line| line["message"] == "no answer for a session timeout");
    assert_eq!(silent.unwrap_or_else(|| panic!("{lines:?}"))["session"], format!("{id:#x}"));
}

#[tokio::test(start_paused = true)]
async fn an_embedded_session_of_a_configuration_is_logged() {
    let (collector, _installed) = Collector::install();
    drop(Session::builder_from_env_for("embedded").unwrap().open().unwrap());
    let [line] = &collector.lines(Level::WARN)[..] else { panic!("one line") };
    let says = "the session is embedded: its locks exclude only callers in this process";
    assert_eq!(line["message"], says);
    // A program that asks for one knows what it asks for.
    drop(Session::embedded());
    assert!(collector.lines(Level::WARN).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_because_its_lock_is_wanted_is_told_and_is_no_error() {
    let (collector, _installed) = Collector::install();
    let session = Session::embedded();
    let heed = LockOptions::new().on_revoked(OnRevoked::Cancel);
    let template = ZkLockTemplate::new(session.clone()).with_options(heed);
    let body = async || {
        session.site("a").unwrap().revoke().await.unwrap();
        std::future::pending::<()>().await
    };
    assert!(template.execute("a", body).await.unwrap_err().is_revoked());
    let lines = collector.lines(Level::INFO);
    let told = lines.iter().filter(|line| line["message"].contains("asked for its lock"));
    assert_eq!(told.map(|line| &*line["lock"]).collect::<Vec<_>>(), ["a"], "{lines:?}");
    let worse = [collector.lines(Level::WARN), collector.lines(Level::ERROR)].concat();
    assert!(worse.is_empty(), "{worse:?}");
    assert_eq!(collector.last("zklock.hold").field("outcome"), "released");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_in_a_guarded_call_is_one_line_of_the_log() {
    let (collector, _installed) = Collector::install();
    let store = Embedded::new();
    let session = Session::embedded_builder(&store).open().unwrap();
    let body = async || {
        store.faults(session.zookeeper_session().unwrap().id).expire();
        std::future::pending::<()>().await
    };
    let template = ZkLockTemplate::new(session.clone());
    assert!(template.execute("a", body).await.unwrap_err().is_lost());
    sleep(SECOND).await;
    let lines = [collector.lines(Level::WARN), collector.lines(Level::ERROR)].concat();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&*line["lock"], &*line["message"]), ("a", "a held lock was lost"));
}

#[tokio::test(start_paused = true)]
async fn long_waits_and_holds_are_logged_once_each_if_this_is_wanted() {
    let (collector, _installed) = Collector::install();
    let builder = Session::embedded_builder(&Embedded::new());
    let session = builder.warn_waiting(2 * SECOND).warn_holding(5 * SECOND).open().unwrap();
    let mutex = session.mutex("a").unwrap();
    drop(mutex.acquire().await.unwrap());
    let held = mutex.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { drop(mutex.acquire().await.unwrap()) });
    let mut told = Vec::new();
    for _ in 0..20 {
        sleep(SECOND / 2).await;
        let lines = collector.lines(Level::WARN);
        told.extend(lines.into_iter().filter_map(|line| line.get("message").cloned()));
    }
    drop(held);
    waiting.await.unwrap();
    let [waits, holds] = &told[..] else { panic!("{told:?}") };
    assert_eq!(waits, "a caller waits for longer than `warn_waiting`");
    assert_eq!(holds, "a lock is held for longer than `warn_holding`");
    // A lock, and a semaphore, have limits of their own, or none.
    let never = Duration::MAX;
    let quiet = LockOptions::new().warn_waiting(never).warn_holding(never);
    let kept = session.mutex("c").unwrap().with_options(quiet).acquire().await.unwrap();
    sleep(100 * SECOND).await;
    drop(kept);
    assert!(collector.lines(Level::WARN).is_empty());
    let session = Session::embedded();
    let slow = LockOptions::new().warn_waiting(SECOND).warn_holding(3 * SECOND).label("night");
    let printers = session.semaphore("p", 1).unwrap().with_options(slow);
    let held = printers.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { drop(printers.acquire().await.unwrap()) });
    let start = Instant::now();
    for (time, words) in [(SECOND, "waits for longer"), (3 * SECOND, "held for longer")] {
        sleep_until(start + time - SECOND / 10).await;
        assert!(collector.lines(Level::WARN).is_empty());
        sleep_until(start + time + SECOND / 10).await;
        let [line] = &collector.lines(Level::WARN)[..] else { panic!("{words}") };
        assert!(line["message"].contains(words) && line["label"] == "night", "{line:?}");
    }
    drop(held);
    waiting.await.unwrap();
    sleep(1_000 * SECOND).await;
    assert!(collector.lines(Level::WARN).is_empty());
    // Without the options, nothing is logged.
    let session = Session::embedded();
    let mutex = session.mutex("b").unwrap();
    let _held = mutex.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await.map(drop) });
    sleep(1_000 * SECOND).await;
    waiting.abort();
    assert!(collector.lines(Level::WARN).is_empty());
}
