//! A running peer that takes and releases locks on request.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::{Grant, LockKind, Outcome};
use crate::lock::lock;
use crate::process::Process;

/// How long an agent may take to start or to answer where the lock has no say in it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that holds Curator's or kazoo's locks; all its locks are on one session.
///
/// It ends when it is dropped, its locks then stay until the session expires;
/// [`quit`](Self::quit) closes the session first.
#[derive(Debug)]
pub struct Agent {
    process: Mutex<Option<Process>>,
    stdin: Mutex<Option<ChildStdin>>,
    inbox: Arc<Inbox>,
    next_id: AtomicU64,
}

/// An acquire that has not been answered yet.
#[derive(Debug)]
pub struct Pending<'a> {
    agent: &'a Agent,
    id: u64,
}

#[derive(Debug, Default)]
struct Inbox {
    mail: Mutex<Mail>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Mail {
    ready: bool,
    ended: bool,
    answers: HashMap<u64, String>,
    events: Vec<String>,
}

impl Agent {
    /// Runs the command and waits until it is connected.
    pub(super) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(command, None)
            .unwrap_or_else(|err| panic!("cannot start the peer: {err}"));
        let (stdin, stdout) = process.pipes();
        let inbox = Arc::new(Inbox::default());
        let for_thread = Arc::clone(&inbox);
        thread::spawn(move || for_thread.fill(stdout));
        let agent = Self {
            process: Mutex::new(Some(process)),
            stdin: Mutex::new(Some(stdin)),
            inbox,
            next_id: AtomicU64::new(1),
        };
        let ready =
            agent.inbox.wait(PATIENCE, |mail| (mail.ready || mail.ended).then_some(mail.ready));
        assert_eq!(ready, Some(true), "the peer does not connect");
        agent
    }

    /// Acquires a lock; without a `timeout` it waits for ever, with zero it tries once.
    ///
    /// # Panics
    ///
    /// When there is no answer a minute after the timeout.
    pub fn acquire(&self, kind: LockKind, path: &str, timeout: Option<Duration>) -> Outcome {
        let pending = self.start_acquire(kind, path, timeout);
        let limit = timeout.unwrap_or_default() + PATIENCE;
        pending.wait(limit).unwrap_or_else(|| panic!("no answer within {limit:?}"))
    }

    /// Begins to acquire a lock. Requests are served side by side.
    pub fn start_acquire(
        &self,
        kind: LockKind,
        path: &str,
        timeout: Option<Duration>,
    ) -> Pending<'_> {
        let millis = timeout.map_or(-1, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let id = self.send(&format!("acquire {kind} {path} {millis}"));
        Pending { agent: self, id }
    }

    /// Releases a lock and returns when it began to, on the clock of
    /// [`monotonic_ns`](crate::monotonic_ns).
    ///
    /// # Errors
    ///
    /// What the peer says.
    pub fn release(&self, grant: &Grant) -> Result<u64, String> {
        released(self.ask(&format!("release {}", grant.handle)))
    }

    /// The same; `None` when there is no answer after `limit`.
    #[must_use = "the lock may be held still"]
    pub fn release_within(&self, grant: &Grant, limit: Duration) -> Option<Result<u64, String>> {
        let id = self.send(&format!("release {}", grant.handle));
        self.inbox.answer(id, limit).map(released)
    }

    /// Returns the paths of the nodes in a lock's directory, in the peer's order.
    ///
    /// # Panics
    ///
    /// When the peer fails to list them.
    pub fn participants(&self, path: &str) -> Vec<String> {
        let answer = self.ask(&format!("participants {path}"));
        let mut words = answer.split(' ');
        assert_eq!(words.next(), Some("ok"), "{answer}");
        words.map(str::to_owned).collect()
    }

