//! What servers say of a lock `a`, for tests.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use zklock::Survey;

use crate::member::Place;
use crate::server::Again;
use crate::why::problems::Facts;
use crate::why::view::{Queue, View};
use crate::words::Connection;

static AGAIN: LazyLock<Again> = LazyLock::new(Again::default);

/// What is known of the lock, where the servers had a second.
pub(super) fn facts<'a>(views: &'a [View], queues: &'a [Queue], server: &'a str) -> Facts<'a> {
    Facts { name: "a", within: Duration::from_secs(1), again: &AGAIN, views, queues, server }
}

/// Its queue.
pub(super) fn queue(survey: Survey) -> Queue {
    let (path, layout) = ("/zklock/a".to_owned(), "Curator".to_owned());
    Queue { path, layout, inner: false, inside: BTreeSet::new(), survey }
}

/// What a server says that belongs to no ensemble.
pub(super) fn view(
    server: &str,
    queue: Queue,
    connections: Result<Vec<Connection>, String>,
) -> View {
    let (server, place, queues) = (server.to_owned(), Place::alone(), Ok(vec![queue]));
    View { server, place, queues, connections, own: None, unsure: BTreeSet::new() }
}
