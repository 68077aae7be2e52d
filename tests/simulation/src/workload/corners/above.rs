//! Nodes above the locks that nobody may change, nodes of one's own that say what they say, limits that nobody may read.

use futures_lite::future::or;
use zklock::layout::Kazoo;
use zklock_core::base::error_kind::ErrorKind;

use crate::ensemble::Access;
use crate::rules;
use crate::workload::plan::RIGHTS;
use crate::workload::task::Task;

/// Who may do what nobody here may.
const NOBODY: u32 = 7;

/// What the sessions may use.
const OWN: &str = "/zklock/own";

/// How many locks are held in a session.
const MANY: usize = 6;

/// How many requests to write into its nodes it is refused at most: their heartbeats are one, or two where the first is
/// sent before all are held.
const REFUSED: usize = 3;

/// Who is told at once is told by then, in microseconds.
const AT_ONCE: u64 = 2_000_000;

impl Task {
    pub(in crate::workload) async fn obey_those_above(&self) {
        let ensemble = self.crew.ledger.store().ensemble();
        ensemble.prepare("/zklock");
        ensemble.prepare(OWN);
        for (path, access) in
            [("/limits", Access::Open), ("/limits/secret", Access::Private(NOBODY))]
        {
            ensemble.prepare_for(&format!("{OWN}{path}"), access);
        }
        match self.choose(3) {
            0 => self.uses_new_names().await,
            1 => self.holds_what_it_may_not_write().await,
            _ => self.needs_a_secret_limit().await,
        }
    }

    /// Uses names that nobody has used, below a node that is there and in one that nobody may change.
    async fn uses_new_names(&self) {
        let ledger = &self.crew.ledger;
        let opened = self.another_session_with(|builder| builder.root(OWN));
        let Some((session, label)) = opened else { return };
        let ensemble = ledger.store().ensemble();
        for above in ["/", "/zklock"] {
            ensemble.restrict(above, Access::ReadOnly(NOBODY));
        }
        let (began, number) = (self.process.world().now(), self.process.world().unique());
        if let Ok(lock) = session.semaphore(format!("new/{number}"), 2) {
            drop(lock.with_driver(Kazoo::default()).acquire().await);
        }
        let at = format!("limits/{number}");
        if let Ok(lock) = session.semaphore_with_limit_at(format!("at/{number}"), at, 2) {
            drop(lock.acquire().await);
        }
        if let Ok(lock) = session.mutex(format!("deep/er/{number}")) {
            drop(lock.acquire().await);
        }
        if ensemble.refused_since(began, &self.process) {
            let what = format!("{}: is refused something that it need not ask for", self.name);
            ledger.fail(rules::DEEPEST, what);
        }
        for above in ["/", "/zklock"] {
            ensemble.restrict(above, Access::Open);
        }
        self.close(session, label).await;
    }

    /// Holds locks in nodes that it may make and not write to.
    async fn holds_what_it_may_not_write(&self) {
        let opened = self.another_session_as(
            |connecting| {
                connecting.credentials = Some(RIGHTS);
                connecting.access = Access::Kept(NOBODY);
            },
            |builder| builder.root(OWN),
        );
        let Some((session, label)) = opened else { return };
        let (ensemble, mut held) = (self.crew.ledger.store().ensemble(), Vec::new());
        let number = self.process.world().unique();
        for other in 0..MANY {
            let Ok(lock) = session.mutex(format!("kept-{number}-{other}")) else { continue };
            held.extend(lock.acquire().await.ok());
        }
        let before = ensemble.refusals(&self.process);
        self.sleep(self.crew.timeout).await;
        let refused = ensemble.refusals(&self.process) - before;
        if refused > REFUSED {
            let what = format!("{}: {refused} refusals for {} nodes", self.name, held.len());
            self.crew.ledger.fail(rules::ONE_REFUSAL, what);
        }
        if held.iter().any(|guard| !guard.is_valid()) {
            let what = format!("{}: a lock is lost whose node may not be written", self.name);
            self.crew.ledger.fail(rules::REASON, what);
        }
        drop(held);
        self.close(session, label).await;
    }

    /// Needs a limit that it may not read.
    async fn needs_a_secret_limit(&self) {
        let opened = self.another_session_with(|builder| builder.root(OWN));
        let Some((session, label)) = opened else { return };
        if let Ok(lock) = session.semaphore_with_limit_at("secret", "limits/secret", 2) {
            let late = async {
                self.sleep(AT_ONCE).await;
                None
            };
            match or(async { Some(lock.acquire().await) }, late).await {
                Some(Err(error)) if error.kind() == ErrorKind::Unauthorized => {}
                answer => {
                    let what = format!("{}: {answer:?} where a limit may not be read", self.name);
                    self.crew.ledger.fail(rules::REFUSED_AT_ONCE, what);
                }
            }
        }
        self.close(session, label).await;
    }
}
