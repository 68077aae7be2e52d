//! The client: what `zookeeper-client` 0.11 does, timers and quirks included.
//!
//! It acts in a task of its process, as the real one does on the thread of its session: what is asked
//! of it waits in a queue until that task runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use zklock_core::coordinator::link::Link;
use zklock_core::coordinator::memory::shared::Request;
use zklock_core::coordinator::request_error::RequestError;
use zklock_core::coordinator::watch::WatchEvent;

use super::frames::{Answer, ToClient};
use super::txn::{Access, Path};
use crate::executor::ProcessId;
use crate::few::Few;

/// The client's own state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Disconnected,
    Connected,
    Expired,
    Closed,
}

/// What the client is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits before it dials the next server.
    Resting {
        until: u64,
    },
    /// Waits for TCP.
    Dialing {
        wire: u64,
        until: u64,
    },
    /// Introduces itself. It waits for so many answers after the first.
    Shaking {
        wire: u64,
        since: u64,
        answers: u32,
    },
    /// Sends what it is asked to.
    Serving {
        wire: u64,
        since: u64,
    },
    Over,
}

/// What the task of the client is asked for.
#[derive(Debug)]
pub(super) enum Asked {
    Request(u64, Request),
    /// Nobody waits for this watch any more.
    Unwatch(u64),
}

/// Somebody waits for an answer.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) answer: Option<Result<(Answer, Option<u64>), RequestError>>,
    pub(super) waker: Option<Waker>,
    pub(super) abandoned: bool,
    /// When a write was asked for.
    pub(super) writes: Option<u64>,
    /// What it watches if the answer is good.
    pub(super) watches: Option<(WatchKind, Path)>,
}

/// What a one-shot watch looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchKind {
    Data,
    Children,
}

/// A watch that somebody holds.
#[derive(Debug)]
pub(super) struct Watching {
    pub(super) path: Path,
    pub(super) kind: WatchKind,
    pub(super) event: Option<WatchEvent>,
    pub(super) waker: Option<Waker>,
}

/// How long the client waits for what. In microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) session: u64,
    pub(super) tick: u64,
    pub(super) ping: u64,
    /// How long a connection may be silent.
    pub(super) silence: u64,
    pub(super) expires: u64,
}

impl Timing {
    /// As the client's `reset_timeout`.
    pub(super) fn new(session: u64, configured: u64) -> Self {
        let share = if configured == 0 || configured > session * 3 / 5 {
            session / 20
        } else {
            configured / 8
        };
        let tick = share.max(1_000);
        let silence = 8 * tick;
        let session = session.max(silence);
        Timing {
            session,
            tick,
            ping: (3 * tick).min(10_000_000),
            silence,
            expires: session * 7 / 5,
        }
    }
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) process: ProcessId,
    /// For whom it is.
    pub(super) label: u64,
    /// In the order in which they are tried.
    pub(super) servers: Vec<usize>,
    pub(super) next_server: usize,
    pub(super) start_server: usize,
    pub(super) target: usize,
    /// Whether it begins again after the last server.
    pub(super) cycles: bool,
    pub(super) configured: u64,
    pub(super) timing: Timing,
    pub(super) credentials: Option<u32>,
    pub(super) access: Access,
    /// As the server named it; 0 before that.
    pub(super) session: i64,
    pub(super) state: State,
    pub(super) phase: Phase,
    /// When it gives its session up, if it is not connected.
    pub(super) deadline: u64,
    pub(super) seen: i64,
    pub(super) opened_at: u64,
    pub(super) last_receive: u64,
    pub(super) last_send: u64,
    /// When the latest answered write was asked for, or the session.
    pub(super) proven: u64,
    pub(super) pinged: bool,
    /// Who asked it to send something, whatever it is.
    pub(super) speaks: Vec<u64>,
    /// For each ping that is not answered: who asked for it.
    pub(super) said: VecDeque<Vec<u64>>,
    /// When it will be woken, at the latest.
    pub(super) timer: Option<u64>,
    pub(super) inbox: VecDeque<(u64, ToClient)>,
    pub(super) queue: VecDeque<Asked>,
    pub(super) slots: Few<Slot>,
    /// The requests that were sent and not answered.
    pub(super) sent: Vec<u64>,
    pub(super) watches: BTreeMap<u64, Watching>,
    /// Whether the watches were set again on this connection.
    pub(super) watches_set: bool,
    /// Who keeps the client open: its coordinator, and every reply that is waited for.
    pub(super) handles: usize,
    /// Whether its end was sent.
    pub(super) closing: Option<u64>,
    /// Why the session is over, where the state does not tell.
    pub(super) over: Option<Link>,
    /// How it ended, for those who ask when it is gone.
    pub(super) end: Arc<OnceLock<Link>>,
    /// Counts the changes of its state.
    pub(super) changes: u64,
    pub(super) waker: Option<Waker>,
    pub(super) watchers: BTreeMap<u64, Waker>,
    /// How its opening ended.
    pub(super) opened: Option<Result<(), RequestError>>,
}

