//! Who leads, who follows, and what happens when they part.

use std::collections::{BTreeMap, VecDeque};

use super::frames::ToPeer;
use super::machine::{Event, Machine};
use super::prepare::{Author, Prepare, Write};
use super::server::{Lead, Role};
use super::txn::Path;

impl Machine {
    fn majority(&self) -> usize {
        self.options.servers / 2 + 1
    }

    /// An election, some time from now.
    fn elect_later(&mut self) {
        if !std::mem::replace(&mut self.electing, true) {
            let more = u64::from(self.world.choose(4));
            self.after(self.options.election * (1 + more), Event::Elect);
        }
    }

    /// Those who look for a leader find one that is there, or agree on one of them.
    pub(super) fn elect(&mut self) {
        let looking = |machine: &Machine| -> Vec<usize> {
            let servers = machine.servers.iter().enumerate();
            let looks = servers.filter(|(_, one)| one.up && matches!(one.role, Role::Looking));
            looks.map(|(index, _)| index).filter(|one| !machine.frozen.contains(one)).collect()
        };
        for one in looking(self) {
            let leader = (0..self.servers.len()).find(|other| {
                let leads = matches!(self.servers[*other].role, Role::Leader(_));
                // One that lost its followers is about to notice.
                leads && self.servers[*other].up && self.in_touch(one, *other) && self.leads(*other)
            });
            if let Some(leader) = leader {
                self.follow(one, leader);
            }
        }
        let left = looking(self);
        for one in &left {
            let group: Vec<usize> =
                left.iter().copied().filter(|other| self.in_touch(*one, *other)).collect();
            if group.len() >= self.majority() {
                let best = group
                    .iter()
                    .copied()
                    .max_by_key(|one| (self.servers[*one].last_logged(), *one));
                if let Some(leader) = best {
                    self.lead(leader, &group);
                }
                break;
            }
        }
        // One that stands still looks when it goes on.
        if self.servers.iter().any(|one| one.up && matches!(one.role, Role::Looking)) {
            self.elect_later();
        }
    }

    /// Whether a leader has a majority that hears it.
    fn leads(&self, at: usize) -> bool {
        let Role::Leader(lead) = &self.servers[at].role else { return false };
        let heard = lead.followers.keys().filter(|one| self.in_touch(at, **one)).count();
        heard + 1 >= self.majority()
    }

    /// A server becomes the leader of those. Whatever is in its log is committed by that.
    fn lead(&mut self, at: usize, group: &[usize]) {
        self.term += 1;
        let term = self.term;
        self.say(|| format!("server {at}: leads {group:?}"));
        let mut tracker = self.new_tracker();
        let server = &mut self.servers[at];
        server.term = term;
        server.steps.clear();
        for txn in std::mem::take(&mut server.log) {
            _ = server.tree.apply(&txn, &mut Vec::new());
            self.journal.note(&txn, self.now);
            server.remember(txn);
        }
        for (session, timeout) in &server.tree.sessions {
            tracker.add(*session, *timeout, self.now);
        }
        // A single server has one epoch, and its first transaction is 1.
        let last = match self.options.servers {
            1 => server.tree.zxid,
            _ => i64::try_from(term).unwrap_or_default() << 32,
        };
        let bucket = tracker.next_bucket(self.now) - self.now;
        server.role = Role::Leader(Box::new(Lead {
            prepare: Prepare::default(),
            tracker,
            last,
            proposals: VecDeque::new(),
            followers: BTreeMap::new(),
        }));
        server.tree.zxid = server.tree.zxid.max(last);
        for other in group.iter().filter(|other| **other != at) {
            self.follow(*other, at);
        }
        let since = self.now + bucket;
        self.later.push((since, Event::Tick { server: at, term, since, count: 0 }));
        self.after(self.options.reap_every, Event::Reap { server: at, term });
    }

    /// A server follows a leader, and first learns what it lacks.
    fn follow(&mut self, at: usize, leader: usize) {
        let [server, leader_server] = match self.servers.get_disjoint_mut([at, leader]) {
            Ok(both) => both,
            Err(_) => return,
        };
        server.steps.clear();
        server.log.clear();
        server.touched.clear();
        let known = server.tree.zxid;
        let recent = leader_server.history.front().is_some_and(|txn| txn.zxid <= known + 1);
        if recent || leader_server.history.is_empty() && known == 0 {
            // As ZooKeeper does: only what it lacks. One that differs goes on to differ.
            let lacks = leader_server.history.iter().filter(|txn| txn.zxid > known);
            for txn in lacks.cloned().collect::<Vec<_>>() {
                _ = server.tree.apply(&txn, &mut Vec::new());
                server.remember(txn);
            }
        } else {
            server.tree = leader_server.tree.clone();
            server.history = leader_server.history.clone();
        }
        server.tree.zxid = server.tree.zxid.max(leader_server.tree.zxid);
        // What is proposed and not committed.
        server.log = leader_server.log.clone();
        server.term = leader_server.term;
        server.role = Role::Follower(leader);
        server.heard = self.now;
        let (term, last) = (server.term, server.log.back().map(|txn| txn.zxid));
        if let Some(lead) = leader_server.lead() {
            lead.followers.insert(at, self.now);
        }
        for pair in [(at, leader), (leader, at)] {
            self.peers.entry(pair).or_default().held.clear();
        }
        self.say(|| format!("server {at}: follows {leader}"));
        if let Some(zxid) = last {
            self.logged(at, term, zxid);
        }
        let since = self.now + self.options.tick;
        self.later.push((since, Event::Tick { server: at, term, since, count: 0 }));
    }

