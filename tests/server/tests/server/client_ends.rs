//! Sessions that the client library does not end by itself, or whose end servers could not bear.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use zklock::{ErrorKind, Session, SessionState};
use zklock_test_support::{Action, Matcher, OpCode, ZooKeeper};

use crate::bed::{Bed, TICK, acquiring, soon, until};
use crate::process::Process;

/// Of the sessions here, so that tests wait for some seconds only.
const T: Duration = Duration::from_secs(3);

/// Starts a test of this file in a process of its own, which says how far it is, and goes on when it is asked to.
fn start(bed: &Bed, name: &str) -> Process {
    start_with(T, bed, name)
}

fn start_with(session_timeout: Duration, bed: &Bed, name: &str) -> Process {
    Process::of(
        &format!("client_ends::{name}"),
        &[
            ("CONNECT", bed.server().addr()),
            ("ROOT", bed.path("").trim_end_matches('/').to_owned()),
            ("SESSION_TIMEOUT", format!("{}ms", session_timeout.as_millis())),
            ("TICK_TIME", "200ms".to_owned()),
        ],
    )
}

fn says(process: &mut Process, expected: &str) {
    assert_eq!(process.hears("says "), expected);
}

fn say(what: &str) {
    println!("\nsays {what}");
}

async fn hear() {
    tokio::task::spawn_blocking(|| std::io::stdin().lines().next()).await.unwrap();
}

async fn acquires_again(session: &Session) {
    let mutex = session.mutex("a").unwrap();
    soon("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
}

/// Runs in a process of its own, because it has no file descriptor left.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another test runs it"]
async fn child_without_descriptors() {
    let session = Session::from_env().await.unwrap();
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    // The thread that reads is there from now on.
    say("held");
    hear().await;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).unwrap();
    say("limited");
    soon("its loss", guard.view().lost()).await;
    until("it begins anew", || (session.state() == SessionState::Connecting).then_some(())).await;
    say("connecting");
    hear().await;
    setrlimit(Resource::Nofile, limit).unwrap();
    acquires_again(&session).await;
    say("again");
    session.close().await;
}

/// Each attempt to connect fails at once then, so the client library never waits, and never learns that the time
/// of its session is over.
#[tokio::test]
async fn where_each_connection_fails_at_once_a_session_begins_anew() {
    let bed = Bed::own();
    let mut part = start(&bed, "child_without_descriptors");
    says(&mut part, "held");
    part.ask();
    says(&mut part, "limited");
    bed.server().kill();
    says(&mut part, "connecting");
    bed.server().relaunch();
    part.ask();
    says(&mut part, "again");
    assert!(part.wait().success());
    bed.end().await;
}

/// A log that panics at the line in which the client library says that it is not connected any more.
struct PanicsOnce(AtomicBool);

impl Subscriber for PanicsOnce {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("zookeeper_client")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        struct Is(bool);
        impl Visit for Is {
            fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
                self.0 |= format!("{value:?}").contains("enter state Disconnected");
            }
        }
        let mut is_it = Is(false);
        event.record(&mut is_it);
        if is_it.0 && !self.0.swap(true, Ordering::AcqRel) {
            say("panics");
            panic!("the log of the application");
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Runs in a process of its own, because the log is that of all its threads.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another test runs it"]
async fn child_whose_log_panics() {
    tracing::subscriber::set_global_default(PanicsOnce(AtomicBool::new(false))).unwrap();
    let session = Session::from_env().await.unwrap();
    session.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
    say("connected");
    hear().await;
    acquires_again(&session).await;
    say("again");
    session.close().await;
}

/// The client library's task dies then, and says for ever that it is trying to connect.
#[tokio::test]
async fn where_the_log_of_the_client_library_panics_a_session_begins_anew() {
    let bed = Bed::own();
    let mut part = start(&bed, "child_whose_log_panics");
    says(&mut part, "connected");
    bed.server().kill();
    says(&mut part, "panics");
    bed.server().relaunch();
    part.ask();
    says(&mut part, "again");
    assert!(part.wait().success());
    bed.end().await;
}

/// Runs in a process of its own, which is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "another test runs it"]
async fn child_that_holds_much() {
    let session = Session::from_env().await.unwrap();
    let mut held = Vec::new();
    for some in 0..MANY / FEW {
        let all = (0..FEW).map(|one| acquiring(&session, &format!("{:0>1000}", some * FEW + one)));
        for acquiring in all.collect::<Vec<_>>() {
            held.push(acquiring.await.unwrap());
        }
    }
    say("held");
    hear().await;
}

/// Of so many locks with such names, the end of one session would take 2.2 MB.
const MANY: usize = 2_100;

/// What a session takes at most, in bytes (`docs/production.md`).
const MOST: usize = 1_800 * 1024;

/// So many at a time make no session busy.
const FEW: usize = 6;

/// A server writes the paths of all nodes of a session that ends into one transaction, and starts no more if that is
/// too long.
#[tokio::test]
async fn a_process_that_holds_much_and_is_killed_does_the_servers_no_harm() {
    // A server keeps the last 500 transactions in memory, and heartbeats name all nodes.
    let bed = Bed::own_with(|builder| builder.heap_mb(512));
    // A session that is lost meanwhile would lose what it holds.
    let mut part = start_with(Duration::from_secs(15), &bed, "child_that_holds_much");
    says(&mut part, "held");
    let sessions = bed.server().sessions();
    let bytes = |path: &String| path.len() + 4;
    let each = sessions.iter().map(|one| one.ephemerals.iter().map(bytes).sum());
    let each: Vec<usize> = each.collect();
    let (all, most) = (each.iter().sum::<usize>(), each.iter().max().unwrap());
    assert!(all > 2_150_000 && *most < MOST, "{each:?}");
    part.kill();
    until("the sessions are gone", || bed.server().sessions().is_empty().then_some(())).await;
    bed.server().restart();
    let session = bed.session().await;
    soon("the lock", session.mutex("a").unwrap().acquire()).await.unwrap().release().await.unwrap();
    bed.end().await;
}

#[tokio::test]
async fn a_caller_who_keeps_a_reply_keeps_no_session_open() {
    let bed = Bed::shared("keeps-a-reply");
    let proxy = bed.proxy();
    let session = bed.builder_at(&proxy.addr()).session_timeout(T).connect().await.unwrap();
    let id = session.zookeeper_session().unwrap().id;
    let guard = session.mutex("a").unwrap().acquire().await.unwrap();
    let site = session.site("a").unwrap();
    for list in [OpCode::GetChildren, OpCode::GetChildren2] {
        proxy.on(Matcher::reply(list), Action::Drop);
    }
    let mut look = Box::pin(site.contenders());
    let polled = tokio::time::timeout(Duration::from_millis(100), &mut look).await;
    assert!(polled.is_err());
    session.close().await;
    drop(guard);
    until("the session is gone", || (!bed.has_session(id)).then_some(())).await;
    assert_eq!(bed.contenders("a").len(), 0);
    drop(look);
    bed.end().await;
}

#[tokio::test]
async fn where_servers_open_local_sessions_the_error_says_what_they_need() {
    let builder = ZooKeeper::builder().tick_time(TICK).cfg_line("localSessionsEnabled=true");
    let bed = Bed::three(builder);
    let session = bed.session_of(T).await;
    let error = soon("a refusal", session.mutex("a").unwrap().acquire()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("localSessionsUpgradingEnabled=true"), "{error}");
    bed.end().await;
}
