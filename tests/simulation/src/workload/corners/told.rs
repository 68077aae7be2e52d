//! What those are told who ask, follow, hold or give up, each in a moment in which it is easily forgotten.

use std::time::Duration;

use futures_lite::future::{or, zip};
use zklock::LockEvent;
use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;

use crate::rules::{self, ASKED};
use crate::workload::polls::{Cut, cut_short};
use crate::workload::task::Task;

const WAIT: Duration = Duration::from_millis(500);

/// Longer than anybody has to wait here.
const PATIENT: Duration = Duration::from_secs(8);

/// How long it takes until all see what somebody has done, in microseconds.
const SEEN: u64 = 50_000;

/// How long it takes until somebody has looked at it as well, if messages are slow, in microseconds.
const HEARD: u64 = 150_000;

/// How long a program of somebody else has its node, unless that is deleted.
const LIVES: u64 = 1_000_000;

/// A contender of Curator's.
const CURATORS: &str = "_c_be2ee212-c507-4b18-a733-81c86278175c-lock-";

/// Nodes of locks in one layout and another.
const LOCKS: [&str; 5] = [
    "_c_x-lock-0000000003",
    "be2ee212c5074b18a73381c86278175c__lock__0000000003",
    "sub_0000000003",
    "read-node0000000003",
    "10.0.0.7-W-0000000003",
];

impl Task {
    pub(in crate::workload) async fn is_told(&self) {
        let name = format!("told-{}", self.process.world().unique());
        match self.choose(7) {
            0 => self.wants_more_than_the_limit(&name).await,
            1 => self.gives_up_as_it_is_granted(&name).await,
            2 => self.finds_another_layout(&name).await,
            3 => self.steps_down_as_it_is_asked(&name).await,
            4 => self.follows_without_a_session(&name).await,
            5 => self.drains_beside_a_lost_permit(&name).await,
            _ => self.loses_what_it_waited_for(&name).await,
        }
    }

    fn fails(&self, rule: rules::Rule, what: impl std::fmt::Display) {
        self.crew.ledger.fail(rule, format!("{}: {what}", self.name));
    }

    /// The directory of a lock, which somebody else has made.
    fn prepared(&self, name: &str) -> String {
        let (ensemble, directory) =
            (self.crew.ledger.store().ensemble(), format!("/zklock/{name}"));
        for path in ["/zklock", &*directory] {
            ensemble.prepare(path);
        }
        directory
    }

    /// Whoever wants more permits than there are has nobody in its way, also not itself.
    async fn wants_more_than_the_limit(&self, name: &str) {
        let at = format!("limits/{name}");
        let Ok(lock) = self.session.semaphore_with_limit_at(name, &*at, 3) else { return };
        drop(lock.acquire_many_timeout(3, WAIT).await);
        let (path, data) = (format!("/zklock/{at}"), vec![0, 0, 0, 1]);
        self.crew.ledger.store().ensemble().outsider(Operation::Set { path, data });
        self.sleep(SEEN).await;
        let answer = match self.choose(2) {
            0 => lock.try_acquire_many(2).await,
            _ => lock.acquire_many_timeout(2, WAIT).await,
        };
        if let Err(error) = answer
            && error.holder().is_some()
        {
            self.fails(rules::NAMED, format_args!("nobody has a permit: {error:#}"));
        }
    }

    /// Whoever gives up when it is granted the lock, and does not know it yet, is told to observers.
    async fn gives_up_as_it_is_granted(&self, name: &str) {
        let Ok(lock) = self.session.mutex(name) else { return };
        let (theirs, other) = (lock.clone(), self.part("holds"));
        self.process.spawn(async move {
            if let Ok(guard) = theirs.acquire_timeout(WAIT).await {
                other.sleep(2 * SEEN).await;
                drop(guard);
            }
        });
        self.sleep(SEEN).await;
        let cut = Some(Cut::Woken(1 + self.choose(3)));
        let answer = cut_short(self.process.world(), lock.acquire_timeout(PATIENT), cut).await;
        self.say(|| format!("has it in the end: {}", answer.is_some()));
    }

    /// Whoever wants a permit of a name which another program uses for a lock, in whichever layout, is told so.
    async fn finds_another_layout(&self, name: &str) {
        let (ensemble, directory) = (self.crew.ledger.store().ensemble(), self.prepared(name));
        let node = format!("{directory}/{}", LOCKS[self.choose(LOCKS.len() as u32) as usize]);
        ensemble.contend(&node, NodeKind::Ephemeral, LIVES);
        self.sleep(SEEN).await;
        let Ok(semaphore) = self.session.semaphore(name, 2) else { return };
        let answer = semaphore.acquire_timeout(WAIT).await;
        if answer.is_ok() && ensemble.data(&node).is_some() {
            self.fails(rules::MIXED, format_args!("a permit beside {node}"));
        }
    }

