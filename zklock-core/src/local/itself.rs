//! Waiting for oneself: certainly, which is refused, or perhaps, which is reported.
//!
//! It is certain only if the wait itself stops the other one: a thread is blocked, and what is
//! ahead runs on that thread. If the same task holds the lock, that proves nothing: a task may run
//! several futures concurrently, and a guard may be moved. For such a wait, a warning is logged
//! after a while, and the error at the end says so.

use std::fmt;
use std::future::Future;
use std::iter::once;
use std::sync::Arc;

use futures_lite::future::or;

use crate::base::caller::Caller;
use crate::base::clock::Clock;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::local::grant::{Grant, Kept};

const CURE: &str = "nest the call with `guard.scope(…)`, or call `guard.detach()` if another \
                    task, thread or branch releases the guard";

/// Whether a holder can only continue when `who` does.
pub fn stops_holder(who: &Caller, holder: &Grant) -> bool {
    stops_owner(who, holder) && holder.lease.is_valid()
}

/// The same of one that may have lost the lock, and has not given it back.
pub fn stops_owner(who: &Caller, holder: &Grant) -> bool {
    who.is_blocking()
        && holder.is_worked_under(|kept, by| match kept {
            Kept::InScope => who.stops(by) || who.is_same_task(by),
            Kept::ByGuard => who.stops(by),
            Kept::Detached => false,
        })
}

/// Whether another waiter can only continue when `who` does.
pub fn stops_waiter(who: &Caller, waiter: &Caller) -> bool {
    who.is_blocking() && (who.stops(waiter) || who.is_same_task(waiter))
}

/// Whether a newcomer is a holder that lost one of these leases. Another branch of it may still work
/// under the lost guard; it was told, and only the token protects from it. The branch that starts over
/// would wait for itself for ever.
pub fn starts_anew(who: &Caller, holder: &Grant) -> bool {
    let is_lost = || holder.leases().any(|lease| !lease.is_valid());
    holder.kept_by(|by| who.is_same(by)).is_some() && is_lost()
}

/// Lets those of these holders begin anew that `who` was when it lost the lock, and leaves the others.
pub fn let_go(who: &Caller, holders: &mut Vec<Arc<Grant>>) {
    holders.retain(|holder| {
        let gone = starts_anew(who, holder) && holder.begins_anew(who);
        if gone {
            holder.queue.clone().begin_anew(holder);
        }
        !gone
    });
}

/// Whether a caller that acquires the lock in `mode` waits for ever behind these contenders. The
/// flag of each says whether the caller stops it while it waits. Readers are granted together,
/// unless a writer is between them.
pub fn is_stuck(mode: Mode, ahead: impl IntoIterator<Item = (Mode, bool)>) -> bool {
    let mut behind_reader = false;
    for (theirs, stopped) in ahead.into_iter().chain(once((mode, false))) {
        if (stopped || behind_reader) && (theirs, mode) != (Mode::Read, Mode::Read) {
            return true;
        }
        behind_reader |= stopped;
    }
    false
}

/// The error of a blocked thread that would wait for ever.
pub fn stuck() -> LockError {
    let why = "its holder, or a waiter ahead of this call, runs on this thread or in this task, \
               which a blocking acquire would stop for ever; use `spawn_blocking`, or the async \
               method";
    LockError::new(ErrorKind::Deadlock, why)
}

/// A wait that may be one for oneself.
pub struct Perhaps {
    clock: Clock,
    lock: Arc<str>,
    /// What the caller holds, while it does.
    held: Box<dyn Fn() -> Option<String> + Send + Sync>,
}

impl fmt::Debug for Perhaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perhaps").field("held", &(self.held)()).finish_non_exhaustive()
    }
}

impl Perhaps {
    /// A wait for a lock that the caller partly holds; `held` describes what it holds, while it
    /// does.
    pub fn new(
        clock: Clock,
        lock: Arc<str>,
        held: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Perhaps { clock, lock, held: Box::new(held) }
    }
}

/// Waits, and reports what may be wrong if it may be a wait for oneself: in the log after a while, and in the
/// error of a busy lock.
///
/// # Cancel safety
///
/// That of `wait`.
pub async fn telling<T>(
    perhaps: Option<Perhaps>,
    waits: impl fmt::Display,
    wait: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    let Some(Perhaps { clock, lock, held }) = perhaps else { return wait.await };
    let impatient = async {
        clock.sleep(times::WARN).await;
        if let Some(held) = held() {
            let (lock, waits) = (&*lock, waits.to_string());
            unharmed(|| {
                tracing::warn!(lock, held, waits, "the caller may be waiting for itself; {CURE}")
            });
        }
        std::future::pending().await
    };
    let result = or(wait, impatient).await;
    result.map_err(|error| match held() {
        Some(held) if error.is_busy() => error.detailed(&format!("{held}; {CURE}")),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_in_nobodys_way_but_a_writers() {
        use Mode::{Mutex, Read, Write};
        let stuck = |mode, ahead: &[(Mode, bool)]| is_stuck(mode, ahead.iter().copied());
        assert!(stuck(Mutex, &[(Mutex, true)]) && !stuck(Mutex, &[(Mutex, false)]));
        assert!(stuck(Read, &[(Write, true)]) && stuck(Write, &[(Read, true)]));
        assert!(!stuck(Read, &[(Read, true)]) && !stuck(Read, &[(Read, true), (Read, false)]));
        assert!(stuck(Read, &[(Read, true), (Write, false)]));
        assert!(!stuck(Read, &[(Write, false), (Read, true)]));
        assert!(stuck(Read, &[(Read, true), (Read, false), (Write, false), (Read, false)]));
    }
}
