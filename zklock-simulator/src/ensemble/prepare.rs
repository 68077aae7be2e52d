//! How a leader turns requests into transactions: ZooKeeper's `PrepRequestProcessor`.
//!
//! A request is judged by the tree and by what is under way to it, the outstanding changes.

use std::collections::{BTreeMap, VecDeque};

use zklock_core::coordinator::node::NodeKind;
use zklock_core::coordinator::operation::Operation;
use zklock_core::coordinator::request_error::RequestError;

use super::queue::pop_if;
use super::tree::Tree;
use super::txn::{Access, CONTAINER, Change, Path, Right};
use zklock_core::coordinator::memory::shared::{check_written, split};

/// A write that waits to become a transaction.
#[derive(Clone, Debug)]
pub(super) enum Write {
    One(Operation),
    /// The whole is refused with the first operation that is.
    Multi(Vec<Operation>),
    Reap(Path),
    OpenSession {
        session: i64,
        timeout: u64,
    },
    CloseSession,
}

impl Write {
    /// The node that it deletes, before anything else.
    pub(super) fn deleted(&self) -> Option<&str> {
        let first = match self {
            Write::One(operation) => Some(operation),
            Write::Multi(operations) => operations.first(),
            _ => None,
        };
        match first? {
            Operation::Delete { path } => Some(path),
            _ => None,
        }
    }

    /// The node into which it writes, before anything else.
    pub(super) fn written(&self) -> Option<&str> {
        let first = match self {
            Write::One(operation) => Some(operation),
            Write::Multi(operations) => operations.first(),
            _ => None,
        };
        match first? {
            Operation::Set { path, .. } | Operation::Replace { path, .. } => Some(path),
            _ => None,
        }
    }
}

/// On whose behalf a write is made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Author {
    pub(super) session: i64,
    pub(super) credentials: Option<u32>,
    /// Who may use what it creates.
    pub(super) access: Access,
}

/// A node as it will be.
#[derive(Clone, Debug)]
struct Record {
    zxid: i64,
    gone: bool,
    owner: i64,
    version: i32,
    cversion: i32,
    children: i32,
    access: Access,
}

#[derive(Debug, Default)]
pub(super) struct Prepare {
    outstanding: BTreeMap<Path, Record>,
    order: VecDeque<(i64, Path)>,
}

impl Prepare {
    /// Makes the transaction `zxid` of a write.
    pub(super) fn prepare(
        &mut self,
        tree: &Tree,
        write: Write,
        author: Author,
        zxid: i64,
    ) -> Change {
        let change = match write {
            Write::One(operation) => self.operation(tree, operation, author, zxid),
            Write::Multi(operations) => self.multi(tree, operations, author, zxid),
            Write::Reap(path) => self.reap(tree, path, zxid),
            Write::OpenSession { session, timeout } => Ok(Change::OpenSession { session, timeout }),
            Write::CloseSession => Ok(self.close_session(tree, author.session, zxid)),
        };
        change.unwrap_or_else(Change::Refused)
    }

    /// The transactions up to this one are in the tree.
    pub(super) fn applied(&mut self, zxid: i64) {
        while let Some((_, path)) = pop_if(&mut self.order, |(of, _)| *of <= zxid) {
            if self.outstanding.get(&path).is_some_and(|record| record.zxid <= zxid) {
                self.outstanding.remove(&path);
            }
        }
    }

    /// Whether a node says nothing, and nobody is about to write into it.
    pub(super) fn says_nothing(&self, tree: &Tree, path: &str) -> bool {
        let is_as_made = self.record(tree, path).is_ok_and(|record| record.version == 0);
        is_as_made && tree.node(path).is_none_or(|node| node.data.is_empty())
    }

    fn record(&self, tree: &Tree, path: &str) -> Result<Record, RequestError> {
        if let Some(record) = self.outstanding.get(path) {
            return if record.gone { Err(RequestError::NoNode) } else { Ok(record.clone()) };
        }
        let node = tree.node(path).ok_or(RequestError::NoNode)?;
        Ok(Record {
            zxid: 0,
            gone: false,
            owner: node.owner,
            version: node.version,
            cversion: node.cversion,
            children: i32::try_from(node.children.len()).unwrap_or(i32::MAX),
            access: node.access,
        })
    }

    fn note(&mut self, path: &str, zxid: i64, mut record: Record) {
        record.zxid = zxid;
        let path = Path::from(path);
        self.order.push_back((zxid, path.clone()));
        self.outstanding.insert(path, record);
    }

    fn operation(
        &mut self,
        tree: &Tree,
        operation: Operation,
        author: Author,
        zxid: i64,
    ) -> Result<Change, RequestError> {
        match operation {
            Operation::Check { path } => self.check(tree, &path, -1, author),
            Operation::CheckVersion { path, version } => self.check(tree, &path, version, author),
            Operation::Create { path, data, kind } => {
                self.create(tree, &path, data, kind, author, zxid)
            }
            Operation::Set { path, data } => self.set(tree, &path, data, -1, author, zxid),
            Operation::Replace { path, data, version } => {
                self.set(tree, &path, data, version, author, zxid)
            }
            Operation::Delete { path } => self.delete(tree, &path, author, zxid),
        }
    }

