//! The error of the double.

use std::fmt;

/// Why a body did not run, or its result does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockError {
    Busy(String),
    Unavailable(String),
    LostFinished(String),
    BadName(String),
}

impl LockError {
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_))
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(lock) => write!(f, "{lock} is being processed"),
            Self::Unavailable(lock) => write!(f, "{lock} cannot be asked for"),
            Self::LostFinished(lock) => write!(f, "{lock} was lost"),
            Self::BadName(why) => write!(f, "bad name: {why}"),
        }
    }
}

impl std::error::Error for LockError {}

impl From<LockError> for String {
    fn from(error: LockError) -> Self {
        error.to_string()
    }
}
