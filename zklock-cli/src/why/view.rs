//! What each server says about a lock.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use zklock::{ContenderInfo, ErrorKind, LockOptions, Session, Site, Survey};

use crate::exit::{Failure, UNREACHABLE};
use crate::ls::is_waiter_of_its_own;
use crate::member::Place;
use crate::parts::{HEAD, all_wait};
use crate::when::since;
use crate::why::life::Life;
use crate::words::{Connection, connections};

/// What is left of the time for the end of the command.
const REST: Duration = Duration::from_millis(100);
/// This part of the time is left for the connections when the rest of a long queue takes too long, or a server does not
/// tell who it is.
const FOR_CONNECTIONS: u32 = 5;
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
    /// The sessions that stand in the inner lock beside it.
    pub(crate) inside: BTreeSet<i64>,
    pub(crate) survey: Survey,
}

/// What one server says.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) server: String,
    pub(crate) place: Place,
    /// The queues, or why they could not be read.
    pub(crate) queues: Result<Vec<Queue>, Failure>,
    /// The connections of its clients, or why it does not tell.
    pub(crate) connections: Result<Vec<Connection>, String>,
    /// The session in which it was asked.
    pub(crate) own: Option<i64>,
    /// Sessions that began or ended while the servers were asked, so that not having a connection says nothing.
    pub(crate) unsure: BTreeSet<i64>,
}

/// Asks all servers at the same time.
///
/// Who releases the lock or comes for it between two answers has no connection by one and a node by the other. So where
/// somebody has none, all are asked once more: only who had none twice, and has its node after that, is alone.
pub(crate) async fn ask(name: &str, servers: &[String], within: Duration) -> Vec<View> {
    let end = Instant::now() + within.saturating_sub(REST);
    let asked = servers.iter().map(|server| {
        let (name, server) = (name.to_owned(), server.clone());
        tokio::spawn(async move { ask_one(&name, server, end, within).await })
    });
    let (mut views, mut sessions) = (Vec::new(), Vec::new());
    for (view, session) in all(asked.collect()).await {
        views.push(view);
        sessions.push(session);
    }
    let before = alone(&views);
    if !before.is_empty() {
        views = ask_again(name, views, &sessions, end).await;
        let unsure = &alone(&views) - &before;
        if let Some(view) = views.first_mut() {
            view.unsure = unsure;
        }
    }
    let ends = sessions
        .into_iter()
        .flatten()
        .map(|session| tokio::spawn(async move { timeout(GOODBYE, session.close()).await }));
    all(ends.collect()).await;
    views
}

/// What tasks return. One that panicked has told so itself.
async fn all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await);
    }
    all
}

/// The sessions of those in the queues of which no server has a connection.
fn alone(views: &[View]) -> BTreeSet<i64> {
    let queues = views.iter().filter_map(|view| view.queues.as_ref().ok()).flatten();
    let mut contenders = queues.flat_map(|queue| &queue.survey.queue).collect::<Vec<_>>();
    // One by one, for a long queue is often that of a few sessions.
    contenders.sort_unstable_by_key(|one| one.zookeeper_session);
    contenders.dedup_by_key(|one| one.zookeeper_session);
    let alone = contenders.into_iter().filter(|one| Life::of(one, views) == Life::Alone);
    alone.map(|one| one.zookeeper_session).collect()
}

fn unanswered() -> String {
    "it did not answer in time".to_owned()
}

/// Asks for all connections again, and then who of those in the queues is still there. A server that does not tell in time
/// tells no connections.
async fn ask_again(
    name: &str,
    views: Vec<View>,
    sessions: &[Option<Session>],
    end: Instant,
) -> Vec<View> {
    let told = views.into_iter().map(|view| {
        tokio::spawn(async move {
            let told = timeout_at(end, connections(&view.place.at)).await;
            View { connections: told.unwrap_or_else(|_| Err(unanswered())), ..view }
        })
    });
    let views = all(told.collect()).await;
    let read = views.into_iter().zip(sessions).map(|(mut view, session)| {
        let (name, session) = (name.to_owned(), session.clone());
        tokio::spawn(async move {
            if let (Ok(queues), Some(session)) = (&mut view.queues, session)
                && !matches!(timeout_at(end, read_again(&session, &name, queues)).await, Ok(Ok(())))
            {
                view.connections = Err(unanswered());
            }
            view
        })
    });
    all(read.collect()).await
}

/// Leaves out who is in the queues no more.
async fn read_again(
    session: &Session,
    name: &str,
    queues: &mut [Queue],
) -> Result<(), zklock::LockError> {
    let sites = session.sites(name).await?;
    for queue in queues.iter_mut() {
        let is_its = |site: &&Site| {
            (site.path(), site.layout(), site.is_inner())
                == (&*queue.path, queue.layout.clone(), queue.inner)
        };
        let (known, unread) = (&queue.survey.queue, &mut queue.survey.unread);
        let head = if unread.is_empty() { usize::MAX } else { HEAD };
        queue.survey.queue = match sites.iter().find(is_its) {
            Some(site) => site.clone().head(head).contenders_reusing(known).await?,
            None => {
                unread.clear();
                Vec::new()
            }
        };
        unread.retain(|name| !queue.survey.queue.iter().any(|one| one.node == *name));
    }
    know_inside(queues);
    Ok(())
}

