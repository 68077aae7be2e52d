//! The watches of one server: who is told of which change.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Tree, Trigger};
use super::txn::Path;

/// What a notification says of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Created,
    Deleted,
    Data,
    Children,
}

/// What a watch looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aspect {
    /// The node: that it comes, goes, or changes its data.
    Data,
    Children,
}

/// The watches that a client sets again.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchList {
    pub(super) seen: i64,
    pub(super) data: Vec<Path>,
    pub(super) exists: Vec<Path>,
    pub(super) children: Vec<Path>,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    by_path: BTreeMap<(Aspect, Path), BTreeSet<u64>>,
    by_connection: BTreeMap<u64, BTreeSet<(Aspect, Path)>>,
}

impl Watches {
    pub(super) fn add(&mut self, connection: u64, aspect: Aspect, path: &Path) {
        let key = (aspect, path.clone());
        self.by_path.entry(key.clone()).or_default().insert(connection);
        self.by_connection.entry(connection).or_default().insert(key);
    }

    pub(super) fn remove(&mut self, connection: u64, aspect: Aspect, path: &Path) {
        let key = (aspect, path.clone());
        if let Some(keys) = self.by_connection.get_mut(&connection) {
            keys.remove(&key);
        }
        self.leave(connection, &key);
    }

    /// A connection is gone, and its watches with it.
    pub(super) fn forget(&mut self, connection: u64) {
        for key in self.by_connection.remove(&connection).unwrap_or_default() {
            self.leave(connection, &key);
        }
    }

    fn leave(&mut self, connection: u64, key: &(Aspect, Path)) {
        if let Some(connections) = self.by_path.get_mut(key) {
            connections.remove(&connection);
            if connections.is_empty() {
                self.by_path.remove(key);
            }
        }
    }

    fn take(&mut self, aspect: Aspect, path: &Path) -> BTreeSet<u64> {
        let key = (aspect, path.clone());
        let connections = self.by_path.remove(&key).unwrap_or_default();
        for connection in &connections {
            if let Some(keys) = self.by_connection.get_mut(connection) {
                keys.remove(&key);
            }
        }
        connections
    }

    /// Whom to tell of a change. A connection that watches a node and its children is told of the
    /// deletion once.
    pub(super) fn trigger(&mut self, trigger: &Trigger) -> Vec<(u64, Notice, Path)> {
        let (path, notice, told) = match trigger {
            Trigger::Created(path) => (path, Notice::Created, self.take(Aspect::Data, path)),
            Trigger::Data(path) => (path, Notice::Data, self.take(Aspect::Data, path)),
            Trigger::Children(path) => (path, Notice::Children, self.take(Aspect::Children, path)),
            Trigger::Deleted(path) => {
                let mut told = self.take(Aspect::Data, path);
                told.append(&mut self.take(Aspect::Children, path));
                (path, Notice::Deleted, told)
            }
        };
        told.into_iter().map(|connection| (connection, notice, path.clone())).collect()
    }

    /// Sets watches again. What the client missed is told at once, and is no longer watched.
    pub(super) fn set_again(
        &mut self,
        tree: &Tree,
        connection: u64,
        list: &WatchList,
    ) -> Vec<(Notice, Path)> {
        let mut missed = Vec::new();
        for path in &list.data {
            match tree.node(path) {
                None => missed.push((Notice::Deleted, path.clone())),
                Some(node) if node.mzxid > list.seen => missed.push((Notice::Data, path.clone())),
                Some(_) => self.add(connection, Aspect::Data, path),
            }
        }
        for path in &list.exists {
            match tree.node(path) {
                Some(_) => missed.push((Notice::Created, path.clone())),
                None => self.add(connection, Aspect::Data, path),
            }
        }
        for path in &list.children {
            match tree.node(path) {
                None => missed.push((Notice::Deleted, path.clone())),
                Some(node) if node.pzxid > list.seen => {
                    missed.push((Notice::Children, path.clone()));
                }
                Some(_) => self.add(connection, Aspect::Children, path),
            }
        }
        missed
    }

    /// How many watches there are.
    pub(super) fn count(&self) -> usize {
        self.by_connection.values().map(BTreeSet::len).sum()
    }
}
