//! How servers agree: a leader proposes, a majority logs, and everybody applies in the same order.

use std::collections::BTreeSet;
use std::sync::Arc;

use zklock_core::coordinator::request_error::RequestError;

use super::frames::{ToClient, ToPeer};
use super::known::may_not;
use super::machine::{Event, Machine};
use super::prepare::{Author, Write};
use super::queue::pop_if;
use super::server::{Proposal, Role, Step};
use super::tracker::Wrong;
use super::txn::{Applied, Change, Origin, SESSION_MOVED, Txn};

/// What the leader's wall clock says when the world begins, in milliseconds since 1970.
pub(super) const EPOCH: i64 = 1_700_000_000_000;

impl Machine {
    /// Passes a write on to the leader, or makes it a transaction.
    pub(super) fn write(
        &mut self,
        at: usize,
        author: Author,
        write: Write,
        origin: Option<Origin>,
    ) {
        match self.servers[at].role {
            Role::Leader(_) => self.propose(at, at, author, write, origin),
            Role::Follower(leader) => {
                self.send_to_peer(at, leader, ToPeer::Forward(author, write, origin));
            }
            Role::Looking => {}
        }
    }

    /// A leader makes a transaction of a write that came by `from`.
    fn propose(
        &mut self,
        at: usize,
        from: usize,
        author: Author,
        write: Write,
        origin: Option<Origin>,
    ) {
        let now = self.now;
        let server = &mut self.servers[at];
        let Role::Leader(lead) = &mut server.role else { return };
        let session = author.session;
        let wrong = match &write {
            Write::OpenSession { session, timeout } => {
                lead.tracker.add(*session, *timeout, now);
                lead.tracker.set_owner(*session, from);
                None
            }
            Write::Reap(_) => None,
            // An expired one is closing already, and nobody waits.
            Write::CloseSession if origin.is_none() => None,
            _ if session <= 0 => None,
            // Whoever closes a session is not asked whether it has moved.
            Write::CloseSession => {
                let wrong = lead.tracker.check(session, from).err();
                wrong.filter(|wrong| *wrong != Wrong::Moved)
            }
            _ => lead.tracker.check(session, from).err(),
        };
        lead.last += 1;
        let zxid = lead.last;
        let deleted = write.deleted().map(str::to_owned);
        let written = write.written().map(str::to_owned);
        let change = match wrong {
            Some(Wrong::Expired) => Change::Refused(RequestError::SessionExpired),
            Some(Wrong::Moved) => Change::Refused(RequestError::Other(SESSION_MOVED.to_owned())),
            None => {
                if let Write::CloseSession = write {
                    lead.tracker.set_closing(session);
                }
                lead.prepare.prepare(&server.tree, write, author, zxid)
            }
        };
        if let Change::Refused(error) = &change
            && may_not(error)
        {
            if let Some(path) = deleted {
                self.known.refuses(path);
            }
            if let Some(path) = written.filter(|path| lead.prepare.says_nothing(&server.tree, path))
            {
                self.known.leaves_empty(session, path);
            }
        }
        let ahead = self.options.clocks.get(at).copied().unwrap_or(0);
        let time = EPOCH + ahead + i64::try_from(now / 1_000).unwrap_or(i64::MAX / 2);
        let txn = Arc::new(Txn { zxid, time, session, change, origin });
        server.log.push_back(txn.clone());
        let followers: Vec<usize> = lead.followers.keys().copied().collect();
        lead.proposals.push_back(Proposal { zxid, logged: BTreeSet::new(), syncs: Vec::new() });
        for follower in followers {
            self.send_to_peer(at, follower, ToPeer::Propose(txn.clone()));
        }
        self.write_to_disk(at, zxid);
    }

    fn write_to_disk(&mut self, at: usize, zxid: i64) {
        let takes = self.delay(self.options.weather.disk);
        let server = &mut self.servers[at];
        let term = server.term;
        if takes == 0 && server.disk_free <= self.now {
            return self.logged(at, term, zxid);
        }
        server.disk_free = server.disk_free.max(self.now + takes);
        self.later.push((server.disk_free, Event::Logged { server: at, term, zxid }));
    }

    /// A server's disk has its log up to here.
    pub(super) fn logged(&mut self, at: usize, term: u64, zxid: i64) {
        let server = &self.servers[at];
        if server.term != term || !server.up {
            return;
        }
        match server.role {
            Role::Leader(_) => self.acknowledged(at, at, zxid),
            Role::Follower(leader) => self.send_to_peer(at, leader, ToPeer::Logged(zxid)),
            Role::Looking => {}
        }
    }

    /// A leader hears that somebody has logged everything up to here.
    fn acknowledged(&mut self, at: usize, who: usize, zxid: i64) {
        let majority = self.options.servers / 2 + 1;
        let server = &mut self.servers[at];
        let Role::Leader(lead) = &mut server.role else { return };
        for proposal in lead.proposals.iter_mut().take_while(|proposal| proposal.zxid <= zxid) {
            proposal.logged.insert(who);
        }
        let enough = |proposal: &Proposal| proposal.logged.len() >= majority;
        let mut committed = Vec::new();
        while let Some(proposal) = pop_if(&mut lead.proposals, enough) {
            committed.push(proposal);
        }
        let followers: Vec<usize> = lead.followers.keys().copied().collect();
        for Proposal { zxid, syncs, .. } in committed {
            for follower in &followers {
                self.send_to_peer(at, *follower, ToPeer::Commit(zxid));
            }
            self.servers[at].steps.push_back(Step::Commit(zxid));
            let txn = self.servers[at].log.iter().find(|txn| txn.zxid == zxid).cloned();
            if let Some(txn) = txn {
                self.journal.note(&txn, self.now);
            }
            let term = self.servers[at].term;
            self.step(at, term);
            for (server, origin) in syncs {
                self.synced(at, server, origin);
            }
        }
    }

