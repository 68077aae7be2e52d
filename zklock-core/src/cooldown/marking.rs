//! The mark at a grant: waits until the mark of another holder has expired, then writes this
//! holder's mark.
//!
//! No `sync` is needed: a holder writes its mark while its node exists, and this session has seen
//! that the node is gone.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::setback::{Setback, setback};

use crate::acquire::lease::QueuedNode;
use crate::acquire::obstacle::Obstacle;
use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::mode::Mode;
use crate::base::times;
use crate::cooldown::mark::{Mark, Verdict};
use crate::coordinator::node::NodeKind;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::session::generation::Generation;
use crate::session::releaser::{more, or_forgotten, or_read_behind};

impl AcquireLoop<'_> {
    /// Waits until the lock is available, and writes the mark. A reader writes none: if it waits, its node may
    /// no longer be what `is_own` says, because nobody watches it.
    pub(crate) async fn mark(
        &self,
        generation: &Arc<Generation>,
        mut node: QueuedNode,
        is_own: &mut bool,
    ) -> Result<QueuedNode, Setback> {
        let now = || self.lane_permit.lane().clock().now();
        let (marks, old) = (self.target.marks, now() + generation.patience());
        let stays = self.target.driver.directory() != NodeKind::Container;
        let (czxid, path) = (node.czxid(), node.path().to_string());
        let mut patience = generation.patience();
        // The hold counts from the grant, which the mark precedes by the time that its commit takes:
        // hardly twice as long as the creation took. If it takes longer, the mark is written again.
        let created = node
            .mark()
            .map(|release_mark| release_mark.time.answered.since(release_mark.time.sent));
        let (least, most) = times::WRITE_MARK;
        let mut slack = (2 * created.unwrap_or_default()).clamp(least, most);
        let mut looks = 0;
        loop {
            looks += 1;
            let (data, stat) = match generation.coordinator().get(self.directory()).await {
                Ok(read) => read,
                Err(error) => {
                    self.after(generation, error).await?;
                    continue;
                }
            };
            let Some(mark) = Mark::read(&data) else {
                return Err(Setback::Failed(self.foreign(data.len())));
            };
            let Some(release_mark) = node.mark() else { return Ok(node) };
            let now = now();
            let ours = match mark.verdict(czxid, &release_mark.time, now) {
                Verdict::Rest(rest) => {
                    self.rest(generation, &mark, rest).await?;
                    continue;
                }
                Verdict::WriteDown(lost) => lost,
                // A reader does not write, so it needs no delay.
                Verdict::Free if self.request.mode == Mode::Read => {
                    *is_own &= looks == 1 && now < old;
                    return Ok(node);
                }
                Verdict::Free if !mark.kept && !stays && !marks.hold().is_zero() => {
                    return Err(self.keep_directory(generation, node).await);
                }
                Verdict::Free => {
                    let ours =
                        Mark::granted(mark.kept, czxid, &marks, &release_mark.time, now + slack);
                    release_mark.write(ours, now + slack, marks.hold());
                    ours
                }
            };
            let (directory, data) = (self.directory().to_owned(), ours.to_data());
            let written = generation.write(vec![
                Operation::Check { path: path.clone() },
                Operation::Replace { path: directory, data, version: stat.version },
            ]);
            match or_forgotten(generation, patience, written).await {
                Ok(()) if ours.node == czxid => {
                    release_mark.written(stat.version.wrapping_add(1));
                    let answered = self.lane_permit.lane().clock().now();
                    if release_mark.is_enough(answered) {
                        return Ok(node);
                    }
                    slack = 2 * answered.since(now);
                }
                Ok(()) => {}
                Err(RequestError::Multi { error, .. }) if *error == RequestError::BadVersion => {}
                Err(RequestError::Multi { index: 0, error }) if *error == RequestError::NoNode => {
                    node.forget();
                    return Err(Setback::Vanished);
                }
                Err(RequestError::Multi { error, .. }) => return Err(setback(*error)),
                Err(error) => {
                    patience = more(generation, patience);
                    self.after(generation, error).await?;
                }
            }
        }
    }

    /// Waits for this time, or until the mark may have changed.
    async fn rest(
        &self,
        generation: &Arc<Generation>,
        mark: &Mark,
        rest: Duration,
    ) -> Result<(), Setback> {
        let why = mark.reason();
        if self.request.once {
            return Err(Setback::Failed(LockError::new(ErrorKind::Busy, why)));
        }
        let mut changed = std::pin::pin!(generation.changed());
        changed.as_mut().enable();
        if generation.is_retired() {
            return Err(Setback::Interrupted);
        }
        let unavailable = Some(Arc::from(why));
        self.see(Some(Obstacle { unavailable, ..self.of_directory(generation) }));
        let timer = self.lane_permit.lane().clock().sleep(rest.min(times::MARK));
        self.until_anew(futures_lite::future::or(timer, changed)).await;
        self.seen.outdate();
        Ok(())
    }

    /// Replaces a directory that may be a container by a persistent one, because ZooKeeper would
    /// remove a container with the mark in it. The two kinds cannot be told apart. Nobody else may
    /// be in the directory.
    async fn keep_directory(&self, generation: &Arc<Generation>, node: QueuedNode) -> Setback {
        let directory = self.directory().to_owned();
        let (data, kind) = (Mark::nothing(true).to_data(), NodeKind::Persistent);
        let replaced = generation.write(vec![
            Operation::Delete { path: node.path().to_string() },
            Operation::Delete { path: directory.clone() },
            Operation::Create { path: directory, data, kind },
        ]);
        match or_read_behind(generation, self.directory(), replaced).await {
            Ok(()) => {
                node.forget();
                Setback::NoDirectory
            }
            Err(RequestError::Multi { error, .. }) => match *error {
                RequestError::NotEmpty => Setback::Shared,
                error => setback(error),
            },
            Err(error) => setback(error),
        }
    }

    fn foreign(&self, length: usize) -> LockError {
        let why = format!(
            "its directory contains {length} bytes of data written by others; `lock_delay` and \
             `hold_at_least` keep a mark there, so it must be empty: use another name for the \
             lock, or remove the data"
        );
        LockError::new(ErrorKind::Unsupported, why).aside(self.directory())
    }

    /// The error for a directory that may be a container and is always in use.
    pub(crate) fn shared(&self) -> LockError {
        let why = "`hold_at_least` needs a persistent directory; this one may be a container, \
                   which cannot be replaced while others use it or locks below it: stop them for \
                   a moment, or use another name for this lock";
        LockError::new(ErrorKind::Unsupported, why).aside(self.directory())
    }
}
