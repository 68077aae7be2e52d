//! What is shown of those who hold and of those who wait.

use std::time::Duration;

use futures_lite::future::{or, zip};

use zklock_core::base::options::LockOptions;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;

use crate::ensemble::Access;
use crate::rules;
use crate::workload::task::Task;

const WAIT: Duration = Duration::from_millis(500);

/// How long it takes until all see what somebody has done, in microseconds.
const SEEN: u64 = 50_000;

/// How long a program of somebody else has its node.
const LIVES: u64 = 1_000_000;

/// How long a lock rests whose holder is lost.
const DELAY: Duration = Duration::from_secs(20);

/// Who may do what nobody here may.
const NOBODY: u32 = 7;

/// How long somebody follows a queue that it may not read, and how often it asks at most.
const FOLLOWS: u64 = 3_000_000;
const LOOKS: usize = 12;

/// A contender of Curator's, which knows nothing of what is zklock's alone.
const CURATORS: &str = "_c_be2ee212-c507-4b18-a733-81c86278175c-lock-";

impl Task {
    pub(in crate::workload) async fn see_what_is_shown(&self) {
        let name = format!("shown-{}", self.process.world().unique());
        match self.choose(5) {
            0 => self.lowers_a_limit(&name).await,
            1 => self.names_what_is_used(&name).await,
            2 => self.waits_without_permits(&name).await,
            3 => self.rests(&name).await,
            _ => self.follows_what_it_may_not_read(&name).await,
        }
    }

    fn shows(&self, what: impl std::fmt::Display) {
        self.crew.ledger.fail(rules::SHOWN, format!("{}: {what}", self.name));
    }

    /// Whoever holds a permit beyond a limit that was lowered is a holder, and is asked to let go.
    async fn lowers_a_limit(&self, name: &str) {
        let at = format!("limits/{name}");
        let Ok(lock) = self.session.semaphore_with_limit_at(name, &*at, 3) else { return };
        let mut held = Vec::new();
        for _ in 0..3 {
            held.extend(lock.acquire_timeout(WAIT).await.ok());
        }
        let (path, data) = (format!("/zklock/{at}"), vec![0, 0, 0, 1]);
        self.crew.ledger.store().ensemble().outsider(Operation::Set { path, data });
        self.sleep(SEEN).await;
        let Some((session, label)) = self.another_session() else { return };
        if let Ok(other) = session.semaphore_with_limit_at(name, &*at, 3) {
            let site = other.site();
            let looks = async {
                self.sleep(SEEN).await;
                let queue = site.contenders().await;
                self.say(|| format!("sees {queue:?}"));
                let is_shown = |path: &str| {
                    let mut queue = queue.iter().flatten();
                    queue.any(|one| one.holds && path.ends_with(&*one.node))
                };
                if queue.is_ok()
                    && held.iter().any(|guard| guard.is_valid() && !is_shown(guard.node_path()))
                {
                    self.shows(format_args!("of {} holders not all hold in {queue:?}", held.len()));
                }
                let asked = site.revoke().await;
                if asked.as_ref().is_ok_and(|asked| *asked != held.len())
                    && held.iter().all(|guard| guard.is_valid())
                {
                    self.shows(format_args!("{asked:?} of {} holders are asked", held.len()));
                }
            };
            drop(zip(other.acquire_timeout(WAIT), looks).await);
        }
        for guard in held {
            drop(guard.release().await);
        }
        self.close(session, label).await;
    }

    /// A directory that is called like a permit of kazoo's is none.
    async fn names_what_is_used(&self, name: &str) {
        let (ensemble, directory) =
            (self.crew.ledger.store().ensemble(), format!("/zklock/{name}"));
        let permit = format!("{directory}/0123456789abcdef0123456789abcdef");
        let used = self.choose(2) == 1;
        ensemble.prepare(&directory);
        if used {
            ensemble.contend(&permit, NodeKind::Ephemeral, LIVES);
        } else {
            ensemble.prepare(&permit);
        }
        self.sleep(SEEN).await;
        if let Ok(names) = self.session.lock_names(Some(name)).await
            && names.names.iter().any(|one| one == name) != used
            && (ensemble.data(&permit).is_some() || !used)
        {
            self.shows(format_args!("{names:?}, where {permit} is a permit: {used}"));
        }
    }