    /// Whoever is asked to let go, and steps down before it has heard of that, knows of it as a reader.
    async fn steps_down_as_it_is_asked(&self, name: &str) {
        let Ok(lock) = self.session.rw_lock(name) else { return };
        let Ok(writer) = lock.write_timeout(WAIT).await else { return };
        let (path, data) = (writer.node_path().to_owned(), ASKED.to_vec());
        self.crew.ledger.store().ensemble().outsider(Operation::Set { path, data });
        if let Ok(reader) = writer.downgrade().await
            && reader.is_valid()
            && !reader.is_revoked()
        {
            self.fails(rules::WISH, format_args!("{} is not asked", reader.node_path()));
        }
    }

    /// Whoever follows a queue is told that there is no session in which it could look.
    async fn follows_without_a_session(&self, name: &str) {
        let Some((session, label)) = self.another_session() else { return };
        let Ok(site) = session.site(name) else { return };
        let (store, long) = (self.crew.ledger.store(), 2 * self.crew.timeout);
        let looked = self.choose(2) == 1;
        drop(session.lock_names(None).await);
        let follows = async {
            let mut events = site.events();
            if looked {
                or(async { drop(events.next().await) }, self.sleep(SEEN)).await;
            }
            store.disturb(self.process.world().now() + long);
            store.ensemble().opens_no_more(&self.process, long);
            store.ensemble().sessions_for(label).into_iter().for_each(|one| store.kill(one));
            self.sleep(SEEN).await;
            while let Some(event) = events.next().await {
                self.say(|| format!("is told {event:?}"));
                if event == LockEvent::Blind {
                    return true;
                }
            }
            false
        };
        let late = async {
            self.sleep(long).await;
            false
        };
        if !or(follows, late).await {
            self.fails(rules::BLIND, format_args!("looked before: {looked}"));
        }
        while store.ensemble().gets_no_session(&self.process) {
            self.sleep(SEEN).await;
        }
        self.close(session, label).await;
    }

    /// A permit that was lost keeps no session that drains.
    async fn drains_beside_a_lost_permit(&self, name: &str) {
        let Some((session, label)) = self.another_session() else { return };
        let Ok(lock) = session.semaphore(name, 2) else { return };
        if let Ok(permit) = lock.acquire_timeout(WAIT).await {
            let path = permit.node_path().to_owned();
            self.crew.ledger.store().ensemble().outsider(Operation::Delete { path });
            permit.lost().await;
            let left = session.drain(Duration::from_micros(self.crew.timeout)).await;
            if !left.is_empty() {
                self.fails(rules::DRAINED, format_args!("{left:?} is left"));
            }
        }
        self.close(session, label).await;
    }

    /// Whoever waited for a mutex when its connection was lost, and has it when that is back, hears at once that its node
    /// is deleted.
    async fn loses_what_it_waited_for(&self, name: &str) {
        let Some((session, label)) = self.another_session() else { return };
        let (store, directory) = (self.crew.ledger.store(), self.prepared(name));
        let ensemble = store.ensemble();
        ensemble.contend(&format!("{directory}/{CURATORS}"), NodeKind::EphemeralSequential, LIVES);
        let Ok(lock) = session.mutex(name) else { return };
        let leaves = async {
            self.sleep(2 * HEARD).await;
            let queue = ensemble.ephemerals(&format!("{directory}/"));
            for one in ensemble.sessions_for(label) {
                store.disturb(0);
                ensemble.cut(one, false);
            }
            if let Some(path) = queue.iter().find(|path| path.contains(CURATORS)).cloned() {
                ensemble.outsider(Operation::Delete { path });
            }
            queue
        };
        let (answer, queue) = zip(lock.acquire_timeout(PATIENT), leaves).await;
        if let Ok(guard) = answer {
            self.sleep(self.crew.timeout / 100).await;
            let path = guard.node_path().to_owned();
            let waited = queue.len() == 2 && queue.contains(&path);
            ensemble.outsider(Operation::Delete { path });
            self.sleep(HEARD).await;
            if waited && guard.is_valid() {
                self.fails(rules::AT_ONCE, format_args!("{} is valid", guard.node_path()));
            }
        }
        self.close(session, label).await;
    }
}
