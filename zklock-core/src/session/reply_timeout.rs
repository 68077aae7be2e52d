//! Requests that always end with a reply or an error: no caller waits for ever.
//!
//! A server or a proxy may lose a reply although the connection lives on. A generation sends
//! requests through this type, so none waits for its reply without end. There are three exceptions: the code
//! that creates an ephemeral node, that lists the queue right behind it, and that deletes a node bounds the
//! wait itself, and then looks for the node, or asks again
//! (see [`or_forgotten`](crate::session::releaser::or_forgotten)).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::base::clock::{Clock, Instant};
use crate::base::deadline::Deadline;
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::coordinator::access::AclEntry;
use crate::coordinator::link::Link;
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::coordinator::watch::Watch;

/// A coordinator that waits for a reply no longer than the session timeout. After that the request
/// fails with
/// [`RequestError::ConnectionLoss`]: it is unknown whether it was applied, and the caller has to find out.
///
/// A request that can be repeated without harm is sent again before that, and the first reply
/// counts. Replies come in order, so if a later one arrives, the missing one was lost.
#[derive(Debug)]
pub struct TimedReplies {
    coordinator: Arc<dyn Coordinator>,
    clock: Clock,
}

impl TimedReplies {
    /// Limits the waiting time of a coordinator's replies.
    pub fn new(coordinator: Arc<dyn Coordinator>, clock: Clock) -> Self {
        TimedReplies { coordinator, clock }
    }

    fn limit(&self) -> Deadline {
        Deadline::after(self.clock.clone(), self.coordinator.session_timeout())
    }

    fn bound<T: Send + 'static>(&self, reply: Reply<T>) -> Reply<T> {
        let (limit, session) = (self.limit(), self.session_id());
        Box::pin(async move { limit.bound(reply).await.unwrap_or_else(|_| forgotten(session)) })
    }

    /// Sends a request, and again while there is no reply.
    fn again<T, A>(&self, ask: A) -> Reply<T>
    where
        T: Send + 'static,
        A: Fn(&dyn Coordinator) -> Reply<T> + Send + 'static,
    {
        let (mut reply, limit) = (ask(&*self.coordinator), self.limit());
        let coordinator = self.coordinator.clone();
        Box::pin(async move {
            let (mut more, mut pause) = (Vec::new(), times::reply(coordinator.session_timeout()));
            loop {
                let next = limit.clock().now() + pause;
                let pausing = Deadline::at(limit.clock().clone(), limit.instant().min(next));
                let answered = poll_fn(|cx| {
                    let polled = std::iter::once(&mut reply).chain(&mut more);
                    let answer = polled.map(|reply| reply.as_mut().poll(cx)).find(Poll::is_ready);
                    answer.unwrap_or(Poll::Pending)
                });
                if let Ok(answer) = pausing.bound(answered).await {
                    return answer;
                }
                if limit.has_passed() {
                    return forgotten(coordinator.session_id());
                }
                // While it is not connected, the client library keeps the requests.
                if coordinator.link() == Link::Up {
                    more.push(ask(&*coordinator));
                    pause *= 2;
                }
            }
        })
    }
}

fn forgotten<T>(session: i64) -> Result<T, RequestError> {
    // Whoever waited has to find out what became of the request.
    let session = format!("{session:#x}");
    unharmed(|| tracing::warn!(session, "no answer for a session timeout"));
    Err(RequestError::ConnectionLoss)
}

/// Whether the request can be repeated without harm.
fn may_repeat(operations: &[Operation]) -> bool {
    let checks = |operation: &Operation| {
        matches!(operation, Operation::Check { .. } | Operation::CheckVersion { .. })
    };
    operations.iter().all(checks)
}

impl Coordinator for TimedReplies {
    fn session_id(&self) -> i64 {
        self.coordinator.session_id()
    }

    fn session_timeout(&self) -> Duration {
        self.coordinator.session_timeout()
    }

    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
        match kind {
            // A directory that already exists is fine.
            NodeKind::Persistent | NodeKind::Container => {
                let (path, data) = (path.to_owned(), data.to_vec());
                self.again(move |coordinator| coordinator.create(&path, &data, kind))
            }
            // Such a node is looked up instead.
            NodeKind::Ephemeral | NodeKind::EphemeralSequential => {
                self.bound(self.coordinator.create(path, data, kind))
            }
        }
    }

    fn delete(&self, path: &str) -> Reply<()> {
        self.bound(self.coordinator.delete(path))
    }

    fn children(&self, path: &str) -> Reply<Vec<String>> {
        let path = path.to_owned();
        self.again(move |coordinator| coordinator.children(&path))
    }

    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
        let path = path.to_owned();
        self.again(move |coordinator| coordinator.children_watched(&path))
    }

    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        let path = path.to_owned();
        self.again(move |coordinator| coordinator.get(&path))
    }

    fn acl(&self, path: &str) -> Reply<Option<Vec<AclEntry>>> {
        let path = path.to_owned();
        self.again(move |coordinator| coordinator.acl(&path))
    }

    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let path = path.to_owned();
        self.again(move |coordinator| coordinator.get_watched(&path))
    }

    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
        // The second time, another node may be there.
        self.bound(self.coordinator.set(path, data))
    }

    fn multi(&self, operations: Vec<Operation>) -> Reply<()> {
        if may_repeat(&operations) {
            return self.again(move |coordinator| coordinator.multi(operations.clone()));
        }
        self.bound(self.coordinator.multi(operations))
    }

    fn sync(&self, path: &str) -> Reply<()> {
        let path = path.to_owned();
        self.again(move |coordinator| coordinator.sync(&path))
    }

    fn link(&self) -> Link {
        self.coordinator.link()
    }

    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
        self.coordinator.link_changed(seen)
    }

    fn link_lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.coordinator.link_lost()
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.coordinator.close()
    }

    fn last_contact(&self) -> Option<Instant> {
        self.coordinator.last_contact()
    }

    fn keeps_watches(&self) -> bool {
        self.coordinator.keeps_watches()
    }
}