impl Client {
    pub(super) fn link(&self) -> Link {
        match (self.over, self.state) {
            (_, State::Expired) => Link::Expired,
            (_, State::Closed) => Link::Closed,
            (Some(over), _) => over,
            (None, State::Connected) => Link::Up,
            (None, State::Disconnected) => Link::Down,
        }
    }

    /// The connection that it has.
    pub(super) fn wire(&self) -> Option<u64> {
        match self.phase {
            Phase::Dialing { wire, .. }
            | Phase::Shaking { wire, .. }
            | Phase::Serving { wire, .. } => Some(wire),
            Phase::Resting { .. } | Phase::Over => None,
        }
    }

    /// When there is something to do without a message.
    pub(super) fn due(&self) -> Option<u64> {
        let on_tick = |since: u64, at: u64| {
            let ticks = at.saturating_sub(since).div_ceil(self.timing.tick).max(1);
            since + ticks * self.timing.tick
        };
        match self.phase {
            Phase::Resting { until } | Phase::Dialing { until, .. } => Some(until),
            Phase::Shaking { since, .. } => {
                Some(on_tick(since, self.last_receive + self.timing.silence))
            }
            Phase::Serving { since, .. } => {
                let silence = self.last_receive + self.timing.silence;
                let ping = self.last_send + self.timing.ping;
                Some(on_tick(since, if self.pinged { silence } else { silence.min(ping) }))
            }
            Phase::Over => None,
        }
    }

    pub(super) fn set_state(&mut self, state: State, wake: &mut Vec<Waker>) {
        let over = matches!(self.state, State::Expired | State::Closed);
        if over || self.state == state {
            return;
        }
        self.state = state;
        self.changes += 1;
        self.tell_watchers(wake);
        if matches!(state, State::Expired | State::Closed) {
            for watching in self.watches.values_mut() {
                if watching.event.is_none() {
                    watching.event = Some(WatchEvent::SessionEnded);
                    wake.extend(watching.waker.take());
                }
            }
        }
    }

    /// Wakes those who look at the link.
    pub(super) fn tell_watchers(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(std::mem::take(&mut self.watchers).into_values());
    }

    /// Answers a request.
    pub(super) fn answer(
        &mut self,
        xid: u64,
        answer: Result<(Answer, Option<u64>), RequestError>,
        wake: &mut Vec<Waker>,
    ) {
        let Some(slot) = self.slots.get_mut(&xid) else { return };
        if slot.abandoned {
            self.slots.remove(&xid);
            if let Ok((_, Some(watch))) = answer {
                self.queue.push_back(Asked::Unwatch(watch));
            }
            return;
        }
        if answer.is_ok() {
            self.proven = self.proven.max(slot.writes.unwrap_or_default());
        }
        slot.answer = Some(answer);
        wake.extend(slot.waker.take());
    }

    /// Fails what was sent and not answered.
    pub(super) fn fail_sent(&mut self, error: &RequestError, wake: &mut Vec<Waker>) {
        let said = std::mem::take(&mut self.said).into_iter().flatten();
        for xid in std::mem::take(&mut self.sent).into_iter().chain(said) {
            self.answer(xid, Err(error.clone()), wake);
        }
    }
}
