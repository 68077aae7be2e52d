//! Requests that are repeated without a pause.

use std::collections::BTreeMap;

use zklock_core::coordinator::memory::shared::Request;
use zklock_core::coordinator::node::NodeKind;

use super::frames::ToServer;

/// How often a client may ask for the same node in a tenth of a second.
const MOST: u32 = 10;
const WINDOW: u64 = 100_000;

/// How often each connection has asked for a node lately.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    /// For which, since when, and how often.
    last: BTreeMap<u64, (String, u64, u32)>,
    found: Option<String>,
}

impl Repeated {
    /// Notes a request. Only nodes count whose number the client gives itself: the single node of a
    /// layout is asked for by everybody as soon as it is free.
    pub(super) fn note(&mut self, connection: u64, frame: &ToServer, now: u64) {
        let ToServer::Request(_, Request::Create { path, kind: NodeKind::Ephemeral, .. }) = frame
        else {
            return;
        };
        let digits = path.len().saturating_sub(10);
        if !path.as_bytes()[digits..].iter().all(u8::is_ascii_digit) {
            return;
        }
        let last = self.last.entry(connection).or_default();
        if last.0 != *path || now > last.1 + WINDOW {
            *last = (path.clone(), now, 0);
        }
        last.2 += 1;
        if last.2 > MOST {
            self.found = Some(path.clone());
        }
    }

    /// A node that was asked for more often.
    pub(super) fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }
}
