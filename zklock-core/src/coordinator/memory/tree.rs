//! The tree of nodes and its operations. It knows sessions only as owners, and returns the changes
//! that watches see.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::path;
use super::watches::{Change, WatchKind};
use crate::base::clock::Instant;
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::watch::WatchEvent;

#[derive(Clone, Debug)]
struct Node {
    data: Vec<u8>,
    czxid: i64,
    version: i32,
    owner: i64,
    ctime: i64,
    mtime: i64,
    container: bool,
    children: BTreeSet<String>,
    /// The number of children that were ever created here: the next sequence number.
    creates: i32,
    /// Since when a container that had children is empty.
    idle_since: Option<Instant>,
}

impl Node {
    fn new(data: Vec<u8>, (czxid, ctime): (i64, i64), owner: i64, container: bool) -> Self {
        Node {
            data,
            czxid,
            version: 0,
            owner,
            ctime,
            mtime: ctime,
            container,
            children: BTreeSet::new(),
            creates: 0,
            idle_since: None,
        }
    }

    fn stat(&self) -> Stat {
        let children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        Stat {
            czxid: self.czxid,
            version: self.version,
            ephemeral_owner: self.owner,
            num_children: children,
            cversion: self.creates.wrapping_mul(2).wrapping_sub(children),
            ctime: self.ctime,
            mtime: self.mtime,
        }
    }
}

/// The session that makes a request, and the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) session: i64,
    pub(super) now: Instant,
}

#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<String, Node>,
    /// Empty containers, those that were empty for longest first.
    idle: BTreeSet<(Instant, String)>,
    owned: BTreeMap<i64, BTreeSet<String>>,
    zxid: i64,
    /// The time of the wall clock at the origin of the store's clock, in milliseconds since 1970.
    epoch: i64,
    changes: Vec<Change>,
}

impl Tree {
    pub(super) fn new(epoch: i64) -> Self {
        let nodes = HashMap::from([("/".to_owned(), Node::new(Vec::new(), (0, 0), 0, false))]);
        let (idle, owned, changes) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
        Tree { nodes, idle, owned, zxid: 0, epoch, changes }
    }

    fn wall_clock(&self, now: Instant) -> i64 {
        let since = now.since(Instant::ORIGIN).as_millis();
        self.epoch.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// Something has changed that those who watch see so.
    fn seen(&mut self, kind: WatchKind, path: &str, event: WatchEvent) {
        self.changes.push(((kind, path.to_owned()), event));
    }

    /// The changes since the last call, in order.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub(super) fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), RequestError> {
        let node = self.nodes.get(path).ok_or(RequestError::NoNode)?;
        Ok((node.data.clone(), node.stat()))
    }

    /// In reverse, so that nobody relies on an order that a server does not give.
    pub(super) fn children(&self, path: &str) -> Result<Vec<String>, RequestError> {
        let node = self.nodes.get(path).ok_or(RequestError::NoNode)?;
        Ok(node.children.iter().rev().cloned().collect())
    }

    pub(super) fn create(
        &mut self,
        path: &str,
        data: Vec<u8>,
        kind: NodeKind,
        caller: Caller,
    ) -> Result<Created, RequestError> {
        let zxid = self.zxid + 1;
        let created = self.insert(path, data, kind, caller, zxid)?;
        self.zxid = zxid;
        Ok(created)
    }

    pub(super) fn delete(&mut self, path: &str, now: Instant) -> Result<(), RequestError> {
        self.remove(path, now)?;
        self.zxid += 1;
        Ok(())
    }

    pub(super) fn set(
        &mut self,
        path: &str,
        data: Vec<u8>,
        now: Instant,
    ) -> Result<Stat, RequestError> {
        let stat = self.write(path, data, now)?;
        self.zxid += 1;
        Ok(stat)
    }

