//! Acquiring, and giving up.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use serde_json::{Value, json};
use tokio::sync::oneshot::{Receiver, Sender, channel};
use zklock::{AnyLock, LockError, MultiLock, Session};

use crate::agent::Agent;
use crate::clock::now_ns;
use crate::held::Held;
use crate::options;
use crate::protocol::{Acquire, Refusal, answer, cancelled, malformed, success, unsupported};

/// Carries the id of the request that cancels.
type Cancel = Sender<u64>;

/// The acquires that are not answered yet, by the ids of their requests.
#[derive(Default)]
pub(crate) struct Pending(Mutex<HashMap<u64, Cancel>>);

impl Pending {
    fn with<T>(&self, act: impl FnOnce(&mut HashMap<u64, Cancel>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds an acquire, unless another one with its id is pending.
    fn begin(&self, id: u64) -> Option<Receiver<u64>> {
        self.with(|pending| match pending.entry(id) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => {
                let (cancel, cancelled) = channel();
                entry.insert(cancel);
                Some(cancelled)
            }
        })
    }

    /// Removes an acquire that has its outcome. False if it was cancelled before.
    fn finish(&self, id: u64) -> bool {
        self.with(|pending| pending.remove(&id).is_some())
    }

    /// Cancels an acquire; its task answers both requests. False if it is not pending.
    pub(crate) fn cancel(&self, target: u64, by: u64) -> bool {
        self.with(|pending| pending.remove(&target)).is_some_and(|cancel| cancel.send(by).is_ok())
    }

    /// Cancels everything.
    pub(crate) fn clear(&self) {
        self.with(HashMap::clear);
    }
}

/// Creates the task that serves an acquire. From now on it can be cancelled.
pub(crate) fn serve(
    agent: &Arc<Agent>,
    id: u64,
    request: Box<Acquire>,
) -> Result<impl Future<Output = ()> + Send + use<>, Refusal> {
    let taken = || malformed(format_args!("an acquire with the id {id} is pending"));
    let mut cancel = agent.pending.begin(id).ok_or_else(taken)?;
    let agent = agent.clone();
    Ok(async move {
        let begun = Begun::default();
        let outcome = tokio::select! {
            biased;
            by = &mut cancel => Err(by),
            outcome = acquire(&agent.session, &request, &begun) => Ok(outcome),
        };
        let by = match outcome {
            Ok(outcome) if agent.pending.finish(id) => {
                let begun_ns = begun.get().copied();
                match outcome {
                    Ok(guard) => agent.guards.keep(id, guard, begun_ns, agent.output.clone()),
                    Err(refusal) => {
                        let mut refused = answer(id, Err(refusal));
                        refused["begun_ns"] = json!(begun_ns);
                        refused["at_ns"] = json!(now_ns());
                        agent.output.send(refused);
                    }
                }
                return;
            }
            // Cancelled at the moment of its outcome.
            Ok(late) => {
                drop(late);
                cancel.await
            }
            Err(by) => by,
        };
        if let Ok(by) = by {
            agent.output.send(success(by, json!({})));
        }
        agent.output.send(answer(id, Err(cancelled())));
    })
}

/// When the library was asked: a request may have to wait for a processor before that.
type Begun = Arc<OnceLock<i64>>;

/// What a request asks for.
enum Wanted {
    One(AnyLock),
    Several(MultiLock),
}

async fn acquire(session: &Session, request: &Acquire, begun: &Begun) -> Result<Held, Refusal> {
    let (wanted, timeout_ms) = (wanted(session, request)?, request.timeout_ms);
    let begun = begun.clone();
    let begin = move || {
        begun.get_or_init(now_ns);
    };
    if request.blocking {
        let block = move || {
            begin();
            wanted.block(timeout_ms)
        };
        return on_a_thread(block).await;
    }
    begin();
    // It belongs to no task: any request may release it.
    Ok(match wanted {
        Wanted::One(lock) => Held::One(
            match timeout_ms {
                None => lock.acquire().await?,
                Some(0) => lock.try_acquire().await?,
                Some(_) => lock.acquire_tries().await?,
            }
            .detach(),
        ),
        Wanted::Several(locks) => Held::Several(
            match timeout_ms {
                None => locks.acquire().await?,
                Some(0) => locks.try_acquire().await?,
                Some(_) => locks.acquire_tries().await?,
            }
            .detach(),
        ),
    })
}

impl Wanted {
    /// The same on this thread.
    fn block(self, timeout_ms: Option<u64>) -> Result<Held, Refusal> {
        Ok(match self {
            Wanted::One(lock) => Held::One(
                match timeout_ms {
                    None => lock.blocking_acquire()?,
                    Some(0) => lock.blocking_try_acquire()?,
                    Some(_) => lock.blocking_acquire_tries()?,
                }
                .detach(),
            ),
            Wanted::Several(locks) => Held::Several(
                match timeout_ms {
                    None => locks.blocking_acquire()?,
                    Some(0) => locks.blocking_try_acquire()?,
                    Some(_) => locks.blocking_acquire_tries()?,
                }
                .detach(),
            ),
        })
    }
}

/// Runs `work` on a thread of its own, in the scope of this task. The program ends without waiting for
/// that thread. If the task is cancelled, what `work` still gets is given back.
async fn on_a_thread(
    work: impl FnOnce() -> Result<Held, Refusal> + Send + 'static,
) -> Result<Held, Refusal> {
    let (done, outcome) = channel();
    let work = zklock::carry_sync(work);
    let begun = thread::Builder::new().name("blocking".to_owned()).spawn(move || {
        // Nobody listens any more if the acquire was cancelled.
        drop(done.send(work()));
    });
    begun.map_err(|error| malformed(format_args!("no thread for a blocking acquire: {error}")))?;
    outcome.await.unwrap_or_else(|_| Err(malformed("the thread of a blocking acquire has failed")))
}

fn wanted(session: &Session, request: &Acquire) -> Result<Wanted, Refusal> {
    if request.kind == "multi" {
        let names = names(request)?.into_iter().enumerate();
        let members = names.map(|(place, name)| {
            let kind = request.kinds.get(place).map_or("mutex", String::as_str);
            one(session, kind, name, request)
        });
        return Ok(Wanted::Several(MultiLock::new(members.collect::<Result<Vec<_>, _>>()?)?));
    }
    let name = request.lock.as_str().ok_or_else(|| malformed("`lock` is not a string"))?;
    Ok(Wanted::One(one(session, &request.kind, name, request)?))
}

fn names(request: &Acquire) -> Result<Vec<&str>, Refusal> {
    let names = request.lock.as_array().map(|names| names.iter().map(Value::as_str).collect());
    names.flatten().ok_or_else(|| malformed("`lock` is not a list of strings"))
}

/// One lock of the given kind.
fn one(session: &Session, kind: &str, name: &str, request: &Acquire) -> Result<AnyLock, Refusal> {
    let options = options::of(request);
    let driver = options::layout_of(session, request.layout.as_deref())?;
    let rw_lock = |driver| Ok::<_, LockError>(session.rw_lock(name)?.with_driver(driver));
    Ok(match kind {
        "mutex" => session.mutex(name)?.with_driver(driver).with_options(options).into(),
        "exclusive" => {
            session.mutex(name)?.with_driver(zklock::layout::OneNode).with_options(options).into()
        }
        "read" => AnyLock::Read(rw_lock(driver)?.with_options(options)),
        "write" => AnyLock::Write(rw_lock(driver)?.with_options(options)),
        "semaphore" => {
            let limit = request.limit.ok_or_else(|| malformed("a semaphore needs a `limit`"))?;
            let semaphore = match &request.limit_at {
                Some(node) => session.semaphore_with_limit_at(name, node.as_str(), limit)?,
                None => session.semaphore(name, limit)?,
            };
            let semaphore = semaphore.with_driver(driver).with_options(options);
            AnyLock::Permits(semaphore, request.permits)
        }
        _ => return Err(unsupported(format_args!("the kind `{kind}`"))),
    })
}
