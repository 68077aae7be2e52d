//! What generated code calls. The calls of a body are recorded: `wait` and `acquire` with what the
//! attribute says, `release` when the lock is free again, `unawaited` for a result that did not
//! wait for that, and `without` for a body that runs without a lock.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

pub use real::__private::*;
use real::{LockError, MutexGuard};
use zklock_core::run::kept::Keep;

use crate::events::{Outcome, locks, outcome, record};

/// Runs an async body under the lock.
pub async fn run<T, E, K, F>(call: Call, failed: E, keep: K, body: Pin<&mut Option<F>>) -> T
where
    E: FnOnce(LockError) -> T,
    K: Keep<T>,
    F: Future<Output = T>,
{
    let Some(wanted) = Wanted::of(&call) else {
        record("without");
        return real::__private::run(call, failed, keep, body).await;
    };
    record("wait");
    let (stage, call) = Stage::set(&wanted, call);
    let body = pin!(Some(Body { begun: stage.begun.clone(), lost: stage.lost, wanted, body }));
    let result = real::__private::run(call, failed, keep, body).await;
    drop(stage);
    match K::part(result) {
        Ok(part) => K::whole(part),
        Err(result) => {
            record("unawaited");
            result
        }
    }
}

/// Runs a plain body under the lock.
pub fn run_blocking<T, E, B>(call: Call, failed: E, body: B) -> T
where
    E: FnOnce(LockError) -> T,
    B: FnOnce() -> T,
{
    let Some(wanted) = Wanted::of(&call) else {
        record("without");
        return real::__private::run_blocking(call, failed, body);
    };
    let (stage, call) = Stage::set(&wanted, call);
    let (begun, lost) = (stage.begun.clone(), stage.lost);
    real::__private::run_blocking(call, failed, move || {
        wanted.acquired(&begun);
        let result = body();
        over(lost);
        result
    })
}

/// What an attribute says, read from how it is shown.
struct Wanted {
    names: Vec<String>,
    options: String,
}

impl Wanted {
    /// Nothing, if the condition is false.
    fn of(call: &Call) -> Option<Self> {
        let text = format!("{call:?}");
        let (names, rest) = text.split_once(", session: ")?;
        let names = names.split("Ok(\"").skip(1).filter_map(|name| name.split("\")").next());
        let names = names.map(|name| name.replace("\\\\", "\\")).collect();
        let between = |from: &str, to: &str| {
            let (_, rest) = rest.split_once(from).unwrap_or_default();
            rest.split(to).next().unwrap_or_default()
        };
        let said = [
            between("kind: ", ", permits: 1, options: "),
            between("options: LockOptions", ", driver: ").trim_matches([' ', '{', '}']),
            between("driver: ", " }, once: "),
            if rest.contains("once: true") { "once" } else { "" },
        ];
        let said = said.iter().filter(|part| !matches!(**part, "" | "Mutex" | "None"));
        Some(Wanted { names, options: said.map(|part| format!(" {part}")).collect() })
    }

    fn acquired(&self, begun: &AtomicBool) {
        if !begun.swap(true, Relaxed) {
            record(format!("acquire {}{}", self.names.join(" + "), self.options));
        }
    }
}

/// How the acquire goes, until the lock is free again.
struct Stage {
    begun: Arc<AtomicBool>,
    lost: bool,
    out: bool,
    _held: Option<MutexGuard>,
}

impl Stage {
    fn set(wanted: &Wanted, call: Call) -> (Self, Call) {
        let (locks, outcome) = (locks(), outcome());
        let (out, lost) = (outcome == Outcome::Unavailable, outcome == Outcome::Lost);
        let busy = wanted.names.first().filter(|_| outcome == Outcome::Busy);
        let held = busy.and_then(|name| locks.hold(name).ok());
        if out {
            locks.begin_outage();
        }
        let fails = out || held.is_some();
        let short = LockOptions::new().timeout(Duration::from_millis(if out { 1 } else { 2_000 }));
        let call = if fails { call.try_once(true).options(short) } else { call };
        (Stage { begun: Arc::default(), lost, out, _held: held }, call)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.out {
            locks().end_outage();
        }
        if self.begun.load(Relaxed) {
            let free = locks().session().local_contenders().is_empty();
            record(if free { "release" } else { "still held" });
        }
    }
}

/// The end of a body, which is dropped as a whole: the lock is still held.
fn over(lost: bool) {
    if lost {
        locks().lose();
    } else if !real::current().is_valid() {
        record("released before the body was dropped");
    }
}

struct Body<'a, F> {
    begun: Arc<AtomicBool>,
    lost: bool,
    wanted: Wanted,
    body: Pin<&'a mut Option<F>>,
}

impl<F: Future> Future for Body<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.wanted.acquired(&self.begun);
        let polled = match self.body.as_mut().as_pin_mut() {
            Some(body) => body.poll(context),
            None => Poll::Pending,
        };
        if self.lost && polled.is_ready() {
            locks().lose();
        }
        polled
    }
}

impl<F> Drop for Body<'_, F> {
    fn drop(&mut self) {
        self.body.set(None);
        if self.begun.load(Relaxed) && !self.lost {
            over(false);
        }
    }
}
