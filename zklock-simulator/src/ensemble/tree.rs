//! The tree of one server: what ZooKeeper's `DataTree` does with a transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use zklock_core::coordinator::memory::shared::split;
use zklock_core::coordinator::node::Stat;
use zklock_core::coordinator::request_error::RequestError;

use super::txn::{Access, Applied, CONTAINER, Change, Path, Right, Txn};

/// The session of what is planted.
pub(super) const PLANTED: i64 = 0x0dea_d000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) data: Arc<[u8]>,
    pub(super) access: Access,
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) version: i32,
    /// The number of creates below it, as the server keeps it; clients are told another figure.
    pub(super) cversion: i32,
    pub(super) ctime: i64,
    pub(super) mtime: i64,
    pub(super) owner: i64,
    pub(super) children: BTreeSet<Path>,
}

impl Node {
    pub(super) fn stat(&self) -> Stat {
        let children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        Stat::new(self.czxid)
            .version(self.version)
            .ephemeral_owner(if self.owner == CONTAINER { 0 } else { self.owner })
            .num_children(children)
            .cversion(self.cversion.wrapping_mul(2).wrapping_sub(children))
            .ctime(self.ctime)
            .mtime(self.mtime)
    }
}

/// What happened to the node at a path, for the watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    Created(Path),
    Deleted(Path),
    Data(Path),
    Children(Path),
}

#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<Path, Node>,
    ephemerals: BTreeMap<i64, BTreeSet<Path>>,
    containers: BTreeSet<Path>,
    /// The sessions and their timeouts, which are part of what is agreed on.
    pub(super) sessions: BTreeMap<i64, u64>,
    /// The last transaction that was applied.
    pub(super) zxid: i64,
}

impl Tree {
    pub(super) fn new() -> Self {
        let root = Node {
            data: Arc::from([]),
            access: Access::Open,
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            version: 0,
            cversion: 0,
            ctime: 0,
            mtime: 0,
            owner: 0,
            children: BTreeSet::new(),
        };
        Tree {
            nodes: BTreeMap::from([(Path::from("/"), root)]),
            ephemerals: BTreeMap::new(),
            containers: BTreeSet::new(),
            sessions: BTreeMap::new(),
            zxid: 0,
        }
    }

