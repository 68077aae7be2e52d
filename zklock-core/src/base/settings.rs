//! The options in effect: those of a lock over its session's, over the library's.

use std::fmt;
use std::time::Duration;

use crate::base::cancel_policy::{CancelPolicy, OnLost, OnRevoked};
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::label::Label;
use crate::base::mode::Mode;
use crate::base::options::LockOptions;
use crate::base::policy::{Handoffs, Requeue, StopAt};
use crate::base::times;
use crate::cooldown::mark::Marks;

/// Declares all options: what each is in [`Settings`], its type, and its value if nobody sets it.
macro_rules! options {
    ($($(#[$about:meta])* $option:ident: $type:ty = $default:expr,)*) => {
        /// A value for every option.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[$about])* pub $option: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $($option: $default,)* }
            }
        }

        impl Settings {
            /// These settings with the options that are set.
            pub fn with(&self, options: &LockOptions) -> Self {
                Settings { $($option: options.$option.unwrap_or(self.$option),)* }
            }

            /// These settings as options, all of them set.
            pub fn to_options(self) -> LockOptions {
                let revocable = self.is_revocable();
                LockOptions { $($option: Some(self.$option),)* }.revocable(revocable)
            }
        }

        impl LockOptions {
            /// Options of which none is set.
            pub(crate) const UNSET: LockOptions = LockOptions { $($option: None,)* };

            /// Returns these options; those that are not set are taken from `others`.
            ///
            /// ```
            /// use zklock::LockOptions;
            ///
            /// let usual = LockOptions::new().retries(3).fair(true);
            /// let both = LockOptions::new().retries(1).or(usual);
            /// assert_eq!((both.retries, both.fair), (Some(1), Some(true)));
            /// ```
            pub fn or(self, others: LockOptions) -> Self {
                LockOptions { $($option: self.$option.or(others.$option),)* }
            }
        }

        /// Only what is set.
        impl fmt::Debug for LockOptions {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut options = f.debug_struct("LockOptions");
                $(if let Some(value) = &self.$option {
                    options.field(stringify!($option), value);
                })*
                options.finish()
            }
        }
    };
}

options! {
    /// The longest time of one try.
    timeout: Duration = times::TRY,
    /// The number of tries.
    retries: u32 = 2,
    /// Whether it may be acquired again inside its own scope.
    reentrant: bool = true,
    /// How often to queue up again when the node or its directory was deleted.
    requeue: Requeue = Requeue::default(),
    /// The limit of handoffs.
    handoffs: Handoffs = Handoffs::default(),
    /// How long the node is kept after the last release.
    linger: Duration = Duration::ZERO,
    /// Whether every waiter has its own node.
    fair: bool = false,
    /// Whether a holder learns at once that it is asked to release. See [`Settings::is_revocable`].
    revocable: bool = false,
    /// What happens to a body when the lock is lost.
    on_lost: OnLost = OnLost::default(),
    /// What happens to a body when somebody asks for the release.
    on_revoked: OnRevoked = OnRevoked::default(),
    /// When a guard counts as lost.
    stop_at: StopAt = StopAt::default(),
    /// How long the lock is unavailable after a holder was lost.
    lock_delay: Duration = Duration::ZERO,
    /// How long it is kept at least.
    hold_at_least: Duration = Duration::ZERO,
    /// The longest time for which a call holds it; `Duration::MAX` is no limit.
    hold_at_most: Duration = Duration::MAX,
    /// From when on a wait is logged; `Duration::MAX` is never.
    warn_waiting: Duration = Duration::MAX,
    /// From when on a hold is logged; `Duration::MAX` is never.
    warn_holding: Duration = Duration::MAX,
    /// What it is acquired for; nothing if it is empty.
    label: Label = Label::new(""),
}

impl Settings {
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

    /// What ends a body early.
    pub fn cancel_policy(&self) -> CancelPolicy {
        CancelPolicy { lost: self.on_lost, revoked: self.on_revoked }
    }

