//! Locks of every kind, taken by somebody whose words are recorded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use zklock::{AnyGuard, AnyLock, LockError, LockOptions, MultiGuard, MultiLock, Session};
use zklock_checker::{Answer, Request};
use zklock_test_support::monotonic_ns;

use crate::record::Record;

/// A kind of lock, and what is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A mutex of which each caller has a node of its own.
    Fair,
    /// A mutex with a single node.
    Exclusive,
    /// A reader.
    Read,
    /// A writer.
    Write,
    /// A writer that becomes a reader before it releases.
    Downgrade,
    /// A semaphore with one permit.
    Semaphore,
    /// Two permits of three.
    Permits,
    /// Two mutexes as one.
    Multi,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Mutex,
        Kind::Fair,
        Kind::Exclusive,
        Kind::Read,
        Kind::Write,
        Kind::Downgrade,
        Kind::Semaphore,
        Kind::Permits,
        Kind::Multi,
    ];

    /// Whoever wants the same lock so that both exclude each other.
    pub fn rival(self) -> Kind {
        match self {
            Kind::Read | Kind::Write | Kind::Downgrade => Kind::Write,
            other => other,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Mutex | Kind::Fair => "mutex",
            Kind::Exclusive => "exclusive",
            Kind::Read => "read",
            Kind::Write | Kind::Downgrade => "write",
            Kind::Semaphore | Kind::Permits => "semaphore",
            Kind::Multi => "multi",
        }
    }

    /// Of a semaphore: how many permits, of how many.
    fn permits(self) -> (u32, u32) {
        if self == Kind::Permits { (2, 3) } else { (1, 1) }
    }

    /// The names of the locks behind a name.
    pub fn names(self, lock: &str) -> Vec<String> {
        match self {
            Kind::Multi => vec![format!("{lock}-1"), format!("{lock}-2")],
            _ => vec![lock.to_owned()],
        }
    }
}

/// Somebody with a session.
#[derive(Debug)]
pub struct Client {
    name: String,
    session: Session,
    record: Record,
    next: AtomicU64,
}

/// A guard of either sort.
#[derive(Debug)]
pub struct Held<'a> {
    client: &'a Client,
    handle: u64,
    guard: Guard,
}

#[derive(Debug)]
enum Guard {
    One(AnyGuard),
    Several(MultiGuard),
}

impl Client {
    /// Whose words go into the record under this name.
    pub fn new(name: &str, session: &Session, record: &Record) -> Self {
        let (session, record, next) = (session.clone(), record.clone(), AtomicU64::new(1));
        Client { name: name.to_owned(), session, record, next }
    }

