//! What is left on the servers when everybody has gone.

use std::collections::BTreeMap;

use zklock_checker::Left;
use zklock_test_support::Ensemble;

/// What is there now.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// What the clients have left.
    pub(super) left: Left,
    /// Ephemeral nodes that one server shows and no other: its data differ, which no client has done.
    pub(super) strays: BTreeMap<usize, Vec<String>>,
}

impl Remains {
    pub(super) fn of(ensemble: &Ensemble) -> Self {
        let mut shown: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, server) in ensemble.servers().iter().enumerate() {
            for path in server.sessions().into_iter().flat_map(|session| session.ephemerals) {
                shown.entry(path).or_default().push(index);
            }
        }
        let mut remains = Remains::default();
        for (path, servers) in &shown {
            match servers[..] {
                [one] => remains.strays.entry(one).or_default().push(path.clone()),
                _ => remains.left.nodes.push(path.clone()),
            }
        }
        for session in ensemble.server(ensemble.leader()).sessions() {
            let strays = |path: &String| shown.get(path).is_some_and(|servers| servers.len() == 1);
            if session.ephemerals.is_empty() || !session.ephemerals.iter().all(strays) {
                remains.left.sessions.push(format!("{:#x}", session.id));
            }
        }
        for server in ensemble.servers() {
            let answer = server.four_letter("wchp").unwrap_or_default();
            let paths = answer.lines().filter(|line| line.starts_with('/'));
            remains.left.watches.extend(paths.map(str::to_owned));
        }
        remains
    }

    /// Whether the clients have left nothing.
    pub(super) fn is_clean(&self) -> bool {
        self.left.nodes.is_empty() && self.left.watches.is_empty() && self.left.sessions.is_empty()
    }
}
