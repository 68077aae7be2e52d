//! Why new acquires use another generation, while this one lives.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Generation;
use super::held::OfLock;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::unharmed::{tell_all, unharmed};
use crate::coordinator::request_error::RequestError;
use crate::divergence::phantom::PhantomNode;
use crate::observe::observer::Event;
use crate::session::stuck::Stuck;

impl Generation {
    /// Retires the generation because a node cannot be deleted: new acquires use another one, and
    /// this one is closed when nobody has a guard in it any more, lost ones included, and nothing is to be deleted.
    pub fn retire(&self, path: &str, of: Option<&OfLock>, why: &RequestError) {
        self.events.tell(|| Event::StuckNode {
            lock: of.map(|of| of.name.clone()),
            pattern: of.map(|of| of.pattern.text()),
            mode: of.map(|of| of.mode),
            path: path.to_owned(),
            error: LockError::new(ErrorKind::Unauthorized, why.in_short()),
        });
        self.take_out_of_use();
        // Whoever waits for the deletion is told of the refusal all the same.
        unharmed(|| {
            tracing::error!(path, %why, "the server refused to delete a lock's node; it is deleted \
                                         when its ZooKeeper session ends");
        });
    }

    /// Where it is to be told in which directories nodes are stuck.
    pub fn tell_where_stuck(&self, stuck: Arc<Stuck>) {
        // Told once.
        let _ = self.stuck.set(stuck);
    }

    /// Remembers that a node may not be deleted.
    pub fn is_stuck(&self, path: &str, why: &RequestError) {
        if let Some(stuck) = self.stuck.get() {
            let now = self.lease.clock().now();
            stuck.note(path, now + self.lease.timeout(), now, why);
        }
    }

    /// Why nobody creates a node in a directory, if two were stuck there within a session timeout, and that is no
    /// longer ago.
    pub fn refuses(&self, directory: &str) -> Option<RequestError> {
        self.stuck.get()?.refuses(directory, || self.lease.clock().now())
    }

    /// Retires the generation because the data of its server differ from its leader's, as an acquire of
    /// this lock has found out.
    pub fn leave(&self, phantom: PhantomNode, of: &OfLock) {
        let path = phantom.path.clone();
        self.events.tell(|| {
            let (lock, pattern, mode) = of.told();
            Event::Diverged { lock, pattern, mode, path: path.clone() }
        });
        // Others may have found another such node.
        let _ = self.phantom.set(phantom);
        self.take_out_of_use();
        unharmed(|| {
            tracing::error!(path, "the server shows a node that its leader does not know");
        });
    }

    /// A node that shows that the server's data differ from its leader's.
    pub fn phantom(&self) -> Option<&PhantomNode> {
        self.phantom.get()
    }

    /// Whether the generation was retired while its ZooKeeper session lives.
    pub fn was_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Whether new acquires should use another generation.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire) || self.is_over()
    }

    /// Retires the generation without telling the observers.
    pub fn take_out_of_use(&self) {
        self.retired.store(true, Ordering::Release);
        tell_all(&self.changed);
    }
}
