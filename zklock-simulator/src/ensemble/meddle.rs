//! An outsider who interferes with a request at the worst moment.

use zklock_core::coordinator::memory::shared::{Request, split};
use zklock_core::coordinator::traits::Operation;

use super::frames::ToServer;
use super::machine::{Event, Machine};

/// What such an outsider writes.
pub(super) const INTERFERENCE: &[u8] = b"somebody was here";

impl Machine {
    /// Lets an outsider do something to a node near the one that a request is about: before the
    /// request arrives, or just after.
    pub(super) fn meddle(&mut self, frame: &ToServer) {
        let meddles = self.options.weather.meddles;
        let ToServer::Request(_, request) = frame else { return };
        let how = if meddles == 0 { 0 } else { self.world.seldom(3, meddles) };
        let Some(path) = about(request).filter(|_| how > 0) else { return };
        let directory = match split(path) {
            // The node of a contender, or its beginning.
            (directory, name) if name.contains('_') || name.contains('-') => directory,
            _ => path,
        };
        let tree = &self.newest().tree;
        let nodes = tree.below(directory).filter(|(_, node)| node.owner > 0);
        let nodes: Vec<String> = nodes.map(|(path, _)| path.to_string()).collect();
        if nodes.is_empty() {
            return;
        }
        let path = nodes[self.world.choose(nodes.len() as u32) as usize].clone();
        let operation = match how {
            1 => Operation::Delete { path },
            _ => Operation::Set { path, data: INTERFERENCE.to_vec() },
        };
        self.meddles += 1;
        let when = self.options.weather.latency * [0, 2, 4][self.world.choose(3) as usize];
        self.after(when, Event::Outside(operation));
    }
}

/// The path that a request is about.
fn about(request: &Request) -> Option<&str> {
    Some(match request {
        Request::Create { path, .. }
        | Request::Delete { path }
        | Request::Get { path, .. }
        | Request::Set { path, .. }
        | Request::Children { path, .. }
        | Request::Sync { path } => path,
        Request::Multi(operations) => match operations.first()? {
            Operation::Check { path }
            | Operation::CheckVersion { path, .. }
            | Operation::Create { path, .. }
            | Operation::Set { path, .. }
            | Operation::Replace { path, .. }
            | Operation::Delete { path } => path,
        },
    })
}