    /// Who waits for a semaphore of which nobody has a permit is seen.
    async fn waits_without_permits(&self, name: &str) {
        let ensemble = self.crew.ledger.store().ensemble();
        let locks = format!("/zklock/{name}/locks");
        for path in [&*format!("/zklock/{name}"), &*locks] {
            ensemble.prepare(path);
        }
        ensemble.contend(&format!("{locks}/{CURATORS}"), NodeKind::EphemeralSequential, LIVES);
        self.sleep(SEEN).await;
        let names = self.session.lock_names(Some(name)).await;
        let sites = self.session.sites(name).await;
        let is_there = ensemble.ephemerals(&format!("{locks}/")).len() == 1;
        if is_there
            && (names.as_ref().is_ok_and(|names| names.names != [name])
                || sites.as_ref().is_ok_and(|sites| !sites.iter().any(|site| site.is_inner())))
        {
            self.shows(format_args!("{names:?} and {sites:?}, where somebody waits for {name}"));
        }
    }

    /// While a lock rests, whoever of ours is first in the queue waits, and whoever does not know of the rest holds.
    async fn rests(&self, name: &str) {
        let (store, options) = (self.crew.ledger.store(), LockOptions::default().lock_delay(DELAY));
        let Some((session, label)) = self.another_session() else { return };
        let Ok(lock) = session.mutex(name) else { return };
        let held = lock.with_options(options).acquire_timeout(WAIT).await;
        for one in store.ensemble().sessions_for(label) {
            store.kill(one);
            store.ensemble().expire(one);
        }
        self.sleep(SEEN).await;
        let (Ok(mine), Ok(site)) = (self.session.mutex(name), self.session.site(name)) else {
            return;
        };
        let ours = self.choose(2) == 1;
        let looks = async {
            self.sleep(2 * SEEN).await;
            if !ours {
                let path = format!("/zklock/{name}/{CURATORS}");
                store.ensemble().contend(&path, NodeKind::EphemeralSequential, LIVES);
                self.sleep(SEEN).await;
            }
            let survey = site.survey().await;
            self.say(|| format!("sees {survey:?}"));
            if held.is_ok()
                && let Ok(survey) = survey
                && survey.unavailable_until.is_some()
                && let [one] = &*survey.queue
                && one.holds == ours
            {
                self.shows(format_args!("{one:?} at the head while the lock rests, ours: {ours}"));
            }
            if ours && held.is_ok() && site.revoke().await.is_ok_and(|asked| asked > 0) {
                self.shows("somebody is asked to let go of a lock that rests");
            }
        };
        let asks = async {
            let mine = mine.with_options(options);
            match ours {
                true => drop(mine.acquire_timeout(WAIT).await),
                false => drop(mine.try_acquire().await),
            }
        };
        zip(asks, looks).await;
        drop(held);
        self.close(session, label).await;
    }

    /// Whoever follows a queue that it may not read asks seldom.
    async fn follows_what_it_may_not_read(&self, name: &str) {
        let Some((session, label)) = self.another_session() else { return };
        let (ensemble, directory) =
            (self.crew.ledger.store().ensemble(), format!("/zklock/{name}"));
        ensemble.prepare_for(&directory, Access::Private(NOBODY));
        let before = ensemble.refusals(&self.process);
        if let Ok(site) = session.site(name) {
            let mut events = site.events();
            let follows = async {
                while let Some(event) = events.next().await {
                    self.say(|| format!("is told {event:?}"));
                }
            };
            or(follows, self.sleep(FOLLOWS)).await;
        }
        let looks = ensemble.refusals(&self.process) - before;
        if looks > LOOKS {
            let what = format!("{}: asks {looks} times for what it may not read", self.name);
            self.crew.ledger.fail(rules::REPEATED, what);
        }
        self.close(session, label).await;
    }
}