    /// Asks the holder of this node to give the lock up; Curator only.
    ///
    /// # Errors
    ///
    /// What the peer says.
    pub fn revoke(&self, node: &str) -> Result<(), String> {
        let answer = self.ask(&format!("revoke {node}"));
        if answer == "ok" { Ok(()) } else { Err(answer) }
    }

    /// Waits for an event that nobody waited for yet, such as `revoked 1`; false when it did not
    /// come within `limit`.
    #[must_use = "false means that it did not happen"]
    pub fn wait_event(&self, event: &str, limit: Duration) -> bool {
        let taken = self.inbox.wait(limit, |mail| {
            let index = mail.events.iter().position(|known| known == event)?;
            Some(mail.events.remove(index))
        });
        taken.is_some()
    }

    /// Freezes the process (SIGSTOP), and returns when it stands still.
    ///
    /// # Panics
    ///
    /// When it was killed.
    pub fn pause(&self) {
        lock(&self.process).as_ref().expect("the peer was killed").pause();
    }

    /// Thaws the process (SIGCONT).
    ///
    /// # Panics
    ///
    /// When it was killed.
    pub fn resume(&self) {
        lock(&self.process).as_ref().expect("the peer was killed").resume();
    }

    /// Kills the process (SIGKILL). Its session expires later.
    pub fn kill(&self) {
        lock(&self.process).take();
    }

    /// Closes the session, and waits until the process has ended.
    pub fn quit(self) {
        if let Some(mut stdin) = lock(&self.stdin).take() {
            _ = stdin.write_all(b"quit\n");
        }
        let ended = self.inbox.wait(PATIENCE, |mail| mail.ended.then_some(()));
        assert!(ended.is_some(), "the peer does not end");
    }

    fn ask(&self, request: &str) -> String {
        let id = self.send(request);
        let answer = self.inbox.answer(id, PATIENCE);
        answer.unwrap_or_else(|| panic!("no answer to `{request}`"))
    }

    fn send(&self, request: &str) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        if let Some(stdin) = lock(&self.stdin).as_mut() {
            // A dead peer shows in the answer.
            _ = stdin.write_all(format!("{id} {request}\n").as_bytes());
        }
        id
    }
}

fn released(answer: String) -> Result<u64, String> {
    let at = answer.strip_prefix("ok ").and_then(|at| at.parse().ok());
    at.ok_or(answer)
}

impl Pending<'_> {
    /// Waits for the outcome; `None` when there is none yet after `limit`. An outcome is
    /// returned once.
    #[must_use = "the lock may be held now"]
    pub fn wait(&self, limit: Duration) -> Option<Outcome> {
        self.agent.inbox.answer(self.id, limit).map(|answer| Outcome::parse(&answer))
    }

    /// Asks the peer to give up waiting; the outcome says whether it came in time.
    pub fn cancel(&self) {
        self.agent.ask(&format!("cancel {}", self.id));
    }
}

impl Inbox {
    fn fill(&self, stdout: ChildStdout) {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let (head, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let mut mail = lock(&self.mail);
            if head == "ready" {
                mail.ready = true;
            } else if head == "event" {
                mail.events.push(rest.to_owned());
            } else if let Ok(id) = head.parse() {
                mail.answers.insert(id, rest.to_owned());
            }
            drop(mail);
            self.changed.notify_all();
        }
        lock(&self.mail).ended = true;
        self.changed.notify_all();
    }

    fn answer(&self, id: u64, limit: Duration) -> Option<String> {
        self.wait(limit, |mail| {
            let answer = mail.answers.remove(&id);
            answer.or_else(|| mail.ended.then(|| "error the peer has ended".to_owned()))
        })
    }

    fn wait<R>(&self, limit: Duration, mut check: impl FnMut(&mut Mail) -> Option<R>) -> Option<R> {
        let deadline = Instant::now() + limit;
        let mut mail = lock(&self.mail);
        loop {
            if let Some(result) = check(&mut mail) {
                return Some(result);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let woken = self.changed.wait_timeout(mail, left);
            mail = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
