//! What is left on the servers when everybody has gone.

use std::collections::BTreeMap;

use zklock_checker::Left;
use zklock_test_support::Ensemble;

/// What is there now.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// What the clients have left.
    pub(super) left: Left,
    /// Ephemeral nodes that some servers show and others do not, and who shows them: the servers'
    /// data differ, which no client has done.
    pub(super) disputed: BTreeMap<String, Vec<usize>>,
    /// The servers that do not say which watches they have.
    pub(super) silent: Vec<usize>,
}

impl Remains {
    pub(super) fn of(ensemble: &Ensemble) -> Self {
        let servers = ensemble.servers();
        let mut shown: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, server) in servers.iter().enumerate() {
            for path in server.sessions().into_iter().flat_map(|session| session.ephemerals) {
                shown.entry(path).or_default().push(index);
            }
        }
        let (agreed, disputed): (BTreeMap<_, _>, BTreeMap<_, _>) =
            shown.into_iter().partition(|(_, by)| by.len() == servers.len());
        let mut left = Left { nodes: agreed.into_keys().collect(), ..Left::default() };
        for session in ensemble.server(ensemble.leader()).sessions() {
            let mut nodes = session.ephemerals.iter();
            if nodes.len() == 0 || !nodes.all(|path| disputed.contains_key(path)) {
                left.sessions.push(format!("{:#x}", session.id));
            }
        }
        let mut silent = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            let answer = server.four_letter("wchp").unwrap_or_default();
            // Without a watch the answer has an empty line.
            if answer.is_empty() || answer.contains("not currently serving requests") {
                silent.push(index);
            }
            let paths = answer.lines().filter(|line| line.starts_with('/'));
            left.watches.extend(paths.map(str::to_owned));
        }
        Remains { left, disputed, silent }
    }

    /// Whether nothing is there.
    pub(super) fn is_clean(&self) -> bool {
        let Left { nodes, watches, sessions, threads: _ } = &self.left;
        let is_said = self.disputed.is_empty() && self.silent.is_empty();
        is_said && nodes.is_empty() && watches.is_empty() && sessions.is_empty()
    }

    /// Whether this server shows nodes that another does not.
    pub(super) fn differs(&self, server: usize) -> bool {
        self.disputed.values().any(|by| by.contains(&server))
    }
}