    fn check(
        &self,
        tree: &Tree,
        path: &str,
        version: i32,
        author: Author,
    ) -> Result<Change, RequestError> {
        check_written(path)?;
        let record = self.record(tree, path)?;
        record.access.check(Right::Read, author.credentials)?;
        next_version(record.version, version)?;
        Ok(Change::Check)
    }

    fn create(
        &mut self,
        tree: &Tree,
        path: &str,
        data: Vec<u8>,
        kind: NodeKind,
        author: Author,
        zxid: i64,
    ) -> Result<Change, RequestError> {
        let access = author.access;
        if access != Access::Open && author.credentials.is_none() {
            return Err(RequestError::InvalidAcl);
        }
        let (parent_path, _) = split(path);
        let mut parent = self.record(tree, parent_path)?;
        parent.access.check(Right::Create, author.credentials)?;
        let path = match kind {
            NodeKind::EphemeralSequential => {
                Path::from(format!("{path}{}", java_digits(parent.cversion)))
            }
            _ => Path::from(path),
        };
        check_written(&path)?;
        if self.record(tree, &path).is_ok() {
            return Err(RequestError::NodeExists);
        }
        if parent.owner != 0 && parent.owner != CONTAINER {
            return Err(RequestError::NoChildrenForEphemerals);
        }
        let owner = match kind {
            NodeKind::Persistent => 0,
            NodeKind::Container => CONTAINER,
            NodeKind::Ephemeral | NodeKind::EphemeralSequential => author.session,
        };
        parent.cversion = parent.cversion.wrapping_add(1);
        parent.children += 1;
        let cversion = parent.cversion;
        self.note(parent_path, zxid, parent);
        let record =
            Record { zxid, gone: false, owner, version: 0, cversion: 0, children: 0, access };
        self.note(&path, zxid, record);
        Ok(Change::Create { path, data: data.into(), owner, access, cversion })
    }

    fn set(
        &mut self,
        tree: &Tree,
        path: &str,
        data: Vec<u8>,
        expected: i32,
        author: Author,
        zxid: i64,
    ) -> Result<Change, RequestError> {
        check_written(path)?;
        let mut record = self.record(tree, path)?;
        record.access.check(Right::Write, author.credentials)?;
        let version = next_version(record.version, expected)?;
        record.version = version;
        self.note(path, zxid, record);
        Ok(Change::Set { path: Path::from(path), data: data.into(), version })
    }

    fn delete(
        &mut self,
        tree: &Tree,
        path: &str,
        author: Author,
        zxid: i64,
    ) -> Result<Change, RequestError> {
        let parent = self.record(tree, split(path).0)?;
        parent.access.check(Right::Delete, author.credentials)?;
        self.remove(tree, path, zxid)
    }

    fn remove(&mut self, tree: &Tree, path: &str, zxid: i64) -> Result<Change, RequestError> {
        let (parent_path, _) = split(path);
        let mut parent = self.record(tree, parent_path)?;
        let mut record = self.record(tree, path)?;
        if record.children > 0 {
            return Err(RequestError::NotEmpty);
        }
        parent.children -= 1;
        self.note(parent_path, zxid, parent);
        record.gone = true;
        self.note(path, zxid, record);
        Ok(Change::Delete { path: Path::from(path) })
    }

    fn reap(&mut self, tree: &Tree, path: Path, zxid: i64) -> Result<Change, RequestError> {
        // Whoever has the path now: the server asks only whether it is empty and not ephemeral.
        let record = self.record(tree, &path)?;
        if record.owner != 0 && record.owner != CONTAINER {
            return Err(RequestError::BadVersion);
        }
        self.remove(tree, &path, zxid)
    }

    fn multi(
        &mut self,
        tree: &Tree,
        operations: Vec<Operation>,
        author: Author,
        zxid: i64,
    ) -> Result<Change, RequestError> {
        let before = self.outstanding.clone();
        let noted = self.order.len();
        let mut changes = Vec::with_capacity(operations.len());
        for (index, operation) in operations.into_iter().enumerate() {
            match self.operation(tree, operation, author, zxid) {
                Ok(change) => changes.push(change),
                Err(error) => {
                    self.outstanding = before;
                    self.order.truncate(noted);
                    return Err(RequestError::Multi { index, error: Box::new(error) });
                }
            }
        }
        Ok(Change::Multi(changes))
    }

    /// The nodes go that the session owns, and those that it is about to own.
    fn close_session(&mut self, tree: &Tree, session: i64, zxid: i64) -> Change {
        let mut paths: Vec<Path> = tree.owned_by(session).cloned().collect();
        for (path, record) in &self.outstanding {
            if record.gone {
                paths.retain(|owned| owned != path);
            } else if record.owner == session && !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        for path in &paths {
            if let Ok(mut record) = self.record(tree, path) {
                record.gone = true;
                self.note(path, zxid, record);
            }
        }
        Change::CloseSession { session, paths }
    }
}

fn next_version(version: i32, expected: i32) -> Result<i32, RequestError> {
    if expected != -1 && expected != version {
        return Err(RequestError::BadVersion);
    }
    Ok(version.wrapping_add(1))
}

/// Java's `%010d`: ten characters, the sign among them.
fn java_digits(number: i32) -> String {
    format!("{number:010}")
}