    /// A server is without a leader: it serves nobody and looks for one.
    pub(super) fn look(&mut self, at: usize) {
        let leader = match self.servers[at].role {
            Role::Looking => return,
            Role::Follower(leader) => Some(leader),
            Role::Leader(_) => None,
        };
        // It closes its connection, which its leader sees unless the network is silent.
        if let Some(leader) = leader.filter(|leader| self.in_touch(at, *leader))
            && let Some(lead) = self.servers[leader].lead()
        {
            lead.followers.remove(&at);
        }
        let server = &mut self.servers[at];
        server.role = Role::Looking;
        server.term = 0;
        server.steps.clear();
        let connections: Vec<u64> = server.connections.iter().map(|(id, _)| *id).collect();
        self.say(|| format!("server {at}: has no quorum and lets its clients go"));
        for connection in connections {
            self.close_connection(at, connection);
        }
        // A leader closes the connections of those who follow it, which they see as well.
        if leader.is_none() {
            self.leave_to_look(at);
        }
        self.elect_later();
    }

    /// Those who follow a server that leads no more look for another one. One that stands still, or does not hear,
    /// finds out by the silence.
    fn leave_to_look(&mut self, leader: usize) {
        for other in 0..self.servers.len() {
            let follows = matches!(self.servers[other].role, Role::Follower(of) if of == leader);
            let silent = self.peers.get(&(leader, other)).is_some_and(|way| way.silent);
            if follows && !silent && !self.frozen.contains(&other) {
                self.look(other);
            }
        }
    }

    /// Half a tick of a server is over.
    pub(super) fn tick(&mut self, at: usize, term: u64, since: u64, count: u64) {
        let (now, tick) = (self.now, self.options.tick);
        let silence = tick * self.options.sync_limit;
        let majority = self.majority();
        let server = &mut self.servers[at];
        if server.term != term || !server.up {
            return;
        }
        let alone = self.options.servers == 1;
        // A clock that never gets late, so that buckets end when they do.
        let next = |period| {
            let count = count + 1;
            (since + count * period, Event::Tick { server: at, term, since, count })
        };
        let heard = server.heard;
        let (expired, followers) = match &mut server.role {
            Role::Looking => return,
            Role::Follower(_) => {
                if now > heard + silence {
                    return self.look(at);
                }
                return self.later.push(next(tick));
            }
            Role::Leader(lead) => {
                lead.followers.retain(|_, heard| now <= *heard + silence);
                if lead.followers.len() + 1 < majority {
                    return self.look(at);
                }
                let even = alone || count.is_multiple_of(2);
                let expired = if even { lead.tracker.expire(now) } else { Vec::new() };
                (expired, lead.followers.keys().copied().collect::<Vec<_>>())
            }
        };
        for follower in followers {
            self.send_to_peer(at, follower, ToPeer::Ping);
        }
        for session in expired {
            self.say(|| format!("server {at}: session {session:x} expires"));
            let author = Author { session, ..Author::default() };
            self.write(at, author, Write::CloseSession, None);
        }
        self.later.push(next(if alone { tick } else { tick / 2 }));
    }

    /// A leader looks for containers that nobody needs.
    pub(super) fn reap(&mut self, at: usize, term: u64) {
        let server = &self.servers[at];
        if server.term != term || !server.up {
            return;
        }
        let now = i64::try_from(self.now / 1_000).unwrap_or(i64::MAX);
        let unused = self.options.reap_unused.map(|after| (after / 1_000) as i64);
        let empty: Vec<Path> = server
            .tree
            .empty_containers()
            .filter(|(_, node)| {
                let age = now - (node.mtime - super::quorum::EPOCH);
                node.cversion > 0 || unused.is_some_and(|after| age > after)
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in empty {
            self.write(at, Author::default(), Write::Reap(path), None);
        }
        self.after(self.options.reap_every, Event::Reap { server: at, term });
    }

    /// A server dies. Of what its disk had not confirmed, so many entries are lost.
    pub(super) fn crash(&mut self, at: usize, lost: usize) {
        let server = &mut self.servers[at];
        if !server.up {
            return;
        }
        server.up = false;
        // What counts for a majority is on its disk.
        let unconfirmed = match &server.role {
            Role::Leader(lead) => {
                lead.proposals.iter().filter(|one| !one.logged.contains(&at)).count()
            }
            _ => 0,
        };
        let keep = server.log.len() - lost.min(unconfirmed).min(server.log.len());
        server.log.truncate(keep);
        let led = matches!(server.role, Role::Leader(_));
        server.role = Role::Looking;
        server.term = 0;
        server.steps.clear();
        let connections = std::mem::take(&mut server.connections);
        let connections: Vec<u64> = connections.iter().map(|(id, _)| *id).collect();
        server.watches = Default::default();
        self.say(|| format!("FAULT server {at}: dies"));
        for connection in connections {
            self.send_to_client(connection, super::frames::ToClient::Reset);
        }
        let all = 0..self.servers.len();
        let in_touch: Vec<bool> = all.clone().map(|other| self.in_touch(at, other)).collect();
        for other in all {
            match &mut self.servers[other].role {
                // One that stands still, or does not hear, finds out by the silence.
                Role::Follower(leader) if led && *leader == at && in_touch[other] => {
                    self.look(other);
                }
                Role::Leader(lead) => {
                    lead.followers.remove(&at);
                }
                _ => {}
            }
        }
    }

    /// A server that died is started again.
    pub(super) fn restart(&mut self, at: usize) {
        if !std::mem::replace(&mut self.servers[at].up, true) {
            self.say(|| format!("server {at}: is started again"));
            self.elect_later();
        }
    }
}