    /// A server tells when it has applied all that is committed.
    pub(super) fn sync(&mut self, at: usize, origin: Origin) {
        match &mut self.servers[at].role {
            Role::Follower(leader) => {
                let leader = *leader;
                self.send_to_peer(at, leader, ToPeer::Sync(origin));
            }
            Role::Leader(_) => self.lead_sync(at, at, origin),
            Role::Looking => {}
        }
    }

    /// A leader answers a sync after what is proposed. It does not ask whether it still leads.
    fn lead_sync(&mut self, at: usize, from: usize, origin: Origin) {
        let Some(lead) = self.servers[at].lead() else { return };
        match lead.proposals.back_mut() {
            Some(proposal) => proposal.syncs.push((from, origin)),
            None => self.synced(at, from, origin),
        }
    }

    fn synced(&mut self, at: usize, from: usize, origin: Origin) {
        if at == from {
            let zxid = self.servers[at].tree.zxid;
            self.answer(origin, zxid, Ok(Applied::Done));
        } else {
            self.send_to_peer(at, from, ToPeer::Synced(origin));
        }
    }

    /// A server hears another one.
    pub(super) fn hear_peer(&mut self, from: usize, to: usize, message: ToPeer) {
        let now = self.now;
        let server = &mut self.servers[to];
        match &mut server.role {
            Role::Leader(lead) => match lead.followers.get_mut(&from) {
                Some(heard) => *heard = now,
                None => return,
            },
            Role::Follower(leader) if *leader == from => server.heard = now,
            _ => return,
        }
        match message {
            ToPeer::Forward(author, write, origin) => self.propose(to, from, author, write, origin),
            ToPeer::Propose(txn) => {
                let zxid = txn.zxid;
                server.log.push_back(txn);
                self.write_to_disk(to, zxid);
            }
            ToPeer::Logged(zxid) => self.acknowledged(to, from, zxid),
            ToPeer::Commit(zxid) => self.next_step(to, Step::Commit(zxid)),
            ToPeer::Sync(origin) => self.lead_sync(to, from, origin),
            ToPeer::Synced(origin) => self.next_step(to, Step::Synced(origin)),
            ToPeer::Ping => {
                let touched = std::mem::take(&mut server.touched).into_iter().collect();
                self.send_to_peer(to, from, ToPeer::Pong(touched));
            }
            ToPeer::Pong(touched) => {
                if let Some(lead) = server.lead() {
                    for session in touched {
                        lead.tracker.touch(session, now);
                    }
                }
            }
            ToPeer::Revalidate { session, connection } => {
                let Some(lead) = server.lead() else { return };
                let valid = lead.tracker.touch(session, now);
                lead.tracker.set_owner(session, from);
                self.send_to_peer(to, from, ToPeer::Revalidated { session, connection, valid });
            }
            ToPeer::Revalidated { session, connection, valid } => {
                self.opened(to, connection, if valid { session } else { 0 });
            }
        }
    }

    /// A follower does what it is told in order, and may be late.
    fn next_step(&mut self, at: usize, step: Step) {
        let takes = self.delay(self.options.weather.lag);
        let server = &mut self.servers[at];
        server.steps.push_back(step);
        let term = server.term;
        if takes == 0 && server.steps.len() == 1 {
            return self.step(at, term);
        }
        server.free = server.free.max(self.now + takes);
        self.later.push((server.free, Event::Step { server: at, term }));
    }

    /// A server does its next step.
    pub(super) fn step(&mut self, at: usize, term: u64) {
        let server = &mut self.servers[at];
        if server.term != term || !server.up {
            return;
        }
        match server.steps.pop_front() {
            Some(Step::Commit(zxid)) => {
                while let Some(txn) = pop_if(&mut self.servers[at].log, |txn| txn.zxid <= zxid) {
                    self.apply(at, &txn);
                    self.servers[at].remember(txn);
                }
            }
            Some(Step::Synced(origin)) => {
                let zxid = server.tree.zxid;
                self.answer(origin, zxid, Ok(Applied::Done));
            }
            None => {}
        }
    }

    fn apply(&mut self, at: usize, txn: &Txn) {
        let mut triggers = Vec::new();
        let server = &mut self.servers[at];
        let result = server.tree.apply(txn, &mut triggers);
        if let Some(lead) = server.lead() {
            lead.prepare.applied(txn.zxid);
            if let Change::CloseSession { session, .. } = &txn.change {
                lead.tracker.remove(*session);
            }
        }
        for trigger in &triggers {
            for (connection, notice, path) in self.servers[at].watches.trigger(trigger) {
                self.send_to_client(connection, ToClient::Notice(notice, path));
            }
        }
        if let Some(origin) = txn.origin.filter(|origin| origin.server == at) {
            self.answer(origin, txn.zxid, result);
        }
        if let Change::CloseSession { session, .. } = &txn.change {
            for connection in self.servers[at].connections_of(*session, 0) {
                self.close_connection(at, connection);
            }
        }
    }
}
