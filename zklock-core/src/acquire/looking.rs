//! Looking at the queue. Several callers of this process may wait in it, each with its own node;
//! they share the lists.

use std::pin::pin;
use std::sync::Arc;

use futures_lite::future::{or, poll_once};
use tokio::sync::oneshot::Receiver;

use crate::acquire::acquire_loop::AcquireLoop;
use crate::acquire::setback::Setback;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::Reply;
use crate::session::generation::{Generation, Listed, Listing, Since};
use crate::session::releaser::or_forgotten;

/// A pending list request.
pub(crate) enum Looking {
    /// For one caller, right behind the creation of its node.
    Behind(Reply<Vec<String>>),
    /// For one caller.
    Alone(Reply<Vec<String>>),
    /// Shared by all callers that look.
    Shared(Receiver<Listing>),
}

impl AcquireLoop<'_> {
    /// Requests a list of the queue. This call sends the request, unless the list is shared and
    /// another request is pending.
    pub(crate) fn look(&self, generation: &Arc<Generation>, since: Since) -> Looking {
        if self.request.has_many_nodes {
            return Looking::Shared(generation.list(self.directory(), &self.target.driver, since));
        }
        Looking::Alone(generation.coordinator().children(self.directory()))
    }

    /// The same, right behind the creation of the own node.
    pub(crate) fn look_behind(&self, generation: &Arc<Generation>) -> Looking {
        if self.request.has_many_nodes {
            return self.look(generation, Since::Now);
        }
        Looking::Behind(generation.children(self.directory()))
    }

    /// Waits for the list.
    pub(crate) async fn looked(
        &self,
        generation: &Arc<Generation>,
        looking: Looking,
    ) -> Result<Arc<Listed>, RequestError> {
        match looking {
            Looking::Behind(mut reply) => {
                let answer = match poll_once(&mut reply).await {
                    // It comes with that of the creation.
                    Some(answer) => answer,
                    None => Box::pin(or_forgotten(generation, generation.patience(), reply)).await,
                };
                answer.map(|names| self.saw(names))
            }
            Looking::Alone(reply) => reply.await.map(|names| self.saw(names)),
            Looking::Shared(listing) => match listing.await {
                Ok(listed) => listed,
                // The driver panicked over the names: in this caller it does so again, which is told.
                Err(_) => self.list_now(generation).await,
            },
        }
    }

    /// A list for one caller, which does not wait for those that others have requested.
    async fn list_now(&self, generation: &Arc<Generation>) -> Result<Arc<Listed>, RequestError> {
        let names = generation.coordinator().children(self.directory()).await?;
        Ok(self.saw(names))
    }

    /// A list that one caller requested.
    pub(crate) fn saw(&self, names: Vec<String>) -> Arc<Listed> {
        Arc::new(Listed::new(names, &*self.target.driver))
    }

    /// The children of the directory, read if they are not known; `None` if there is no directory.
    pub(crate) async fn list(
        &self,
        generation: &Arc<Generation>,
        known: Option<Arc<Listed>>,
        since: Since,
    ) -> Result<Option<Arc<Listed>>, Setback> {
        if known.is_some() {
            return Ok(known);
        }
        loop {
            let mut looking = pin!(self.looked(generation, self.look(generation, since)));
            let looked = match self.until_anew(looking.as_mut()).await {
                Some(looked) => looked,
                // It may have no answer.
                None => or(looking, self.list_now(generation)).await,
            };
            match looked {
                Ok(looked) => return Ok(Some(looked)),
                Err(RequestError::NoNode) => return Ok(None),
                Err(error) => self.after(generation, error).await?,
            }
        }
    }
}
