//! A ZooKeeper session as a [`Coordinator`].

use std::fmt::{self, Write as _};
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_io::Timer;
use futures_lite::future::or;
use zookeeper_client as zk;
use zookeeper_client::{Client, SessionState, StateWatcher};

use super::acl::{Acl, entry};
use super::error::{is_of_server, is_zombie, multi_error, request_error};
use super::sent::sent;
use super::watch::watch as watched;
use crate::base::times;
use crate::coordinator::access::AclEntry;
use crate::coordinator::client_task::ClientTask;
use crate::coordinator::limits::{check_multi, check_size};
use crate::coordinator::link::Link;
use crate::coordinator::node::{Created, NodeKind, Stat};
use crate::coordinator::operation::Operation;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};
use crate::coordinator::watch::Watch;
use crate::name::path::digits_of;

/// The length of a negative number that ZooKeeper appends.
const LONGEST_SEQUENCE: usize = 11;

/// The largest number that it appends with ten digits.
const LAST_SEQUENCE: u32 = i32::MAX as u32;

/// One ZooKeeper session. Dropping it closes the session.
pub struct ZooKeeperCoordinator {
    /// `None` once closed. Shared by all requests, because cloning the client is expensive.
    client: Mutex<Option<Arc<Client>>>,
    state: StateWatcher,
    task: Arc<ClientTask>,
    session_id: i64,
    session_timeout: Duration,
    acl: Arc<[zk::Acl]>,
    keeps_watches: bool,
}

impl fmt::Debug for ZooKeeperCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperCoordinator")
            .field("session", &format_args!("{:#x}", self.session_id))
            .field("session_timeout", &self.session_timeout)
            .field("link", &self.link())
            .finish_non_exhaustive()
    }
}

impl ZooKeeperCoordinator {
    pub(super) fn new(client: Client, task: Arc<ClientTask>, acl: &Acl) -> Self {
        ZooKeeperCoordinator {
            state: client.state_watcher(),
            task,
            session_id: client.session_id().0,
            session_timeout: client.session_timeout(),
            acl: acl.to_client().into(),
            keeps_watches: true,
            client: Mutex::new(Some(Arc::new(client))),
        }
    }

    /// Sets whether the session outlives a reconnect while it has watches.
    pub(super) fn keeping_watches(self, keeps_watches: bool) -> Self {
        ZooKeeperCoordinator { keeps_watches, ..self }
    }

