//! The options in effect: those of a lock over its session's, over the library's.

use std::time::Duration;

use crate::base::cancel_policy::{CancelPolicy, OnRevoked};
use crate::base::error::{ErrorKind, LockError};
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::policy::{Handoffs, RetryPolicy, StopAt};
use crate::cooldown::mark::Marks;

/// A value for every option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The longest time of one try.
    pub timeout: Duration,
    /// The number of tries.
    pub retries: u32,
    /// Whether it may be acquired again inside its own scope.
    pub reentrant: bool,
    /// How often to begin again when the node or its directory was deleted.
    pub vanished: RetryPolicy,
    /// The limit of handoffs.
    pub handoffs: Handoffs,
    /// How long the node is kept after the last release.
    pub linger: Duration,
    /// Whether every waiter has its own node.
    pub fair: bool,
    /// Whether a holder learns at once that it is asked to release. See [`Settings::is_revocable`].
    revocable: bool,
    /// What ends a body early.
    pub cancel_policy: CancelPolicy,
    /// When a guard counts as lost.
    pub stop_at: StopAt,
    /// The marks in the lock's directory.
    pub marks: Marks,
}

impl Default for Settings {
    /// Two tries of two seconds, reentrant.
    fn default() -> Self {
        Settings {
            timeout: Duration::from_secs(2),
            retries: 2,
            reentrant: true,
            vanished: RetryPolicy::default(),
            handoffs: Handoffs::default(),
            linger: Duration::ZERO,
            fair: false,
            revocable: false,
            cancel_policy: CancelPolicy::default(),
            stop_at: StopAt::default(),
            marks: Marks::default(),
        }
    }
}

impl Settings {
    /// These settings with the options that are set. The only place where options override others.
    pub fn with(&self, options: &LockOptions) -> Self {
        let marks = self.marks;
        Settings {
            timeout: options.timeout.unwrap_or(self.timeout),
            retries: options.retries.unwrap_or(self.retries),
            reentrant: options.reentrant.unwrap_or(self.reentrant),
            vanished: options.vanished.unwrap_or(self.vanished),
            handoffs: options.handoffs.unwrap_or(self.handoffs),
            linger: options.linger.unwrap_or(self.linger),
            fair: options.fair.unwrap_or(self.fair),
            revocable: options.revocable.unwrap_or(self.revocable),
            cancel_policy: CancelPolicy {
                lost: options.on_lost.unwrap_or(self.cancel_policy.lost),
                revoked: options.on_revoked.unwrap_or(self.cancel_policy.revoked),
            },
            stop_at: options.stop_at.unwrap_or(self.stop_at),
            marks: marks
                .delaying(options.lock_delay.unwrap_or(marks.delay()))
                .holding(options.hold_at_least.unwrap_or(marks.hold())),
        }
    }

    /// These settings of a session, without options that locks of this mode do not support.
    pub fn of_session(&self, mode: Mode) -> Self {
        let zero = Duration::ZERO;
        let cannot = match mode {
            Mode::Mutex => LockOptions::new(),
            Mode::Read | Mode::Write => LockOptions::new().hold_at_least(zero),
            Mode::Permit => LockOptions::new().hold_at_least(zero).lock_delay(zero).linger(zero),
        };
        self.with(&cannot)
    }

    /// These settings as options, all of them set.
    pub fn to_options(self) -> LockOptions {
        LockOptions::new()
            .timeout(self.timeout)
            .retries(self.retries)
            .reentrant(self.reentrant)
            .vanished(self.vanished)
            .handoffs(self.handoffs)
            .linger(self.linger)
            .fair(self.fair)
            .revocable(self.is_revocable())
            .on_lost(self.cancel_policy.lost)
            .on_revoked(self.cancel_policy.revoked)
            .stop_at(self.stop_at)
            .lock_delay(self.marks.delay())
            .hold_at_least(self.marks.hold())
    }

    /// The longest time that a call waits.
    pub fn longest_wait(&self) -> Duration {
        self.timeout.saturating_mul(self.retries)
    }

    /// Whether a holder learns at once that it is asked to release.
    pub fn is_revocable(&self) -> bool {
        self.revocable || self.cancel_policy.revoked == OnRevoked::Cancel
    }

