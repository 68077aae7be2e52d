//! Sessions of a process that see different parts of the tree.

use std::time::Duration;

use zklock_core::base::error_kind::ErrorKind;
use zklock_core::session::Session;

use crate::rules;
use crate::workload::task::Task;

const PART: &str = "/part";
const WAIT: Duration = Duration::from_millis(500);

/// The limit of all semaphores.
const LIMIT: u32 = 4;

impl Task {
    pub(in crate::workload) async fn see_a_part(&self) {
        let ensemble = self.crew.ledger.store().ensemble();
        for path in [PART.to_owned(), format!("{PART}/zklock")] {
            ensemble.prepare(&path);
        }
        let number = self.process.world().unique();
        let sees = |chroot: String, root: &str| {
            let root = root.to_owned();
            self.another_session_as(
                |connecting| connecting.chroot = chroot,
                |builder| builder.root(root),
            )
        };
        let Some((all, all_label)) = sees(String::new(), "/part/zklock") else { return };
        let Some((part, part_label)) = sees(PART.to_owned(), "/zklock") else { return };
        let Some((less, less_label)) = sees(format!("{PART}/zklock"), "/zklock") else { return };
        let at = |session: &Session, name: &str| {
            session.semaphore_with_limit_at(format!("{name}{number}"), "limit", LIMIT)
        };
        // The same semaphore, whose limit is in the same node.
        let used = at(&all, "same");
        let held = match &used {
            Ok(lock) => lock.acquire_timeout(WAIT).await.ok(),
            Err(_) => None,
        };
        let same = match at(&part, "same") {
            Ok(lock) => lock.acquire_timeout(WAIT).await.map(drop),
            Err(error) => Err(error),
        };
        for error in [used.as_ref().err(), same.as_ref().err()].into_iter().flatten() {
            let what = format!("{}: the limit is in the same node: {error:#}", self.name);
            self.crew.ledger.fail(rules::MIXED, what);
        }
        drop((held, used));
        // The same semaphore, and another node.
        let used = at(&part, "zklock/other");
        let other = at(&less, "other");
        if used.is_ok()
            && !other.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidOption)
        {
            let what = format!("{}: two limits are in two nodes", self.name);
            self.crew.ledger.fail(rules::MIXED, what);
        }
        drop((used, other));
        self.close(all, all_label).await;
        self.close(part, part_label).await;
        self.close(less, less_label).await;
    }
}