    fn ask(&self, op: &str, request: Request) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.record.asked(&self.name, Request { id, op: op.to_owned(), ..request });
        id
    }

    fn answer(&self, id: u64, ok: bool, answer: Answer) {
        self.record.answered(&self.name, Answer { id: Some(id), ok: Some(ok), ..answer });
    }

    /// Acquires a lock and waits as long as it takes.
    ///
    /// # Errors
    ///
    /// The library's.
    pub async fn acquire(&self, kind: Kind, lock: &str) -> Result<Held<'_>, LockError> {
        let names = kind.names(lock);
        let name = if kind == Kind::Multi { json!(names) } else { Value::from(lock) };
        let (kind_word, (permits, limit)) = (Some(kind.word().to_owned()), kind.permits());
        let (permits, limit) = (Some(permits), Some(limit));
        let request = Request { kind: kind_word, lock: name, permits, limit, ..Request::default() };
        let handle = self.ask("acquire", request);
        let outcome = self.take(kind, lock, &names).await;
        let at_ns = Some(monotonic_ns());
        match outcome {
            Ok(guard) => {
                let tokens = match &guard {
                    Guard::One(guard) => guard.fencing_tokens(),
                    Guard::Several(guard) => guard.fencing_tokens(),
                };
                let tokens: Vec<_> = tokens.iter().map(ToString::to_string).collect();
                let token = tokens.join(",");
                let (handle_word, token) = (Some(handle), Some(token));
                let answer = Answer { handle: handle_word, token, at_ns, ..Answer::default() };
                self.answer(handle, true, answer);
                Ok(Held { client: self, handle, guard })
            }
            Err(error) => {
                let word = Some(error.kind().as_str().to_owned());
                self.answer(handle, false, Answer { error: word, ..Answer::default() });
                Err(error)
            }
        }
    }

    async fn take(&self, kind: Kind, lock: &str, names: &[String]) -> Result<Guard, LockError> {
        let session = &self.session;
        let one = match kind {
            Kind::Multi => {
                let members = names.iter().map(|name| session.mutex(name).map(AnyLock::Mutex));
                let multi = MultiLock::new(members.collect::<Result<Vec<_>, _>>()?)?;
                return Ok(Guard::Several(multi.acquire().await?.detach()));
            }
            Kind::Mutex => AnyLock::Mutex(session.mutex(lock)?),
            Kind::Read => AnyLock::Read(session.rw_lock(lock)?),
            Kind::Write | Kind::Downgrade => AnyLock::Write(session.rw_lock(lock)?),
            Kind::Fair => {
                AnyLock::Mutex(session.mutex(lock)?.with_options(LockOptions::new().fair(true)))
            }
            Kind::Exclusive => session.mutex(lock)?.with_driver(zklock::layout::OneNode).into(),
            Kind::Semaphore | Kind::Permits => {
                let (permits, limit) = kind.permits();
                AnyLock::Permits(session.semaphore(lock, limit)?, permits)
            }
        };
        Ok(Guard::One(one.acquire().await?.detach()))
    }

    /// Acquires, holds for a while with an eye on the guard, and releases. What kind says is done
    /// in between. Answers whether it was held to the end.
    ///
    /// # Errors
    ///
    /// The library's, but for a lock that was lost.
    pub async fn pass(&self, kind: Kind, lock: &str, hold: Duration) -> Result<bool, LockError> {
        let mut held = self.acquire(kind, lock).await?;
        let until = tokio::time::Instant::now() + hold;
        while held.check() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if kind == Kind::Downgrade {
            held = match held.downgrade().await {
                Ok(held) => held,
                Err(error) if error.is_lost() => return Ok(false),
                Err(error) => return Err(error),
            };
            held.check();
        }
        match held.release().await {
            Ok(()) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Held<'_> {
    /// Whether it is valid now, for the record.
    pub fn check(&self) -> bool {
        let id = self.client.ask("check", self.request());
        let at_ns = Some(monotonic_ns());
        let (valid, remaining) = match &self.guard {
            Guard::One(guard) => (guard.is_valid(), guard.remaining()),
            Guard::Several(guard) => (guard.is_valid(), guard.remaining()),
        };
        let remaining_ms = u64::try_from(remaining.as_millis()).ok();
        let answer = Answer { at_ns, valid: Some(valid), remaining_ms, ..Answer::default() };
        self.client.answer(id, true, answer);
        valid
    }

    fn request(&self) -> Request {
        Request { handle: Some(self.handle), ..Request::default() }
    }

    /// Releases it.
    ///
    /// # Errors
    ///
    /// The library's.
    pub async fn release(self) -> Result<(), LockError> {
        let id = self.client.ask("release", self.request());
        let at_ns = Some(monotonic_ns());
        let outcome = match self.guard {
            Guard::One(guard) => guard.release().await,
            Guard::Several(guard) => guard.release().await,
        };
        let error = outcome.as_ref().err().map(|error| error.kind().as_str().to_owned());
        self.client.answer(id, outcome.is_ok(), Answer { at_ns, error, ..Answer::default() });
        outcome
    }

    async fn downgrade(self) -> Result<Self, LockError> {
        let (client, request) = (self.client, self.request());
        let Guard::One(AnyGuard::Write(guard)) = self.guard else { return Ok(self) };
        let id = client.ask("downgrade", request);
        let outcome = guard.downgrade().await;
        let at_ns = Some(monotonic_ns());
        match outcome {
            Ok(guard) => {
                let token = Some(guard.fencing_token().to_string());
                let answer = Answer { handle: Some(id), token, at_ns, ..Answer::default() };
                client.answer(id, true, answer);
                let guard = Guard::One(AnyGuard::Read(guard.detach()));
                Ok(Held { client, handle: id, guard })
            }
            Err(refused) => {
                let error = LockError::from(refused);
                let word = Some(error.kind().as_str().to_owned());
                client.answer(id, false, Answer { error: word, ..Answer::default() });
                Err(error)
            }
        }
    }
}
