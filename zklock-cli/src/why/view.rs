//! What each server says about a lock.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use zklock::{Participant, Session, Survey};

use crate::exit::{Failure, UNREACHABLE};
use crate::ls::twins;
use crate::when::since;
use crate::words::{Connection, connections};

/// What is left of the time for the end of the command.
const REST: Duration = Duration::from_millis(100);
/// How long the sessions have to be closed. They expire otherwise.
const GOODBYE: Duration = Duration::from_millis(50);

/// How long a server may take to tell its connections, where nothing else is asked.
const PATIENCE: Duration = Duration::from_millis(500);

/// A queue of the lock, of one layout.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) path: String,
    pub(crate) layout: String,
    /// Whether it is the inner lock of a semaphore.
    pub(crate) inner: bool,
    pub(crate) survey: Survey,
}

/// What one server says.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) server: String,
    /// The queues, or why they could not be read.
    pub(crate) queues: Result<Vec<Queue>, Failure>,
    /// The connections of its clients, or why it does not tell.
    pub(crate) connections: Result<Vec<Connection>, String>,
    /// The session in which it was asked.
    pub(crate) own: Option<i64>,
}

/// Asks all servers at the same time.
pub(crate) async fn ask(name: &str, servers: &[String], within: Duration) -> Vec<View> {
    let end = Instant::now() + within.saturating_sub(REST);
    let mut asked = Vec::new();
    for server in servers {
        let (name, server) = (name.to_owned(), server.clone());
        asked.push(tokio::spawn(async move { ask_one(&name, server, end, within).await }));
    }
    let mut views = Vec::new();
    for one in asked {
        // A task that panicked has told so itself.
        views.extend(one.await);
    }
    views
}

async fn ask_one(name: &str, server: String, end: Instant, within: Duration) -> View {
    let unanswered = || "it did not answer in time".to_owned();
    // A little less, so that it is told in time why there is no session.
    let connecting = within.saturating_sub(2 * REST).max(REST);
    let reading = async {
        let builder = Session::builder_from_env(&server)?.connect_timeout(connecting);
        let session = builder.connect().await?;
        let own = session.zookeeper_session().map(|(id, _)| id);
        let queues = read(&session, name).await;
        Ok((session, own, queues))
    };
    let late = || Err(Failure { code: UNREACHABLE, message: unanswered() });
    let reading = async { timeout_at(end, reading).await.unwrap_or_else(|_| late()) };
    let (session, own, queues) = match reading.await {
        Ok((session, own, queues)) => (Some(session), own, queues),
        Err(why) => (None, None, Err(why)),
    };
    // Afterwards, so that the server has just answered the own session: what is measured by.
    let connections = timeout_at(end, tells(&server)).await;
    let connections = connections.unwrap_or_else(|_| Err(unanswered()));
    if let Some(session) = session {
        let _ = timeout(GOODBYE, session.close()).await;
    }
    View { server, queues, connections, own }
}

/// Asks the servers for their connections only.
pub(crate) async fn ask_connections(servers: &[String], own: Option<i64>) -> Vec<View> {
    let mut views = Vec::new();
    for server in servers {
        let told = timeout(PATIENCE, tells(server)).await;
        let connections = told.unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
        views.push(View { server: server.clone(), queues: Ok(Vec::new()), connections, own });
    }
    views
}

/// The connections of a server of the connect string.
async fn tells(server: &str) -> Result<Vec<Connection>, String> {
    connections(server.split('/').next().unwrap_or_default()).await
}

async fn read(session: &Session, name: &str) -> Result<Vec<Queue>, Failure> {
    let mut queues = Vec::new();
    for site in session.sites(name).await? {
        let survey = site.survey().await?;
        let (path, layout, inner) = (site.path().to_owned(), site.layout(), site.is_inner());
        queues.push(Queue { path, layout, inner, survey });
    }
    let twins = queues.iter().flat_map(|queue| twins(&queue.survey.queue)).collect::<Vec<_>>();
    for queue in queues.iter_mut().filter(|queue| queue.inner) {
        queue.survey.queue.retain(|one| !twins.contains(&one.session));
    }
    Ok(queues)
}

impl Queue {
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Participant> {
        self.survey.queue.iter().filter(|one| one.holder && !self.inner)
    }

    /// Whether this is the node that the server shows and its leader does not know.
    pub(crate) fn is_phantom(&self, one: &Participant) -> bool {
        let name = self.survey.phantom.as_deref().and_then(|path| path.rsplit('/').next());
        name == Some(&*one.node)
    }

    /// How many nodes have left the directory, and in which time.
    pub(crate) fn left(&self) -> Option<(u32, Duration)> {
        let present = self.survey.queue.len() + self.survey.strangers.len();
        let left = self.survey.next_number - i64::try_from(present).ok()?;
        Some((u32::try_from(left).ok()?, since(self.survey.created?)))
    }

    /// All of them wait in the inner lock of a semaphore.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = &Participant> {
        self.survey.queue.iter().filter(|one| !one.holder || self.inner)
    }
}
