//! The result of an acquire: the guard of one lock, or of several.

use std::time::Duration;

use zklock::{AnyGuard, ErrorKind, LockError, MultiGuard};

use crate::protocol::{Refusal, malformed, unsupported};

pub(crate) enum Held {
    One(AnyGuard),
    Several(MultiGuard),
}

impl Held {
    /// The tokens of all, joined.
    pub(crate) fn token(&self) -> String {
        let tokens = match self {
            Held::One(guard) => guard.fencing_tokens(),
            Held::Several(guard) => guard.fencing_tokens(),
        };
        tokens.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// The paths of the nodes, joined like the tokens.
    pub(crate) fn node_path(&self) -> String {
        match self {
            Held::One(guard) => guard.node_path().to_owned(),
            Held::Several(guard) => guard
                .members()
                .iter()
                .map(|member| member.node_path())
                .collect::<Vec<_>>()
                .join(","),
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Held::One(guard) => guard.is_valid(),
            Held::Several(guard) => guard.is_valid(),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Held::One(guard) => guard.remaining(),
            Held::Several(guard) => guard.remaining(),
        }
    }

    pub(crate) async fn lost(&self) {
        match self {
            Held::One(guard) => guard.lost().await,
            Held::Several(guard) => guard.lost().await,
        }
    }

    pub(crate) async fn revoked(&self) {
        match self {
            Held::One(guard) => guard.revoked().await,
            Held::Several(guard) => guard.revoked().await,
        }
    }

    pub(crate) async fn scope<F: Future>(&self, body: F) -> F::Output {
        match self {
            Held::One(guard) => guard.scope(body).await,
            Held::Several(guard) => guard.scope(body).await,
        }
    }

    pub(crate) async fn release(self) -> Result<(), Refusal> {
        match self {
            Held::One(guard) => guard.release().await?,
            Held::Several(guard) => guard.release().await?,
        }
        Ok(())
    }

    /// A write that succeeds only while the lock is held.
    pub(crate) async fn fenced_set(&self, path: &str, data: &str) -> Result<(), Refusal> {
        match self {
            Held::One(guard) => Ok(guard.fenced().set(path, data.as_bytes()).await?),
            Held::Several(_) => Err(unsupported("a fenced write under several locks")),
        }
    }

    pub(crate) async fn downgrade(self) -> Result<Held, Refusal> {
        match self {
            Held::One(AnyGuard::Write(guard)) => Ok(Held::One(AnyGuard::Read(
                guard.downgrade().await.map_err(LockError::from)?.detach(),
            ))),
            _ => Err(malformed("only the guard of a writer is downgraded")),
        }
    }

    /// Splits permits off. Only while all are surely held: afterwards, a guard of which one permit was
    /// lost would be valid again without that one.
    pub(crate) fn split(&mut self, permits: u32) -> Result<Held, Refusal> {
        let Held::One(AnyGuard::Permits(guard)) = self else {
            return Err(unsupported("to split anything but the permits of one semaphore"));
        };
        if !guard.is_valid() {
            return Err(
                LockError::new(ErrorKind::Lost, "nothing is split off what was lost").into()
            );
        }
        let all = guard.permits();
        let none = || malformed(format_args!("{permits} of {all} permits cannot be split off"));
        Ok(Held::One(AnyGuard::Permits(guard.split(permits).ok_or_else(none)?)))
    }

    /// Whether it can be downgraded.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Held::One(AnyGuard::Write(_)))
    }
}
