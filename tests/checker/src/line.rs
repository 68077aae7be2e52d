//! The lines of a history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line. `at_ns` is `CLOCK_MONOTONIC`, and one of the other fields says what happened then.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Line {
    /// When the driver sent or heard it.
    pub at_ns: u64,
    /// Which process. A process that is started again has a new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// What was asked.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// What came back.
    #[serde(default, rename = "out", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// How the client ended: `quit`, after all its answers, or `killed`, at `from_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// How the client was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// What was done to the servers, the network or the client. Without a `client`: to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Which fault is over, of the same client; one that is never healed lasted for a moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healed: Option<String>,
    /// Of a fault: the nodes that it surely took away behind their owners' backs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// When this was begun, or measured last; `at_ns` is when it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// Of a fault that takes nodes away: whose they were, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Of a fault that takes nodes away: whether they may be there still.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsure: bool,
    /// By how much a thread of the driver, which only sleeps, woke too late: the machine was busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// Of a client: for how long the threads that every answer needs had to wait for a processor since
    /// `from_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starved_ns: Option<u64>,
    /// Of a client: the same of the threads of which one waits for each blocking acquire, the one that
    /// waited longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking_starved_ns: Option<u64>,
    /// For how long the host gave a processor of the machine to others since `from_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_ns: Option<u64>,
    /// How long a server took for a write of the driver's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_ns: Option<u64>,
    /// Limits of semaphores that are in nodes, by the nodes as requests name them. They do not change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u32>,
    /// What was left over at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// What is known of a client from its start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Start {
    /// `curator` or `kazoo`: a peer has no tokens, and promises nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Its session timeout; 10 s without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_timeout_ms: Option<u64>,
    /// Whether its requests are served in their order, where an acquire says nothing else.
    #[serde(default)]
    pub fair: bool,
    /// The other options of its acquires that say nothing else, as words of a command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl Start {
    /// Whether it was started with an option.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|one| one == option)
    }

    /// The number after an option.
    pub(crate) fn number(&self, option: &str) -> Option<u64> {
        let at = self.options.iter().position(|one| one == option)?;
        self.options.get(at + 1)?.parse().ok()
    }
}

/// A request to the agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// Its number; unique for a client.
    pub id: u64,
    /// The operation.
    pub op: String,
    /// Of an acquire: which lock; `mutex` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Of an acquire: a name, or several.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub lock: Value,
    /// How long a try may take; 0 tries once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Of several locks: the kind of each; mutexes without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Of an acquire: for how long its guard is valid at most. Like the options below, in place of what its
    /// process says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_at_most_ms: Option<u64>,
    /// Of an acquire: whether it is granted in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair: Option<bool>,
    /// Of an acquire: whether its guard is lost as soon as the connection is in trouble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at_suspect: Option<bool>,
    /// Of an acquire: whether it may be granted inside a scope that holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reentrant: Option<bool>,
    /// Of an acquire: for how long the lock is unavailable after its holder was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_delay_ms: Option<u64>,
    /// Of an acquire: how often it queues up again after others deleted its node or the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue: Option<u32>,
    /// Whether a thread of its own waits for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocking: bool,
    /// How many tries; 1 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Of a semaphore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Of a semaphore whose limit is in a node: which one. If that exists, `limit` says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_at: Option<String>,
    /// Of a semaphore, or of what is split off; 1 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// The guard in whose scope it is acquired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// The guard that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<u64>,
    /// Of a cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u64>,
    /// Of a fenced write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// An answer of the agent, or an event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The request's number; none for an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Whether it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// The guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<u64>,
    /// Of a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Of a grant: the node, or nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// When it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// Of an acquire: when the library was asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_ns: Option<u64>,
    /// Of a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<bool>,
    /// Of a check: for how long it is surely held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `lost`, `revoked` or `state`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Of a `state`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// What the servers and the processes still had when everything was released and closed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Left {
    /// Ephemeral nodes.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Watched paths.
    #[serde(default)]
    pub watches: Vec<String>,
    /// Sessions.
    #[serde(default)]
    pub sessions: Vec<String>,
    /// Threads and tasks.
    #[serde(default)]
    pub threads: Vec<String>,
}