    pub(super) fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    pub(super) fn node_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(path)
    }

    /// The node, if it may be read.
    pub(super) fn read(&self, path: &str, credentials: Option<u32>) -> Result<&Node, RequestError> {
        let node = self.nodes.get(path).ok_or(RequestError::NoNode)?;
        node.access.check(Right::Read, credentials)?;
        Ok(node)
    }

    /// The nodes whose paths begin with this one.
    pub(super) fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a Path, &'a Node)> {
        let from = (Bound::Excluded(path), Bound::Unbounded);
        let nodes = self.nodes.range::<str, _>(from);
        nodes.take_while(move |(other, _)| other.starts_with(path))
    }

    pub(super) fn owned_by(&self, session: i64) -> impl Iterator<Item = &Path> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// Adds an ephemeral node of a session that nobody knows.
    pub(super) fn plant(&mut self, path: &str) {
        let change = Change::Create {
            path: Path::from(path),
            data: Arc::from([]),
            owner: PLANTED,
            access: Access::Open,
            cversion: 0,
        };
        let txn = Txn { zxid: self.zxid, time: 0, session: 0, change, origin: None };
        _ = self.apply(&txn, &mut Vec::new());
    }

    /// The containers that are empty.
    pub(super) fn empty_containers(&self) -> impl Iterator<Item = (&Path, &Node)> {
        let nodes = self.containers.iter().filter_map(|path| Some((path, self.nodes.get(path)?)));
        nodes.filter(|(_, node)| node.children.is_empty())
    }

    /// Applies the next transaction. An error is its answer, and the server goes on.
    pub(super) fn apply(
        &mut self,
        txn: &Txn,
        triggers: &mut Vec<Trigger>,
    ) -> Result<Applied, RequestError> {
        self.zxid = self.zxid.max(txn.zxid);
        self.change(&txn.change, txn, triggers)
    }

    fn change(
        &mut self,
        change: &Change,
        txn: &Txn,
        triggers: &mut Vec<Trigger>,
    ) -> Result<Applied, RequestError> {
        match change {
            Change::Create { path, data, owner, access, cversion } => {
                let node = Node {
                    data: data.clone(),
                    access: *access,
                    czxid: txn.zxid,
                    mzxid: txn.zxid,
                    pzxid: txn.zxid,
                    version: 0,
                    cversion: 0,
                    ctime: txn.time,
                    mtime: txn.time,
                    owner: *owner,
                    children: BTreeSet::new(),
                };
                self.create(path, node, *cversion, triggers)
            }
            Change::Delete { path } => self.delete(path, txn.zxid, triggers),
            Change::Set { path, data, version } => {
                let node = self.nodes.get_mut(path).ok_or(RequestError::NoNode)?;
                node.data = data.clone();
                node.version = *version;
                node.mzxid = txn.zxid;
                node.mtime = txn.time;
                triggers.push(Trigger::Data(path.clone()));
                Ok(Applied::Stat(node.stat()))
            }
            Change::Check => Ok(Applied::Done),
            Change::Multi(changes) => {
                for (index, change) in changes.iter().enumerate() {
                    self.change(change, txn, triggers)
                        .map_err(|error| RequestError::Multi { index, error: Box::new(error) })?;
                }
                Ok(Applied::Done)
            }
            Change::OpenSession { session, timeout } => {
                self.sessions.insert(*session, *timeout);
                Ok(Applied::Opened(*session))
            }
            Change::CloseSession { session, paths } => {
                self.sessions.remove(session);
                for path in paths {
                    // A server that differs may lack the node.
                    _ = self.delete(path, txn.zxid, triggers);
                }
                Ok(Applied::Done)
            }
            Change::Refused(error) => Err(error.clone()),
        }
    }

    fn create(
        &mut self,
        path: &Path,
        node: Node,
        cversion: i32,
        triggers: &mut Vec<Trigger>,
    ) -> Result<Applied, RequestError> {
        let (parent_path, name) = split(path);
        let zxid = node.czxid;
        if self.nodes.contains_key(path) {
            return Err(RequestError::NodeExists);
        }
        let parent = self.nodes.get_mut(parent_path).ok_or(RequestError::NoNode)?;
        // As in ZooKeeper: never back, so that a counter that wrapped stays where it was, and the
        // parent's pzxid with it.
        if cversion > parent.cversion {
            parent.cversion = cversion;
            parent.pzxid = zxid;
        }
        parent.children.insert(Path::from(name));
        match node.owner {
            0 => {}
            CONTAINER => {
                self.containers.insert(path.clone());
            }
            session => {
                self.ephemerals.entry(session).or_default().insert(path.clone());
            }
        }
        let stat = node.stat();
        self.nodes.insert(path.clone(), node);
        triggers.push(Trigger::Created(path.clone()));
        triggers.push(Trigger::Children(Path::from(parent_path)));
        Ok(Applied::Created(path.clone(), stat))
    }

    fn delete(
        &mut self,
        path: &Path,
        zxid: i64,
        triggers: &mut Vec<Trigger>,
    ) -> Result<Applied, RequestError> {
        let (parent_path, name) = split(path);
        let node = self.nodes.remove(path).ok_or(RequestError::NoNode)?;
        if let Some(parent) = self.nodes.get_mut(parent_path) {
            parent.children.remove(name);
            parent.pzxid = parent.pzxid.max(zxid);
        }
        self.containers.remove(path);
        if let Some(owned) = self.ephemerals.get_mut(&node.owner) {
            owned.remove(path);
            if owned.is_empty() {
                self.ephemerals.remove(&node.owner);
            }
        }
        triggers.push(Trigger::Deleted(path.clone()));
        triggers.push(Trigger::Children(Path::from(parent_path)));
        Ok(Applied::Done)
    }
}