/// Asks a server. The session is to be closed.
async fn ask_one(
    name: &str,
    server: String,
    end: Instant,
    within: Duration,
) -> (View, Option<Session>) {
    // A little less, so that it is told in time why there is no session.
    let connecting = within.saturating_sub(2 * REST).max(REST);
    let reading = async {
        // The time that is given is the limit, not that of an acquire.
        let defaults = LockOptions::new().timeout(within).retries(1);
        let builder = Session::builder_from_env_for(&server)?.defaults(defaults);
        let builder = builder.connect_timeout(connecting);
        let session = builder.connect().await?;
        let own = session.zookeeper_session().map(|one| one.id);
        let queues = read(&session, name, end - within / FOR_CONNECTIONS).await;
        Ok((session, own, queues))
    };
    let late = || Err(Failure { code: UNREACHABLE, message: unanswered() });
    let reading = async { timeout_at(end, reading).await.unwrap_or_else(|_| late()) };
    let place = timeout_at(end - within / FOR_CONNECTIONS, Place::of(&server));
    let (read, place) = tokio::join!(reading, place);
    let place = place.unwrap_or_else(|_| Place::untold(&server, unanswered()));
    let (session, own, queues) = match read {
        Ok((session, own, queues)) => (Some(session), own, queues),
        Err(why) => (None, None, Err(why)),
    };
    // Afterwards, so that the server has just answered the own session: what is measured by.
    let connections = timeout_at(end, connections(&place.at)).await;
    let connections = connections.unwrap_or_else(|_| Err(unanswered()));
    (View { server, place, queues, connections, own, unsure: BTreeSet::new() }, session)
}

/// Asks the servers for their connections only, all at the same time.
pub(crate) async fn ask_connections(servers: &[String], own: Option<i64>) -> Vec<View> {
    let asked = servers.iter().map(|server| {
        let server = server.clone();
        tokio::spawn(async move {
            // Half of the patience, for the sake of who waits for a server that is frozen.
            let place = timeout(PATIENCE / 2, Place::of(&server)).await;
            let place = place.unwrap_or_else(|_| Place::untold(&server, unanswered()));
            let told = timeout(PATIENCE, connections(&place.at)).await;
            let connections = told.unwrap_or_else(|_| Err(unanswered()));
            let (queues, unsure) = (Ok(Vec::new()), BTreeSet::new());
            View { server, place, queues, connections, own, unsure }
        })
    });
    all(asked.collect()).await
}

/// Reads the head of each queue, and what is behind it if the time suffices.
async fn read(session: &Session, name: &str, end: Instant) -> Result<Vec<Queue>, Failure> {
    let mut queues = Vec::new();
    let sites = session.sites(name).await?;
    for site in &sites {
        let survey = site.clone().head(HEAD).survey().await?;
        let (path, layout, inner) = (site.path().to_owned(), site.layout(), site.is_inner());
        queues.push(Queue { path, layout, inner, inside: BTreeSet::new(), survey });
    }
    for (site, queue) in sites.iter().zip(&mut queues) {
        if queue.survey.unread.is_empty() {
            continue;
        }
        match timeout_at(end, site.survey()).await {
            Ok(Ok(survey)) => queue.survey = survey,
            Ok(Err(error)) if error.kind() != ErrorKind::Unavailable => return Err(error.into()),
            // What is known is told.
            _ => break,
        }
    }
    know_inside(&mut queues);
    Ok(queues)
}

/// Who waits in an inner lock is not counted a second time with the node of a permit.
fn know_inside(queues: &mut [Queue]) {
    let inner = queues.iter().filter(|queue| queue.inner).flat_map(|queue| &queue.survey.queue);
    let inside: BTreeSet<_> = inner.map(|one| one.zookeeper_session).collect();
    for queue in queues {
        if queue.inner {
            all_wait(&mut queue.survey.queue);
        } else {
            queue.inside.clone_from(&inside);
        }
    }
}

impl Queue {
    pub(crate) fn holders(&self) -> impl Iterator<Item = &ContenderInfo> {
        self.survey.queue.iter().filter(|one| one.holds && !self.inner)
    }

    /// Whether this is the node that the server shows and its leader does not know.
    pub(crate) fn is_phantom(&self, one: &ContenderInfo) -> bool {
        let name = self.survey.phantom.as_deref().and_then(|path| path.rsplit('/').next());
        name == Some(&*one.node)
    }

    /// How many nodes have left the directory, and in which time.
    pub(crate) fn left(&self) -> Option<(u32, Duration)> {
        let Survey { queue, unread, strangers, .. } = &self.survey;
        let present = queue.len() + unread.len() + strangers.len();
        let left = self.survey.next_number - i64::try_from(present).ok()?;
        Some((u32::try_from(left).ok()?, since(self.survey.created?)))
    }

    /// All of them wait in the inner lock of a semaphore.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = &ContenderInfo> {
        let mut known = self.inside.clone();
        let waiters = self.survey.queue.iter().filter(|one| !one.holds || self.inner);
        waiters.filter(move |one| is_waiter_of_its_own(one, &mut known))
    }
}