    /// Applies all operations under one transaction number, or none.
    pub(super) fn multi(
        &mut self,
        operations: Vec<Operation>,
        caller: Caller,
    ) -> Result<(), RequestError> {
        let zxid = self.zxid + 1;
        let changed = self.changes.len();
        let mut saved = Vec::new();
        for (index, operation) in operations.into_iter().enumerate() {
            let applied = match operation {
                Operation::Check { path } => path::check_written(&path)
                    .and_then(|()| self.nodes.get(&path).map(drop).ok_or(RequestError::NoNode)),
                Operation::CheckVersion { path, version } => path::check_written(&path)
                    .and_then(|()| self.nodes.get(&path).ok_or(RequestError::NoNode))
                    .and_then(|node| match version {
                        // Any version, as in ZooKeeper.
                        -1 => Ok(()),
                        version if version == node.version => Ok(()),
                        _ => Err(RequestError::BadVersion),
                    }),
                Operation::Create { path, data, kind } => {
                    self.save(path::split(&path).0, &mut saved);
                    self.insert(&path, data, kind, caller, zxid)
                        .map(|created| saved.push((created.path, None)))
                }
                Operation::Set { path, data } => {
                    self.save(&path, &mut saved);
                    self.write(&path, data, caller.now).map(drop)
                }
                Operation::Replace { path, data, version } => {
                    self.save(&path, &mut saved);
                    match self.nodes.get(&path) {
                        Some(node) if node.version != version => Err(RequestError::BadVersion),
                        _ => self.write(&path, data, caller.now).map(drop),
                    }
                }
                Operation::Delete { path } => {
                    self.save(path::split(&path).0, &mut saved);
                    self.save(&path, &mut saved);
                    self.remove(&path, caller.now)
                }
            };
            if let Err(error) = applied {
                self.changes.truncate(changed);
                for (path, node) in saved.into_iter().rev() {
                    self.unlink(&path);
                    if let Some(node) = node {
                        self.link(path, node);
                    }
                }
                return Err(RequestError::Multi { index, error: Box::new(error) });
            }
        }
        self.zxid = zxid;
        Ok(())
    }

    fn save(&self, path: &str, saved: &mut Vec<(String, Option<Node>)>) {
        if let Some(node) = self.nodes.get(path) {
            saved.push((path.to_owned(), Some(node.clone())));
        }
    }

    /// Deletes the nodes of a session that ended.
    pub(super) fn end_session(&mut self, session: i64, now: Instant) {
        let Some(paths) = self.owned.remove(&session) else { return };
        for path in &paths {
            // An ephemeral node is listed here while it exists, and it has no children.
            let removed = self.remove(path, now);
            debug_assert_eq!(removed, Ok(()));
        }
        self.zxid += 1;
    }

    pub(super) fn owned_by(&self, session: i64) -> impl Iterator<Item = &str> {
        self.owned.get(&session).into_iter().flatten().map(String::as_str)
    }

    pub(super) fn owner_of(&self, path: &str) -> Option<i64> {
        self.nodes.get(path).map(|node| node.owner).filter(|owner| *owner != 0)
    }

    pub(super) fn child_paths(&self, path: &str) -> impl Iterator<Item = String> {
        let prefix = if path == "/" { "" } else { path };
        let children = self.nodes.get(path).into_iter().flat_map(|node| &node.children);
        children.map(move |name| format!("{prefix}/{name}"))
    }

    /// When the node at `path` became an empty container.
    pub(super) fn idle_since(&self, path: &str) -> Option<Instant> {
        self.nodes.get(path).and_then(|node| node.idle_since)
    }

    pub(super) fn longest_idle(&self) -> Option<Instant> {
        self.idle.first().map(|(since, _)| *since)
    }

    /// Deletes the container that was empty for longest, at the time when it was due.
    pub(super) fn reap_one(&mut self, interval: Duration) {
        let Some((since, path)) = self.idle.first().cloned() else { return };
        let removed = self.remove(&path, since + interval);
        debug_assert_eq!(removed, Ok(()));
        self.idle.remove(&(since, path));
        self.zxid += 1;
    }

