//! The protocol: requests and replies.

use std::fmt::Display;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use zklock::{ErrorKind, LockError};

/// A guard, as the other side names it.
pub(crate) type Handle = u64;

/// A request. Fields that an operation does not know are ignored.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Operation {
    Acquire(Box<Acquire>),
    Release {
        handle: Handle,
    },
    Drop {
        handle: Handle,
    },
    Cancel {
        target: u64,
    },
    Check {
        handle: Handle,
    },
    Downgrade {
        handle: Handle,
    },
    Split {
        handle: Handle,
        #[serde(default = "one")]
        permits: u32,
    },
    FencedSet {
        handle: Handle,
        path: String,
        data: String,
    },
    State,
    Contenders {
        lock: String,
        layout: Option<String>,
    },
    Revoke {
        lock: String,
        layout: Option<String>,
    },
    #[serde(other)]
    Unsupported,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Acquire {
    #[serde(default = "mutex")]
    pub(crate) kind: String,
    /// A name; a list of names for kinds that take several.
    pub(crate) lock: Value,
    pub(crate) timeout_ms: Option<u64>,
    #[serde(default = "one")]
    pub(crate) retries: u32,
    pub(crate) parent: Option<Handle>,
    /// The limit of a semaphore.
    pub(crate) limit: Option<u32>,
    /// The node with the limit of a semaphore, below the root; then `limit` is for a node that does not
    /// exist yet.
    pub(crate) limit_at: Option<String>,
    #[serde(default = "one")]
    pub(crate) permits: u32,
    /// Of several locks: the kind of each, in the order of the names; mutexes without it.
    #[serde(default)]
    pub(crate) kinds: Vec<String>,
    /// In place of the agent's options of these names, for this acquire only.
    pub(crate) layout: Option<String>,
    pub(crate) linger_ms: Option<u64>,
    pub(crate) lock_delay_ms: Option<u64>,
    pub(crate) hold_at_least_ms: Option<u64>,
    pub(crate) hold_at_most_ms: Option<u64>,
    pub(crate) handoffs: Option<u32>,
    pub(crate) fair: Option<bool>,
    pub(crate) revocable: Option<bool>,
    pub(crate) stop_at_suspect: Option<bool>,
    pub(crate) reentrant: Option<bool>,
    /// How often it queues up again after its node was deleted.
    pub(crate) requeue: Option<u32>,
    /// What it is for.
    pub(crate) label: Option<String>,
    /// Whether a thread of its own waits for it.
    #[serde(default)]
    pub(crate) blocking: bool,
}

fn mutex() -> String {
    "mutex".to_owned()
}

fn one() -> u32 {
    1
}

/// Parses a line. The error is the line to reply with, including the request's id if it had one.
pub(crate) fn parse(line: &[u8]) -> Result<(u64, Operation), Value> {
    let request: Map<String, Value> = serde_json::from_slice(line)
        .map_err(|error| failure(None, &malformed(format_args!("not a JSON object: {error}"))))?;
    let id = request.get("id").and_then(Value::as_u64);
    let id = id.ok_or_else(|| failure(None, &malformed("no `id`, which is an integer from 0")))?;
    Operation::deserialize(Value::Object(request))
        .map(|operation| (id, operation))
        .map_err(|error| failure(Some(id), &malformed(error)))
}

/// The reason why a request failed.
#[derive(Debug)]
pub(crate) struct Refusal {
    error: &'static str,
    code: &'static str,
    message: String,
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        let kind = error.kind();
        Refusal { error: kind.as_str(), code: kind.code(), message: format!("{error:#}") }
    }
}

pub(crate) fn unsupported(what: impl Display) -> Refusal {
    LockError::new(ErrorKind::Unsupported, format!("{what} is unsupported")).into()
}

pub(crate) fn malformed(why: impl Display) -> Refusal {
    Refusal { error: "malformed", code: "2001", message: why.to_string() }
}

pub(crate) fn cancelled() -> Refusal {
    Refusal { error: "cancelled", code: "2002", message: "the acquire was cancelled".to_owned() }
}

pub(crate) fn not_found(what: impl Display) -> Refusal {
    Refusal { error: "not_found", code: "2003", message: format!("there is no {what}") }
}

/// The reply to a request that succeeded. `fields` is an object.
pub(crate) fn success(id: u64, fields: Value) -> Value {
    let mut answer = json!({ "id": id, "ok": true });
    if let (Some(answer), Value::Object(mut fields)) = (answer.as_object_mut(), fields) {
        answer.append(&mut fields);
    }
    answer
}

/// The reply to a request that failed.
pub(crate) fn failure(id: Option<u64>, refusal: &Refusal) -> Value {
    let Refusal { error, code, message } = refusal;
    json!({ "id": id, "ok": false, "error": error, "code": code, "message": message })
}

/// The reply to either.
pub(crate) fn answer(id: u64, outcome: Result<Value, Refusal>) -> Value {
    outcome.map(|fields| success(id, fields)).unwrap_or_else(|refusal| failure(Some(id), &refusal))
}
