//! One server of an ensemble.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::frames::{Answer, Hello, ToServer};
use super::prepare::Prepare;
use super::tracker::Tracker;
use super::tree::Tree;
use super::txn::{Origin, Txn};
use super::watches::Watches;
use crate::few::Few;
use zklock_core::coordinator::request_error::RequestError;

/// How many transactions a server keeps for those who come back: ZooKeeper's `commitLogCount`.
const HISTORY: usize = 500;

#[derive(Debug)]
pub(super) struct Server {
    pub(super) up: bool,
    pub(super) role: Role,
    /// Changes with its role, so that what is under way for the last one is forgotten.
    pub(super) term: u64,
    pub(super) tree: Tree,
    pub(super) watches: Watches,
    pub(super) connections: Few<Connection>,
    /// Accepted, and not applied.
    pub(super) log: VecDeque<Arc<Txn>>,
    /// What it is to do next, in order.
    pub(super) steps: VecDeque<Step>,
    /// Applied lately.
    pub(super) history: VecDeque<Arc<Txn>>,
    /// When a follower heard of its leader.
    pub(super) heard: u64,
    /// The sessions that a follower heard of since it last told its leader.
    pub(super) touched: BTreeSet<i64>,
    /// When its disk and its processor are free again.
    pub(super) disk_free: u64,
    pub(super) free: u64,
    pub(super) next_session: i64,
}

/// What a server is at the moment.
#[derive(Debug)]
pub(super) enum Role {
    /// It serves nobody.
    Looking,
    Follower(usize),
    Leader(Box<Lead>),
}

/// What only a leader has.
#[derive(Debug)]
pub(super) struct Lead {
    pub(super) prepare: Prepare,
    pub(super) tracker: Tracker,
    pub(super) last: i64,
    pub(super) proposals: VecDeque<Proposal>,
    /// The followers, and when they were heard.
    pub(super) followers: BTreeMap<usize, u64>,
}

/// A transaction that is not committed yet.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) zxid: i64,
    pub(super) logged: BTreeSet<usize>,
    /// Who waits for it to be committed.
    pub(super) syncs: Vec<(usize, Origin)>,
}

/// What a server does in the order in which it was told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Commit(i64),
    Synced(Origin),
}

/// The connection of a client, as its server sees it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) hello: Option<Hello>,
    /// 0 until the session is open here.
    pub(super) session: i64,
    /// What came before that.
    pub(super) inbox: VecDeque<ToServer>,
    pub(super) pending: VecDeque<Pending>,
}

/// What is answered in its turn.
#[derive(Debug)]
pub(super) enum Pending {
    /// A write or a sync, and its answer.
    Asked(u64, Option<(i64, Result<Answer, RequestError>)>),
    Close(u64, bool),
    /// What this server does itself.
    Own(ToServer),
}

impl Server {
    pub(super) fn new(index: usize) -> Self {
        Server {
            up: true,
            role: Role::Looking,
            term: 0,
            tree: Tree::new(),
            watches: Watches::default(),
            connections: Few::default(),
            log: VecDeque::new(),
            steps: VecDeque::new(),
            history: VecDeque::new(),
            heard: 0,
            touched: BTreeSet::new(),
            disk_free: 0,
            free: 0,
            next_session: ((index as i64 + 1) << 56) | 0x1000,
        }
    }

    pub(super) fn lead(&mut self) -> Option<&mut Lead> {
        match &mut self.role {
            Role::Leader(lead) => Some(lead),
            _ => None,
        }
    }

    /// Whether clients are served.
    pub(super) fn serves(&self) -> bool {
        self.up && !matches!(self.role, Role::Looking)
    }

    /// The last transaction in its log.
    pub(super) fn last_logged(&self) -> i64 {
        self.log.back().map_or(self.tree.zxid, |txn| txn.zxid)
    }

    pub(super) fn remember(&mut self, txn: Arc<Txn>) {
        self.history.push_back(txn);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    /// The connections of a session, apart from this one.
    pub(super) fn connections_of(&self, session: i64, except: u64) -> Vec<u64> {
        let same = |(id, one): (&u64, &Connection)| {
            let named = one.hello.is_some_and(|hello| hello.session == session);
            (*id != except && (named || one.session == session)).then_some(*id)
        };
        self.connections.iter().filter_map(same).collect()
    }

    /// A number for a session that is opened here.
    pub(super) fn new_session(&mut self) -> i64 {
        self.next_session += 1;
        self.next_session
    }
}

impl Connection {
    pub(super) fn new() -> Self {
        Connection { hello: None, session: 0, inbox: VecDeque::new(), pending: VecDeque::new() }
    }
}
