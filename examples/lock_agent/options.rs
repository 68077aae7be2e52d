//! The command line.

use std::sync::Arc;
use std::time::Duration;

use lexopt::prelude::{Long, Short, ValueExt};
use zklock::driver::{LockDriver, ToDriver};
use zklock::{Handoffs, Label, LockError, LockOptions, Requeue, Session, StopAt, layout};

use crate::output::Output;
use crate::protocol::{Acquire, Refusal, unsupported};
use crate::states::Losses;

pub(crate) const HELP: &str = "\
Serves locks to any program over stdin and stdout, one JSON object per line.

Usage: lock_agent --connect SERVERS [OPTIONS]

  --connect SERVERS          a ZooKeeper connect string (host:port,host:port/chroot), or `embedded`
  --session-timeout-ms MS    session timeout to request; default 10000
  --root PATH                the node below which all locks are; default /zklock
  --layout NAME              layout of the locks: `curator` (the default), `kazoo`, `dlock` (sub_…),
                             `lock` (lock-…), `read-write-node`, `host`, `removed` (Curator's, with
                             directories that are removed after the release)
  --linger-ms MS             keeps the node for this time after the last release
  --lock-delay-ms MS         makes a lock unavailable for this time after its holder was lost
  --hold-at-least-ms MS      keeps a mutex for this time from the grant, even if it is released earlier
  --hold-at-most-ms MS       a guard is no longer valid this time after its grant
  --handoffs N               passes a lock on within this process at most N times in a row, however
                             long that takes; by default for 10 ms
  --fair                     gives each waiting request its own node; no lock is passed on
  --revocable                learns of revocations at once, and not only within a heartbeat
  --stop-at-suspect          guards are lost as soon as the connection is in doubt
  --tell-losses              writes an event `loss` that says why a lock was lost
  --not-reentrant            refuses to acquire a lock again inside the scope of its guard
  -h, --help                 prints this help

