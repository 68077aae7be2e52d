//! What the servers did, for those who judge: the ensemble's own history.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::meddle::INTERFERENCE;
use super::txn::{CONTAINER, Change, Path, Txn};

/// The life of one node, by its czxid and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The node's path.
    pub path: Arc<str>,
    /// The transaction that created it.
    pub czxid: i64,
    /// The session that owns it, 0 if none.
    pub owner: i64,
    /// When it was committed, in microseconds.
    pub born: u64,
    /// When its deletion was committed, and why.
    pub gone: Option<(u64, Gone)>,
    /// The transaction that deleted it.
    pub last: Option<i64>,
}

/// Why a node is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// A session deleted it: its own, or another one.
    Deleted {
        /// Which.
        by: i64,
    },
    /// Its session expired, or was closed from outside.
    SessionEnded,
    /// Its client closed its session.
    SessionClosed,
    /// The server reaped a container.
    Reaped,
    /// Somebody deleted it who is no client.
    Outsider,
}

/// The lives of all nodes, and the ends of sessions.
#[derive(Debug, Default)]
pub(super) struct Journal {
    lives: Vec<Life>,
    /// The node that lives at a path now.
    present: BTreeMap<Path, usize>,
    ended: BTreeMap<i64, u64>,
    /// When an outsider who only interferes overwrote a node.
    overwritten: BTreeMap<String, u64>,
    /// How many nodes are gone.
    deaths: u64,
    /// Those that a session deleted which did not own them.
    taken: Vec<usize>,
}

/// The session of outsiders.
pub(super) const OUTSIDER: i64 = -1;

impl Journal {
    /// Notes a transaction that was committed.
    pub(super) fn note(&mut self, txn: &Txn, now: u64) {
        self.change(&txn.change, txn, now);
    }

    fn change(&mut self, change: &Change, txn: &Txn, now: u64) {
        match change {
            // A new leader commits what it has in its log, also where the old one had done so.
            Change::Create { path, .. } if self.knows(path, txn.zxid) => {}
            Change::Create { path, owner, .. } => {
                self.present.insert(path.clone(), self.lives.len());
                let path = path.clone();
                let owner = if *owner == CONTAINER { 0 } else { *owner };
                let life = Life { path, czxid: txn.zxid, owner, born: now, gone: None, last: None };
                self.lives.push(life);
            }
            Change::Delete { path } => {
                let why = match txn.session {
                    0 => Gone::Reaped,
                    OUTSIDER => Gone::Outsider,
                    by => Gone::Deleted { by },
                };
                self.end(path, txn.zxid, now, why);
            }
            Change::Multi(changes) => {
                for change in changes {
                    self.change(change, txn, now);
                }
            }
            Change::CloseSession { session, paths } => {
                self.ended.entry(*session).or_insert(now);
                // Nobody waits for the answer where a session expires.
                let why = match txn.origin {
                    Some(_) => Gone::SessionClosed,
                    None => Gone::SessionEnded,
                };
                for path in paths {
                    self.end(path, txn.zxid, now, why);
                }
            }
            Change::Set { path, data, .. } => {
                if **data == *INTERFERENCE {
                    self.overwritten.insert(path.to_string(), now);
                }
            }
            Change::Check | Change::OpenSession { .. } | Change::Refused(_) => {}
        }
    }

    fn knows(&self, path: &str, czxid: i64) -> bool {
        let life = self.present.get(path).and_then(|at| self.lives.get(*at));
        life.is_some_and(|life| life.czxid == czxid)
    }

    fn end(&mut self, path: &str, zxid: i64, now: u64, why: Gone) {
        let Some(at) = self.present.remove(path) else { return };
        if let Some(life) = self.lives.get_mut(at) {
            (life.gone, life.last) = (Some((now, why)), Some(zxid));
            self.deaths += 1;
            if matches!(why, Gone::Deleted { by } if life.owner > 0 && life.owner != by) {
                self.taken.push(at);
            }
        }
    }

    /// The nodes of sessions that another one deleted, in that order.
    pub(super) fn taken(&self) -> impl Iterator<Item = &Life> {
        self.taken.iter().filter_map(|at| self.lives.get(*at))
    }

    pub(super) fn lives(&self) -> &[Life] {
        &self.lives
    }

    pub(super) fn deaths(&self) -> u64 {
        self.deaths
    }

    /// When an outsider who only interferes overwrote a node last.
    pub(super) fn overwritten(&self, path: &str) -> Option<u64> {
        self.overwritten.get(path).copied()
    }

    pub(super) fn ended(&self, session: i64) -> Option<u64> {
        self.ended.get(&session).copied()
    }
}