    /// Sets the number of the next sequential child.
    pub(super) fn set_sequence(&mut self, path: &str, next: i32) -> Result<(), RequestError> {
        self.nodes.get_mut(path).ok_or(RequestError::NoNode)?.creates = next;
        Ok(())
    }

    fn insert(
        &mut self,
        path: &str,
        data: Vec<u8>,
        kind: NodeKind,
        caller: Caller,
        zxid: i64,
    ) -> Result<Created, RequestError> {
        let (parent_path, _) = path::split(path);
        let parent = self.nodes.get(parent_path).ok_or(RequestError::NoNode)?;
        let full = match kind {
            NodeKind::EphemeralSequential => format!("{path}{:010}", parent.creates),
            _ => path.to_owned(),
        };
        // The order of these checks is the server's.
        path::check_written(&full)?;
        if self.nodes.contains_key(&full) {
            return Err(RequestError::NodeExists);
        }
        if parent.owner != 0 {
            return Err(RequestError::NoChildrenForEphemerals);
        }
        let ephemeral = matches!(kind, NodeKind::Ephemeral | NodeKind::EphemeralSequential);
        let owner = if ephemeral { caller.session } else { 0 };
        let born = (zxid, self.wall_clock(caller.now));
        let node = Node::new(data, born, owner, kind == NodeKind::Container);
        let stat = node.stat();
        if let Some(parent) = self.nodes.get_mut(parent_path) {
            parent.children.insert(path::split(&full).1.to_owned());
            // A server does not increment the counter if that would make it smaller, so after
            // 2147483647 it repeats that number.
            parent.creates = parent.creates.saturating_add(1);
            if let Some(since) = parent.idle_since.take() {
                self.idle.remove(&(since, parent_path.to_owned()));
            }
        }
        self.link(full.clone(), node);
        self.seen(WatchKind::Data, &full, WatchEvent::Changed);
        self.seen(WatchKind::Children, parent_path, WatchEvent::Changed);
        Ok(Created { path: full, stat })
    }

    fn remove(&mut self, path: &str, now: Instant) -> Result<(), RequestError> {
        let node = self.nodes.get(path).ok_or(RequestError::NoNode)?;
        if !node.children.is_empty() {
            return Err(RequestError::NotEmpty);
        }
        self.unlink(path);
        let (parent_path, name) = path::split(path);
        if let Some(parent) = self.nodes.get_mut(parent_path) {
            parent.children.remove(name);
            if parent.container && parent.children.is_empty() {
                parent.idle_since = Some(now);
                self.idle.insert((now, parent_path.to_owned()));
            }
        }
        self.seen(WatchKind::Data, path, WatchEvent::Deleted);
        self.seen(WatchKind::Children, path, WatchEvent::Deleted);
        self.seen(WatchKind::Children, parent_path, WatchEvent::Changed);
        Ok(())
    }

    fn write(&mut self, path: &str, data: Vec<u8>, now: Instant) -> Result<Stat, RequestError> {
        path::check_written(path)?;
        let mtime = self.wall_clock(now);
        let node = self.nodes.get_mut(path).ok_or(RequestError::NoNode)?;
        node.data = data;
        node.mtime = mtime;
        node.version = node.version.wrapping_add(1);
        let stat = node.stat();
        self.seen(WatchKind::Data, path, WatchEvent::Changed);
        Ok(stat)
    }

    fn link(&mut self, path: String, node: Node) {
        if node.owner != 0 {
            self.owned.entry(node.owner).or_default().insert(path.clone());
        }
        if let Some(since) = node.idle_since {
            self.idle.insert((since, path.clone()));
        }
        self.nodes.insert(path, node);
    }

    fn unlink(&mut self, path: &str) {
        let Some(node) = self.nodes.remove(path) else { return };
        if let Some(owned) = self.owned.get_mut(&node.owner) {
            owned.remove(path);
            if owned.is_empty() {
                self.owned.remove(&node.owner);
            }
        }
        if let Some(since) = node.idle_since {
            self.idle.remove(&(since, path.to_owned()));
        }
    }
}