Requests:
  {\"id\":1,\"op\":\"acquire\",\"kind\":\"mutex\",\"lock\":\"a\",\"timeout_ms\":2000,\"retries\":1,\"parent\":7}
        without timeout_ms it waits for ever, with 0 it tries once; retries defaults to 1;
        parent acquires inside the scope of that guard; with \"blocking\":true a thread waits,
        and if that is cancelled, what it still gets is given back; layout, linger_ms,
        lock_delay_ms, hold_at_least_ms, hold_at_most_ms, handoffs, and (true or false) fair,
        revocable, stop_at_suspect and reentrant stand in for the options of these names; requeue
        says how often it queues up again after its node was deleted, and label what it is for
  {\"id\":1,\"op\":\"acquire\",\"kind\":\"multi\",\"lock\":[\"a\",\"b\"],\"kinds\":[\"mutex\",\"read\"]}
        several as one; without kinds they are mutexes
  {\"id\":1,\"op\":\"acquire\",\"kind\":\"semaphore\",\"lock\":\"a\",\"limit\":3,\"permits\":2}
        with \"limit_at\":\"b\" the limit is in that node, and limit only what it begins with
  {\"id\":2,\"op\":\"release\",\"handle\":7}    waits until the lock is released
  {\"id\":3,\"op\":\"drop\",\"handle\":7}       releases without waiting
  {\"id\":4,\"op\":\"cancel\",\"target\":1}     gives up a pending acquire
  {\"id\":5,\"op\":\"check\",\"handle\":7}      whether it is certainly held, and for how long
  {\"id\":5,\"op\":\"split\",\"handle\":7,\"permits\":1}  splits permits off, as a guard of their own
  {\"id\":6,\"op\":\"state\"}                 the state of the session
  {\"id\":7,\"op\":\"contenders\",\"lock\":\"a\"}  the contenders, in the order of the queue
  {\"id\":8,\"op\":\"revoke\",\"lock\":\"a\"}   asks the holder to release; both may say a layout

Beside the library's own errors there are `malformed` (2001), `cancelled` (2002) and `not_found`
(2003: no such guard, or no such pending acquire). at_ns is CLOCK_MONOTONIC in nanoseconds.
";

/// The result of parsing the command line.
pub(crate) enum Command {
    Help,
    Serve(Box<Options>),
}

/// The options of the agent.
pub(crate) struct Options {
    connect: String,
    session_timeout: Option<Duration>,
    root: Option<String>,
    driver: Arc<dyn LockDriver>,
    defaults: LockOptions,
    tells_losses: bool,
}

/// The layout of this name.
fn layout(name: &str) -> Option<Arc<dyn LockDriver>> {
    Some(match name {
        "curator" => layout::Curator.to_driver(),
        "kazoo" => layout::Kazoo::default().to_driver(),
        "dlock" => layout::Numbered::dlock().to_driver(),
        "lock" => layout::Numbered::lock().to_driver(),
        "read-write-node" => layout::ReadWriteNodes.to_driver(),
        "host" => layout::HostNodes::here().to_driver(),
        "removed" => layout::Removed::after(layout::Curator).to_driver(),
        _ => return None,
    })
}

/// The layout that a request names, or else the session's.
pub(crate) fn layout_of(
    session: &Session,
    name: Option<&str>,
) -> Result<Arc<dyn LockDriver>, Refusal> {
    let Some(name) = name else { return Ok(session.driver().clone()) };
    layout(name).ok_or_else(|| unsupported(format_args!("the layout `{name}`")))
}

impl Options {
    /// Returns the session, which connects in the background: requests wait for the connection
    /// within their own timeouts.
    pub(crate) fn open(&self, output: &Output) -> Result<Session, LockError> {
        let mut builder = Session::builder_for(&self.connect);
        if let Some(timeout) = self.session_timeout {
            builder = builder.session_timeout(timeout);
        }
        if let Some(root) = &self.root {
            builder = builder.root(root);
        }
        if self.tells_losses {
            builder = builder.observer(Losses(output.downgrade()));
        }
        builder.driver(self.driver.clone()).defaults(self.defaults).open()
    }
}

/// So many handoffs, however long they take.
fn at_most(handoffs: u32) -> Handoffs {
    Handoffs::new().most(handoffs).within(Duration::MAX)
}

/// The options of an acquire that differ from those of the agent.
pub(crate) fn of(request: &Acquire) -> LockOptions {
    let mut options = LockOptions::new();
    if let Some(ms) = request.timeout_ms.filter(|ms| *ms > 0) {
        options = options.timeout(Duration::from_millis(ms)).retries(request.retries);
    }
    let time = |ms: Option<u64>| ms.map(Duration::from_millis);
    options.linger = time(request.linger_ms);
    options.lock_delay = time(request.lock_delay_ms);
    options.hold_at_least = time(request.hold_at_least_ms);
    options.hold_at_most = time(request.hold_at_most_ms);
    options.handoffs = request.handoffs.map(at_most);
    options.requeue = request.requeue.map(|attempts| Requeue::new().attempts(attempts));
    options.fair = request.fair;
    options.revocable = request.revocable;
    options.reentrant = request.reentrant;
    options.stop_at =
        request.stop_at_suspect.map(|early| if early { StopAt::Suspect } else { StopAt::Lost });
    options.label = request.label.as_deref().map(Label::new);
    options
}

pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let (mut connect, mut session_timeout, mut root) = (None, None, None);
    let (mut driver, mut defaults) = (layout::Curator.to_driver(), LockOptions::new());
    let mut tells_losses = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("connect") => connect = Some(parser.value()?.string()?),
            Long("session-timeout-ms") => {
                session_timeout = Some(Duration::from_millis(parser.value()?.parse()?));
            }
            Long("root") => root = Some(parser.value()?.string()?),
            Long("layout") => {
                let name = parser.value()?.string()?;
                let unsupported = || format!("--layout {name} is unsupported");
                driver = layout(&name).ok_or_else(unsupported)?;
            }
            Long("linger-ms") => {
                defaults = defaults.linger(Duration::from_millis(parser.value()?.parse()?));
            }
            Long("lock-delay-ms") => {
                defaults = defaults.lock_delay(Duration::from_millis(parser.value()?.parse()?));
            }
            Long("hold-at-least-ms") => {
                defaults = defaults.hold_at_least(Duration::from_millis(parser.value()?.parse()?));
            }
            Long("hold-at-most-ms") => {
                defaults = defaults.hold_at_most(Duration::from_millis(parser.value()?.parse()?));
            }
            Long("tell-losses") => tells_losses = true,
            Long("not-reentrant") => defaults = defaults.reentrant(false),
            Long("handoffs") => {
                defaults = defaults.handoffs(at_most(parser.value()?.parse()?));
            }
            Long("revocable") => defaults = defaults.revocable(true),
            Long("stop-at-suspect") => defaults = defaults.stop_at(StopAt::Suspect),
            Long("fair") => defaults = defaults.fair(true),
            Short('h') | Long("help") => return Ok(Command::Help),
            other => return Err(other.unexpected()),
        }
    }
    let connect = connect.ok_or("say --connect HOST:PORT, or --connect embedded")?;
    let options = Options { connect, session_timeout, root, driver, defaults, tells_losses };
    Ok(Command::Serve(Box::new(options)))
}
