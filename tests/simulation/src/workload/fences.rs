//! Writes to nodes of ZooKeeper under a lock, and only while it is held.

use zklock::{AnyGuard, ErrorKind, LockError};
use zklock_core::coordinator::operation::Operation;
use zklock_simulator::ensemble::Gone;

use super::doors::Call;
use super::polls::cut_short;
use super::task::Task;
use crate::rules;

/// What is written, one after the other.
const WRITES: [Write; 3] = [Write::Create, Write::Set, Write::Delete];

#[derive(Clone, Copy, Debug)]
enum Write {
    Create,
    Set,
    Delete,
}

impl Write {
    async fn by(self, guard: &AnyGuard, path: &str) -> Result<(), LockError> {
        let fenced = guard.fenced();
        match self {
            Write::Create => fenced.create(path, b"1").await,
            Write::Set => fenced.set(path, b"2").await,
            Write::Delete => fenced.delete(path).await,
        }
    }
}

impl Task {
    /// Writes to a node under the lock.
    pub(super) async fn write_under(&self, call: &Call<'_>) -> Result<(), LockError> {
        let lock = call.session.mutex(format!("doors/{}", call.name))?.with_options(call.options);
        let guard = AnyGuard::Mutex(lock.acquire_tries().await?);
        let path = format!("/fenced-{}", call.name);
        let fenced = guard.fenced();
        if fenced.set("no path", b"").await.is_ok() {
            self.crew.ledger.fail(rules::ERROR, format!("{}: wrote nowhere", self.name));
        }
        if let Some(cut) = self.cut(6) {
            // Perhaps it has taken effect.
            drop(cut_short(self.process.world(), fenced.create(&path, b"1"), Some(cut)).await);
            call.has_begun();
            return guard.release().await;
        }
        let deleted = self.choose(6) as usize;
        for (number, write) in WRITES.into_iter().enumerate() {
            if number == deleted {
                self.write_without(&guard, write, &path).await;
                call.has_begun();
                return guard.release().await;
            }
            write.by(&guard, &path).await?;
        }
        match fenced.set(&path, b"3").await {
            Err(error) if error.kind() == ErrorKind::Refused => {}
            Err(error) => return Err(error),
            Ok(()) => {
                let what = format!("{}: wrote to {path}, which is deleted", self.name);
                self.crew.ledger.fail(rules::ERROR, what);
            }
        }
        call.has_begun();
        guard.release().await
    }

    /// Writes just after an outsider has deleted the node of its guard, which it does not know.
    async fn write_without(&self, guard: &AnyGuard, write: Write, path: &str) {
        let (store, (node, czxid)) = (self.crew.ledger.store(), self.node_of(&guard.view()));
        let ensemble = store.ensemble();
        store.meddle();
        ensemble.outsider(Operation::Delete { path: node.clone() });
        let before = ensemble.data(path);
        let answer = write.by(guard, path).await;
        self.say(|| format!("{write:?} without its node: {answer:?}"));
        // Where nobody leads, nothing is deleted.
        let gone = ensemble.life(&node, Some(czxid)).and_then(|life| life.gone);
        if !matches!(gone, Some((_, Gone::Outsider))) {
            return;
        }
        let told = match &answer {
            Ok(()) => false,
            Err(error) => match error.kind() {
                ErrorKind::Lost | ErrorKind::HeldTooLong => true,
                // No answer says what has become of it.
                ErrorKind::Unavailable => !self.crew.ledger.calm_for(2 * self.crew.timeout),
                _ => false,
            },
        };
        if !told || ensemble.data(path) != before {
            let what = format!("{}: {write:?} of {path} without {node}: {answer:?}", self.name);
            self.crew.ledger.fail(rules::FENCED, what);
        }
    }
}
