//! Secrets stay secret: everything that can be printed is, and every log is read.
//!
//! A binary of its own: it listens to the logs of its whole process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::error::Error;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use zklock::{Acl, Event, LockError, Observer, Session, SessionBuilder, SessionRegistry};
use zklock_test_support::{Cut, Proxy, ZooKeeper};

const SECRET: &str = "hunter2";

/// Everything that was logged, a line each: level, target, fields.
#[derive(Clone, Debug, Default)]
struct Ear(Arc<Mutex<Vec<(Level, String)>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Ear {
    fn hear(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{} {}", metadata.target(), metadata.name()));
        record(&mut line);
        self.0.lock().unwrap().push((*metadata.level(), line.0));
    }
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.hear(span.metadata(), |line| span.record(line));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        self.0.lock().unwrap().push((Level::TRACE, line.0));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        self.hear(event.metadata(), |line| event.record(line));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Debug, Default)]
struct Events(Mutex<String>);

impl Observer for Events {
    fn event(&self, event: &Event) {
        writeln!(self.0.lock().unwrap(), "{event:?}").unwrap();
    }
}

/// An error and what is behind it, in both forms.
fn all_of(error: &LockError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        write!(text, " {error} {error:?}").unwrap();
        source = error.source();
    }
    text
}

fn bytes(secret: &[u8]) -> String {
    format!("{secret:?}").trim_matches(['[', ']']).to_owned()
}

fn assert_silent(text: &str) {
    assert!(!text.contains(SECRET) && !text.contains(&bytes(SECRET.as_bytes())), "{text}");
}

fn builder(addr: &str) -> SessionBuilder {
    let builder = Session::builder(addr).root("/secrets").session_timeout(Duration::from_secs(20));
    builder.connect_timeout(Duration::from_secs(30))
}

#[tokio::test]
async fn nothing_that_can_be_printed_and_no_log_shows_a_secret() {
    let ear = Ear::default();
    tracing::subscriber::set_global_default(ear.clone()).unwrap();
    let server = ZooKeeper::shared();
    let proxy = Proxy::start(server.socket_addr());
    let events = Arc::new(Events::default());
    let mut texts = Vec::new();

    // A session that works, and what it says.
    let private =
        builder(&proxy.addr()).auth("digest", format!("me:{SECRET}")).acl(Acl::CreatorAll);
    let private = private.observer(events.clone());
    let session = private.clone().connect().await.unwrap();
    let mutex = session.mutex("a").unwrap();
    let guard = mutex.acquire().await.unwrap();
    texts.push(format!(
        "{private:?} {session:?} {mutex:?} {guard:?} {:?}",
        session.local_contenders()
    ));
    let again = private.clone().connect().await.unwrap();
    texts.push(all_of(&again.mutex("a").unwrap().try_acquire().await.unwrap_err()));
    // What breaks.
    proxy.cut(Cut::Reset);
    proxy.expire_session(session.zookeeper_session().unwrap().id);
    guard.lost().await;
    texts.push(all_of(&guard.release().await.unwrap_err()));
    mutex.acquire().await.unwrap().release().await.unwrap();
    // Who is not let in.
    let stranger = builder(&server.addr()).auth("digest", format!("you:{SECRET}")).open().unwrap();
    texts.push(all_of(&stranger.mutex("a").unwrap().acquire().await.unwrap_err()));
    let wrong = builder(&server.addr()).auth("no-such-scheme", SECRET);
    texts.push(all_of(&wrong.connect().await.unwrap_err()));
    let nowhere = builder("127.0.0.1:1").auth("digest", format!("me:{SECRET}"));
    let nowhere = nowhere.connect_timeout(Duration::from_millis(200));
    texts.push(all_of(&nowhere.connect().await.unwrap_err()));
    let nonsense = builder("no sense").auth("digest", format!("me:{SECRET}"));
    texts.push(all_of(&nonsense.open().unwrap_err()));
    texts.push(format!("{:?}", SessionRegistry::global()));
    for session in [session, again, stranger] {
        session.close().await;
    }

    texts.push(events.0.lock().unwrap().clone());
    for text in &texts {
        assert_silent(text);
    }
    let logged = ear.0.lock().unwrap().clone();
    for target in ["zklock_core", "zookeeper_client"] {
        assert!(logged.iter().any(|(_, line)| line.contains(target)), "nothing heard of {target}");
    }
    // The passwords of ZooKeeper sessions are the client's secret. It logs them for debugging, as
    // the documentation of `SessionBuilder::auth` says.
    let keys = proxy.sessions();
    assert!(!keys.is_empty());
    for (level, line) in &logged {
        assert_silent(line);
        let debugs = line.starts_with("zookeeper_client") && *level >= Level::DEBUG;
        for key in keys.iter().filter(|_| !debugs) {
            assert!(!line.contains(&bytes(&key.password)), "{level} {line}");
        }
    }
}