    fn client(&self) -> Option<Arc<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request at once.
    fn send<T, F>(&self, ask: impl FnOnce(Arc<Client>) -> F + Send + 'static) -> Reply<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, zk::Error>> + Send + 'static,
    {
        let Some(client) = self.client() else {
            return Box::pin(ready(Err(RequestError::Closed)));
        };
        let (task, asked) = (self.task.clone(), self.task.now());
        sent(async move { answered(&task, asked, ask(client).await) })
    }
}

/// The result of a request.
fn answered<T>(
    task: &ClientTask,
    asked: u64,
    result: Result<T, zk::Error>,
) -> Result<T, RequestError> {
    if result.as_ref().err().is_none_or(is_of_server) {
        task.answered(asked);
    }
    result.map_err(|error| {
        bury(task, &error);
        request_error(error)
    })
}

/// Records that the client library has died without reporting it. It can no longer close its
/// session, which is therefore treated as expired, as it will be.
fn bury(task: &ClientTask, error: &zk::Error) {
    if is_zombie(error) {
        task.end(Link::Expired);
    }
}

fn link(over: Option<Link>, state: SessionState) -> Link {
    match (over, state) {
        (_, SessionState::Expired) => Link::Expired,
        (_, SessionState::AuthFailed) => Link::AuthFailed,
        (_, SessionState::Closed) => Link::Closed,
        (Some(over), _) => over,
        (None, SessionState::SyncConnected) => Link::Up,
        // A read-only server is of no use here, and the client does not ask for one.
        (None, SessionState::Disconnected | SessionState::ConnectedReadOnly) => Link::Down,
    }
}

fn stat(stat: &zk::Stat) -> Stat {
    // The server marks a container by an owner that no session can have.
    let ephemeral_owner = if stat.ephemeral_owner == i64::MIN { 0 } else { stat.ephemeral_owner };
    let zk::Stat { czxid, version, ctime, mtime, num_children, cversion, .. } = *stat;
    Stat { czxid, version, ephemeral_owner, num_children, cversion, ctime, mtime }
}

fn mode(kind: NodeKind) -> zk::CreateMode {
    match kind {
        NodeKind::Persistent => zk::CreateMode::Persistent,
        NodeKind::Ephemeral => zk::CreateMode::Ephemeral,
        NodeKind::EphemeralSequential => zk::CreateMode::EphemeralSequential,
        NodeKind::Container => zk::CreateMode::Container,
    }
}

fn write_all(
    client: &Client,
    acl: &[zk::Acl],
    operations: &[Operation],
) -> Result<
    impl Future<Output = Result<Vec<zk::MultiWriteResult>, zk::MultiWriteError>> + Send,
    zk::MultiWriteError,
> {
    let mut writer = client.new_multi_writer();
    for (index, operation) in operations.iter().enumerate() {
        match operation {
            // For the server, version -1 means any.
            Operation::Check { path } => writer.add_check_version(path, -1),
            Operation::CheckVersion { path, version } => writer.add_check_version(path, *version),
            Operation::Create { path, data, kind } => {
                writer.add_create(path, data, &mode(*kind).with_acls(zk::Acls::new(acl)))
            }
            Operation::Set { path, data } => writer.add_set_data(path, data, None),
            Operation::Replace { path, data, version } => {
                writer.add_set_data(path, data, Some(*version))
            }
            Operation::Delete { path } => writer.add_delete(path, None),
        }
        .map_err(|source| zk::MultiWriteError::OperationFailed { index, source })?;
    }
    Ok(writer.commit())
}

impl Coordinator for ZooKeeperCoordinator {
    fn session_id(&self) -> i64 {
        self.session_id
    }

    fn session_timeout(&self) -> Duration {
        self.session_timeout
    }

    fn keeps_watches(&self) -> bool {
        self.keeps_watches
    }

    fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Reply<Created> {
        if let Err(error) = check_size(path, data) {
            return Box::pin(ready(Err(error)));
        }
        let (data, acl) = (data.to_vec(), self.acl.clone());
        // With room for the number that ZooKeeper appends.
        let mut full = String::with_capacity(path.len() + LONGEST_SEQUENCE);
        full.push_str(path);
        self.send(move |client| async move {
            let options = mode(kind).with_acls(zk::Acls::new(&acl));
            let (created, sequence) = client.create(&full, &data, &options).await?;
            if kind == NodeKind::EphemeralSequential {
                match u32::try_from(sequence.into_i64()).ok().filter(|n| *n <= LAST_SEQUENCE) {
                    Some(number) => full.extend(digits_of(number).map(char::from)),
                    // Writing to a `String` cannot fail.
                    None => drop(write!(full, "{sequence}")),
                }
            }
            Ok(Created { path: full, stat: stat(&created) })
        })
    }

    /// The only request whose future borrows nothing.
    fn delete(&self, path: &str) -> Reply<()> {
        let Some(client) = self.client() else {
            return Box::pin(ready(Err(RequestError::Closed)));
        };
        let (task, asked) = (self.task.clone(), self.task.now());
        let deleted = client.delete(path, None);
        Box::pin(async move { answered(&task, asked, deleted.await) })
    }

    fn children(&self, path: &str) -> Reply<Vec<String>> {
        let path = path.to_owned();
        self.send(move |client| async move { client.list_children(&path).await })
    }

