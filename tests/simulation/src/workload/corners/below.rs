//! Locks in whose directories others have theirs, which look like contenders.

use std::sync::Arc;
use std::time::Duration;

use zklock::layout::Numbered;
use zklock_core::coordinator::operation::Operation;

use super::together::Noted;
use crate::rules::{self, ASKED};
use crate::workload::task::Task;

const WAIT: Duration = Duration::from_secs(2);

/// A lock with another one in its directory that is called like a contender.
const OUTER: &str = "below";
const INNER: &str = "below/x-lock-0000000000";

/// Longer than it takes to ask for a release, in microseconds.
const LONG: u64 = 200_000;

/// A lock whose directory goes now and then, with all that is in it.
const FORMER: &str = "former";

impl Task {
    pub(in crate::workload) async fn have_others_below(&self) {
        match self.choose(8) {
            0 => self.hold_by(INNER).await,
            1 => self.hold_by(OUTER).await,
            2 => self.asks_for_release().await,
            3 => {
                let number = 1 + self.choose(2);
                self.hold_by(&format!("{FORMER}/lock-{number:010}")).await;
            }
            4 => self.clears(),
            _ => self.hold_former().await,
        }
    }

    /// Holds a lock in the usual layout.
    async fn hold_by(&self, name: &str) {
        let Ok(lock) = self.session.mutex(name) else { return };
        if let Ok(guard) = lock.acquire_timeout(WAIT).await {
            self.sleep(self.short()).await;
            drop(guard.release().await);
        }
    }

    /// Asks whoever holds the lock to let go: nobody else.
    async fn asks_for_release(&self) {
        let Ok(site) = self.session.site(OUTER) else { return };
        let inner = format!("/zklock/{INNER}");
        let ensemble = self.crew.ledger.store().ensemble();
        // Until it has had a contender, it looks like one, also to others who ask at this time.
        let born = ensemble.life(&inner, None).map(|life| life.born);
        let (below, long_ago) =
            (format!("{inner}/"), self.process.world().now().saturating_sub(LONG));
        let mut nodes = ensemble.lives().into_iter().filter(|life| life.path.starts_with(&below));
        let is_used = ensemble.data(&inner).as_deref() != Some(ASKED)
            && nodes.any(|life| born.is_some_and(|born| (born..long_ago).contains(&life.born)));
        let asked = site.revoke().await;
        self.say(|| format!("asks for the release of {OUTER}: {asked:?}"));
        let is_same = ensemble.life(&inner, None).map(|life| life.born) == born;
        if is_used && is_same && ensemble.data(&inner).as_deref() == Some(ASKED) {
            let what = format!("{}: {inner} says that it is to be released", self.name);
            self.crew.ledger.fail(rules::OTHERS_BELOW, what);
        }
    }

    /// Deletes the directory, with all that is in it.
    fn clears(&self) {
        let ensemble = self.crew.ledger.store().ensemble();
        let directory = format!("/zklock/{FORMER}");
        let mut nodes = ensemble.nodes(&format!("{directory}/"));
        nodes.sort_by_key(|path| std::cmp::Reverse(path.len()));
        nodes.push(directory);
        self.crew.ledger.store().meddle();
        self.say(|| format!("deletes {nodes:?}"));
        for path in nodes {
            ensemble.outsider(Operation::Delete { path });
        }
    }

    /// Holds the lock whose directory goes. Whose node is there excludes all others.
    async fn hold_former(&self) {
        let Ok(lock) = self.session.mutex(FORMER) else { return };
        let Ok(guard) = lock.with_driver(Numbered::lock()).acquire_timeout(WAIT).await else {
            return;
        };
        let view = Arc::new(guard.view());
        self.say(|| format!("has {}", view.node_path()));
        let noted = Noted { what: FORMER, since: self.process.world().now(), view };
        if self.is_there(&noted) {
            let mut others = self.crew.together.all(FORMER).into_iter();
            if let Some(other) = others.find(|other| self.is_there(other)) {
                let (mine, other) = (noted.view.node_path(), other.view.node_path());
                let what = format!("{}: {mine} is valid beside {other}", self.name);
                self.crew.ledger.fail(rules::EXCLUSION, what);
            }
        }
        let known = self.crew.together.notes(noted);
        self.sleep(self.short() * 8).await;
        drop(known);
        self.say(|| format!("lets go of {}", guard.node_path()));
        drop(guard.release().await);
    }

    /// Whether a guard is valid, and its node is there.
    fn is_there(&self, noted: &Noted) -> bool {
        let czxid = noted.view.fencing_token().czxid() as i64;
        let life = self.crew.ledger.store().ensemble().life(noted.view.node_path(), Some(czxid));
        noted.view.is_valid() && life.is_some_and(|life| life.gone.is_none())
    }
}
