//! The deletion of a node together with the mark that its holder left in the directory.
//!
//! Both are one transaction, which fails if the node is gone, so a late request does not remove the
//! mark of the next holder. It also requires the version of the data that is known to be this
//! holder's mark, so data that others have written stay.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::cooldown::mark::Mark;
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Coordinator;
use crate::session::generation::Generation;

/// A mark that is removed together with a node.
#[derive(Clone, Debug)]
pub struct MarkRemoval {
    /// The directory that contains the mark.
    pub directory: Arc<str>,
    /// The mark.
    pub mark: Mark,
    /// The version of the data that is the mark; `None` if the write was not answered.
    pub version: Option<i32>,
}

type Cleared = Result<(), RequestError>;

impl MarkRemoval {
    /// Deletes the node and removes the mark. The first request is sent by this call.
    pub fn send(
        self,
        generation: &Arc<Generation>,
        path: &Arc<str>,
    ) -> Pin<Box<dyn Future<Output = Cleared> + Send>> {
        let mut sent = self.version.map(|version| self.both(generation, path, version));
        let (generation, path) = (generation.clone(), path.clone());
        Box::pin(async move {
            loop {
                if let Some(sent) = sent.take() {
                    match sent.await {
                        Err(RequestError::Multi { index: 0, error }) => return Err(*error),
                        Err(RequestError::Multi { error, .. })
                            if *error == RequestError::BadVersion => {}
                        // The node can be deleted, and the mark cannot be removed.
                        Err(RequestError::Multi { .. }) => return generation.delete(&path).await,
                        outcome => return outcome,
                    }
                }
                // The mark may be written and not have reached this server yet.
                let read = |server: &dyn Coordinator, path: &str| server.get(path);
                let (data, stat) = generation.synced(&self.directory, read).await?;
                if Mark::read(&data).is_none_or(|mark| mark.node != self.mark.node) {
                    return generation.delete(&path).await;
                }
                sent = Some(self.both(&generation, &path, stat.version));
            }
        })
    }

    /// Rewrites the mark so that the next contender does not take the holder for a lost one; `None`
    /// if it would not do so anyway. The request is sent by this call.
    pub fn without_delay(
        &self,
        generation: &Arc<Generation>,
        path: &Arc<str>,
    ) -> Option<impl Future<Output = Cleared> + Send + use<>> {
        let version = self.version.filter(|_| !self.mark.delay.is_zero())?;
        let data = Mark { delay: Duration::ZERO, ..self.mark }.to_data();
        Some(generation.write(vec![
            Operation::Check { path: path.to_string() },
            Operation::Replace { path: self.directory.to_string(), data, version },
        ]))
    }

    fn both(
        &self,
        generation: &Arc<Generation>,
        path: &Arc<str>,
        version: i32,
    ) -> impl Future<Output = Cleared> + Send + use<> {
        let (path, directory) = (path.to_string(), self.directory.to_string());
        let data = Mark::nothing(self.mark.kept).to_data();
        generation.write(vec![
            Operation::Delete { path },
            Operation::Replace { path: directory, data, version },
        ])
    }
}