    /// Checks the settings of a lock that is acquired in this mode.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOption`] for zero tries, for a zero timeout, for an option that such a
    /// lock does not support, and for options that contradict each other. For the last, the error
    /// says which of the two is the session's.
    pub fn check(&self, mode: Mode, session: &Settings) -> Result<(), LockError> {
        let refuse = |why: &str| Err(LockError::new(ErrorKind::InvalidOption, why));
        let (lingers, holds) = (!self.linger.is_zero(), !self.marks.hold().is_zero());
        if self.retries == 0 {
            return refuse(
                "`retries` is the total number of tries and must be at least 1; `retries = 1` \
                 tries once, and `try_acquire` does not wait",
            );
        }
        if self.timeout.is_zero() {
            return refuse(
                "the timeout of a try must be longer than zero, for instance `timeout = \"2s\"`; \
                 to try without waiting, use `try_acquire`",
            );
        }
        if mode == Mode::Permit && lingers {
            return refuse("a semaphore cannot linger: its permits go to the next waiter");
        }
        if mode == Mode::Permit && self.marks.any() {
            return refuse(
                "a semaphore supports neither `lock_delay` nor `hold_at_least`, which are for a \
                 single holder; use a mutex",
            );
        }
        if mode != Mode::Mutex && holds {
            return refuse(
                "`hold_at_least` is only for mutexes, which have one holder; remove it, or use a \
                 mutex",
            );
        }
        let linger_is_sessions = self.linger == session.linger;
        if self.fair && lingers {
            let whose = both("fair", self.fair == session.fair, linger_is_sessions);
            return refuse(&format!(
                "a fair lock cannot linger: every waiter has its own node; choose one{whose}"
            ));
        }
        if holds && lingers {
            let hold_is_sessions = self.marks.hold() == session.marks.hold();
            let whose = both("hold_at_least", hold_is_sessions, linger_is_sessions);
            return refuse(&format!(
                "a lock with `hold_at_least` cannot linger: a lingering lock is released as soon \
                 as somebody waits; choose one{whose}"
            ));
        }
        if self.marks.hold().max(self.marks.delay()) == Marks::LONGEST {
            return refuse("`lock_delay` and `hold_at_least` may be at most 49 days");
        }
        Ok(())
    }
}

/// Says which of two options the session sets; nothing if both are set in one place.
fn both(option: &str, is_sessions: bool, linger_is_sessions: bool) -> String {
    match (is_sessions, linger_is_sessions) {
        (false, true) => format!(
            " (`{option}` is set for this lock, `linger` by its session; `linger` of zero turns it off)"
        ),
        (true, false) => {
            format!(" (`linger` is set for this lock, `{option}` by its session)")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(options: LockOptions) -> Result<(), LockError> {
        Settings::default().with(&options).check(Mode::Mutex, &Settings::default())
    }

    #[test]
    fn the_documents_arithmetic_is_the_default() {
        assert_eq!(Settings::default().longest_wait(), Duration::from_secs(4));
    }

    #[test]
    fn what_is_not_set_is_as_below_and_all_that_is_set_goes_over_it() {
        let second = Duration::from_secs(1);
        let all = LockOptions::new()
            .timeout(second)
            .retries(7)
            .reentrant(false)
            .vanished(RetryPolicy::NEVER)
            .handoffs(Handoffs::NONE)
            .linger(second)
            .fair(true)
            .revocable(true)
            .on_lost(crate::base::cancel_policy::OnLost::Finish)
            .on_revoked(OnRevoked::Cancel)
            .stop_at(StopAt::Suspect)
            .lock_delay(second)
            .hold_at_least(second);
        let below = Settings::default().with(&all);
        assert_eq!(below.with(&LockOptions::new()), below);
        assert_eq!(below.to_options(), all);
        let usual = Settings::default().to_options();
        assert_eq!(below.with(&usual), Settings::default());
        assert_eq!(all.or(usual), all);
        assert_eq!(LockOptions::new().or(all), all);
    }

    #[test]
    fn zero_tries_and_zero_timeouts_are_refused_with_the_right_spelling() {
        let zero_tries = checked(LockOptions::new().retries(0)).unwrap_err();
        assert_eq!(zero_tries.kind(), ErrorKind::InvalidOption);
        assert!(zero_tries.to_string().contains("retries = 1"));
        let zero_timeout = checked(LockOptions::new().timeout(Duration::ZERO)).unwrap_err();
        assert!(zero_timeout.to_string().contains("try_acquire"));
    }

    #[test]
    fn a_lock_that_is_held_for_a_time_does_not_linger() {
        let hold = LockOptions::new().hold_at_least(Duration::from_secs(30));
        assert!(checked(hold).is_ok());
        let both = checked(hold.linger(Duration::from_secs(1))).unwrap_err();
        assert!(both.to_string().ends_with("choose one"), "{both}");
        assert!(checked(hold.lock_delay(Duration::from_secs(1))).is_ok());
        let endless = checked(LockOptions::new().lock_delay(Duration::MAX)).unwrap_err();
        assert!(endless.to_string().contains("at most 49 days"), "{endless}");
    }
}
