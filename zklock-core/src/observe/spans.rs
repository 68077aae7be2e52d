//! Spans of waits and of holds, for traces. Without a subscriber that wants them, each costs the
//! reading of one number.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

use crate::base::clock::{Clock, Instant};
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::token::FencingToken;
use crate::base::unharmed::unharmed;
use crate::name::lock_name::LockName;
use crate::observe::observer::{Granted, GrantedBy, tries};

/// The target of the spans, by which subscribers select them.
const TARGET: &str = "zklock";

/// The span of an acquire. If it is dropped before its end, the acquire was cancelled.
#[derive(Debug)]
pub struct Acquiring {
    /// Until its end.
    span: Option<Span>,
    clock: Clock,
    started: Instant,
    one_try: Option<Duration>,
}

impl Acquiring {
    /// Begins a span inside the caller's; `None` if nobody wants it.
    pub fn begin(
        (name, mode): (&LockName, Mode),
        clock: &Clock,
        (started, one_try): (Instant, Option<Duration>),
    ) -> Option<Self> {
        let span = info_span!(
            target: TARGET,
            "zklock.acquire",
            lock = name.as_str(),
            pattern = name.pattern(),
            mode = mode.as_str(),
            token = Empty,
            tries = Empty,
            waited = Empty,
            outcome = Empty,
        );
        // None is made and dropped where nobody listens: its end reads the clock.
        if span.is_disabled() {
            return None;
        }
        Some(Acquiring { span: Some(span), clock: clock.clone(), started, one_try })
    }

    /// Waits inside the span, which ends with the result.
    pub async fn around<T>(
        mut self,
        waiting: impl Future<Output = Result<T, LockError>>,
        granted: impl FnOnce(&T) -> Option<Granted>,
    ) -> Result<T, LockError> {
        let span = self.span.clone().unwrap_or_else(Span::none);
        let result = waiting.instrument(span).await;
        match result.as_ref().map(granted) {
            Ok(None) => self.end("error", None),
            Ok(Some(granted)) => self.end(how(granted.by), Some(granted.token)),
            Err(error) => self.end(outcome(error), None),
        }
        result
    }

    fn end(&mut self, outcome: &str, token: Option<FencingToken>) {
        let Some(span) = self.span.take() else { return };
        let waited = self.clock.now().since(self.started);
        let tries = match outcome {
            "node" | "handoff" | "scope" => tries(waited, self.one_try),
            // Those that ended.
            _ => tries(waited, self.one_try).saturating_sub(1).max(1),
        };
        unharmed(move || {
            if let Some(token) = token {
                span.record("token", tracing::field::display(token));
            }
            span.record("waited", waited.as_secs_f64());
            span.record("tries", tries);
            span.record("outcome", outcome);
        });
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        self.end("cancelled", None);
    }
}

/// How a lock was granted, as metrics and traces name it.
pub fn how(by: GrantedBy) -> &'static str {
    match by {
        GrantedBy::Node => "node",
        GrantedBy::Handoff => "handoff",
        GrantedBy::Scope => "scope",
        GrantedBy::Downgrade => "downgrade",
    }
}

/// The kind of an error, as metrics and traces name it.
pub fn outcome(error: &LockError) -> &'static str {
    match error.kind() {
        ErrorKind::Busy => "busy",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Closing => "closing",
        ErrorKind::Deadlock => "deadlock",
        _ => "error",
    }
}

/// The spans of holds, by the addresses of their grants: a grant that has no span needs no memory for
/// one.
static HOLDS: Mutex<Option<HashMap<usize, Span>>> = Mutex::new(None);

/// The number of these.
static OPEN: AtomicUsize = AtomicUsize::new(0);

fn holds<T>(change: impl FnOnce(&mut HashMap<usize, Span>) -> T) -> T {
    let mut holds = HOLDS.lock().unwrap_or_else(PoisonError::into_inner);
    let holds = holds.get_or_insert_default();
    let changed = change(holds);
    OPEN.store(holds.len(), Ordering::Release);
    changed
}

/// Begins the span of a hold inside the caller's, if somebody wants it.
pub fn hold(grant: usize, lock: &str, mode: Mode, granted: impl FnOnce() -> Granted) {
    let span = info_span!(
        target: TARGET,
        "zklock.hold",
        lock,
        pattern = Empty,
        mode = mode.as_str(),
        token = Empty,
        held = Empty,
        outcome = Empty,
    );
    if span.is_disabled() {
        return;
    }
    let Granted { pattern, token, .. } = granted();
    span.record("pattern", pattern.text());
    span.record("token", tracing::field::display(token));
    holds(|holds| holds.insert(grant, span));
}

/// Whether there is a span of a hold.
#[inline]
pub fn any_hold() -> bool {
    OPEN.load(Ordering::Acquire) > 0
}

/// Ends the span of a hold.
pub fn end_hold(grant: usize, held: Duration, outcome: &str) {
    // It is closed outside of the lock: a subscriber may do anything.
    if let Some(span) = holds(|holds| holds.remove(&grant)) {
        unharmed(move || {
            span.record("held", held.as_secs_f64());
            span.record("outcome", outcome);
        });
    }
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::{NoSubscriber, with_default};

    use super::*;
    use crate::observe::observer::Events;
    use crate::session::handle::Session;

    #[test]
    fn nothing_is_made_where_nobody_listens() {
        with_default(NoSubscriber::default(), || {
            let (session, name) = (Session::embedded(), LockName::new("a").unwrap());
            let start = (session.clock().now(), None);
            assert!(Acquiring::begin((&name, Mode::Mutex), session.clock(), start).is_none());
            hold(1, "a", Mode::Mutex, || panic!("made for nobody"));
            assert!(!any_hold());
            Events::default().tell(|| panic!("made for nobody"));
        });
    }
}