    /// The marks in the lock's directory.
    pub fn marks(&self) -> Marks {
        Marks::new(self.lock_delay, self.hold_at_least)
    }

    /// The longest time that a call waits.
    pub fn longest_wait(&self) -> Duration {
        self.timeout.saturating_mul(self.retries)
    }

    /// Whether a holder learns at once that it is asked to release.
    pub fn is_revocable(&self) -> bool {
        self.revocable || self.on_revoked == OnRevoked::Cancel
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
        let (lingers, holds) = (!self.linger.is_zero(), !self.hold_at_least.is_zero());
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
        if mode == Mode::Permit && self.marks().any() {
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
            let hold_is_sessions = self.hold_at_least == session.hold_at_least;
            let whose = both("hold_at_least", hold_is_sessions, linger_is_sessions);
            return refuse(&format!(
                "a lock with `hold_at_least` cannot linger: a lingering lock is released as soon \
                 as somebody waits; choose one{whose}"
            ));
        }
        if self.hold_at_most.is_zero() {
            return refuse(
                "`hold_at_most` must be longer than zero, for instance `hold_at_most = \"10m\"`; \
                 without a limit it is `Duration::MAX`",
            );
        }
        if self.warn_waiting.is_zero() || self.warn_holding.is_zero() {
            return refuse(
                "`warn_waiting` and `warn_holding` must be longer than zero, for instance \
                 `warn_waiting = \"10s\"`; nothing is logged with `Duration::MAX`",
            );
        }
        if self.hold_at_most < self.hold_at_least {
            let [most, least] =
                [self.hold_at_most, self.hold_at_least].map(humantime::format_duration);
            let whose = match (
                self.hold_at_most == session.hold_at_most,
                self.hold_at_least == session.hold_at_least,
            ) {
                (true, false) => " (`hold_at_most` is set by the session)",
                (false, true) => " (`hold_at_least` is set by the session)",
                _ => "",
            };
            return refuse(&format!(
                "`hold_at_most` ({most}) must not be shorter than `hold_at_least` ({least}){whose}"
            ));
        }
        if self.hold_at_least.max(self.lock_delay) >= Marks::LONGEST {
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
            .requeue(Requeue::NEVER)
            .handoffs(Handoffs::NONE)
            .linger(second)
            .fair(true)
            .revocable(true)
            .on_lost(OnLost::Finish)
            .on_revoked(OnRevoked::Cancel)
            .stop_at(StopAt::Suspect)
            .lock_delay(second)
            .hold_at_least(second)
            .hold_at_most(second)
            .warn_waiting(second)
            .warn_holding(second)
            .label("7");
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
        let shorter = checked(hold.hold_at_most(Duration::from_secs(29))).unwrap_err();
        let told = "`hold_at_most` (29s) must not be shorter than `hold_at_least` (30s)";
        assert_eq!(shorter.to_string(), told);
        assert!(checked(hold.hold_at_most(Duration::from_secs(30))).is_ok());
        let never = checked(LockOptions::new().hold_at_most(Duration::ZERO)).unwrap_err();
        assert!(never.to_string().contains("`Duration::MAX`"), "{never}");
        let sessions = Settings::default().with(&hold);
        let most = LockOptions::new().hold_at_most(Duration::from_secs(1));
        let mixed = sessions.with(&most).check(Mode::Mutex, &sessions).unwrap_err();
        assert!(mixed.to_string().ends_with("(`hold_at_least` is set by the session)"), "{mixed}");
        for warns in [
            LockOptions::new().warn_waiting(Duration::ZERO),
            LockOptions::new().warn_holding(Duration::ZERO),
        ] {
            let at_once = checked(warns).unwrap_err();
            assert!(at_once.to_string().contains("longer than zero"), "{at_once}");
        }
        let endless = checked(LockOptions::new().lock_delay(Duration::MAX)).unwrap_err();
        assert!(endless.to_string().contains("at most 49 days"), "{endless}");
    }
}