    fn children_watched(&self, path: &str) -> Reply<(Vec<String>, Watch)> {
        let (path, over) = (path.to_owned(), self.task.over().subscribe());
        self.send(move |client| async move {
            let (names, watcher) = client.list_and_watch_children(&path).await?;
            Ok((names, watched(watcher, over)))
        })
    }

    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        let path = path.to_owned();
        self.send(move |client| async move {
            let (data, found) = client.get_data(&path).await?;
            Ok((data, stat(&found)))
        })
    }

    fn get_watched(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let (path, over) = (path.to_owned(), self.task.over().subscribe());
        self.send(move |client| async move {
            let (data, found, watcher) = client.get_and_watch_data(&path).await?;
            Ok((data, stat(&found), watched(watcher, over)))
        })
    }

    fn acl(&self, path: &str) -> Reply<Option<Vec<AclEntry>>> {
        let path = path.to_owned();
        self.send(move |client| async move {
            let (acl, _) = client.get_acl(&path).await?;
            Ok(Some(acl.iter().map(entry).collect()))
        })
    }

    fn set(&self, path: &str, data: &[u8]) -> Reply<Stat> {
        if let Err(error) = check_size(path, data) {
            return Box::pin(ready(Err(error)));
        }
        let (path, data) = (path.to_owned(), data.to_vec());
        self.send(
            move |client| async move { Ok(stat(&client.set_data(&path, &data, None).await?)) },
        )
    }

    fn multi(&self, operations: Vec<Operation>) -> Reply<()> {
        if let Err(error) = check_multi(&operations) {
            return Box::pin(ready(Err(error)));
        }
        let Some(client) = self.client() else {
            return Box::pin(ready(Err(RequestError::Closed)));
        };
        let (acl, task) = (self.acl.clone(), self.task.clone());
        sent(async move {
            let results = match write_all(&client, &acl, &operations) {
                Ok(written) => written.await,
                Err(error) => Err(error),
            };
            results.map(drop).map_err(|error| {
                if let zk::MultiWriteError::RequestFailed { source } = &error {
                    bury(&task, source);
                }
                multi_error(error)
            })
        })
    }

    fn sync(&self, path: &str) -> Reply<()> {
        let path = path.to_owned();
        self.send(move |client| async move { client.sync(&path).await })
    }

    fn link(&self) -> Link {
        let over = *self.task.over().borrow();
        link(over, self.state.peek_state())
    }

    fn link_changed(&self, seen: Link) -> Pin<Box<dyn Future<Output = Link> + Send>> {
        let (mut state, mut over) = (self.state.clone(), self.task.over().subscribe());
        Box::pin(async move {
            loop {
                let now = link(*over.borrow_and_update(), state.state());
                if now != seen {
                    return now;
                }
                or(
                    async {
                        state.changed().await;
                    },
                    async {
                        if over.changed().await.is_err() {
                            std::future::pending::<()>().await;
                        }
                    },
                )
                .await;
            }
        })
    }

    fn link_lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut state = self.state.clone();
        // The present state is recorded now, so that every later one is a change.
        state.state();
        Box::pin(async move {
            state.changed().await;
        })
    }

    /// Waits at most one second for the server's reply. A session that is not connected at this
    /// time cannot be closed, and expires; so does one of which a caller keeps a reply for a session timeout.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        let gave_up = self.task.gave_up();
        self.task.end(Link::Closed);
        // The client library closes the session when nobody waits for a reply: its callers do so no longer
        // than this, but one may keep a reply without polling it.
        self.task.close_within(self.session_timeout);
        drop(client);
        if gave_up {
            return Box::pin(ready(()));
        }
        let mut state = self.state.clone();
        Box::pin(or(
            async move {
                while !state.state().is_terminated() {
                    state.changed().await;
                }
            },
            async {
                Timer::after(times::CLOSE).await;
            },
        ))
    }
}
