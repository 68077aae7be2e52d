//! What a session is on: ZooKeeper's servers, the embedded coordinator, or a coordinator of the user's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::error::LockError;
use crate::base::error_kind::ErrorKind;
use crate::base::machine::Machine;
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::coordinator::connector::Connector;
use crate::coordinator::limits::check_session_timeout;
use crate::coordinator::memory::Embedded;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::zookeeper::{ZooKeeperConnector, ZooKeeperOptions};
use crate::session::local_queues::Place;
use crate::session::runtime::Host;

/// What a session is on.
#[derive(Clone, Debug)]
pub(super) enum Store {
    ZooKeeper(Box<ZooKeeperOptions>),
    Embedded(Embedded, Duration),
    /// A coordinator of the user's; in a simulation, with the machine that is simulated.
    Custom(Custom, Option<Arc<dyn Machine>>),
}

/// What connects to a coordinator of the user's. In a simulation, the builder decides these times.
#[derive(Clone)]
pub(super) struct Custom {
    /// Which one of this process: its address may be another's later.
    number: u64,
    connector: Arc<dyn Fn(Duration, Duration) -> Arc<dyn Connector> + Send + Sync>,
    pub(super) session_timeout: Duration,
    pub(super) connect_timeout: Duration,
}

impl Custom {
    /// What is made with a session timeout and the longest time of an attempt to connect.
    pub(super) fn new(
        connector: impl Fn(Duration, Duration) -> Arc<dyn Connector> + Send + Sync + 'static,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Custom {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            connector: Arc::new(connector),
            session_timeout: times::SESSION_TIMEOUT,
            connect_timeout: times::CONNECT_TIMEOUT,
        }
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

impl Store {
    /// The servers and the chroot, as they are written. Two stores that are written alike are the
    /// same.
    pub(super) fn place(&self) -> Place {
        match self {
            Store::ZooKeeper(options) => {
                let connect = &options.connect;
                let (servers, chroot) =
                    connect.split_at(connect.find('/').unwrap_or(connect.len()));
                Place { servers: servers.into(), chroot: chroot.trim_end_matches('/').into() }
            }
            Store::Embedded(store, _) => {
                Place { servers: store.address().into(), chroot: "".into() }
            }
            Store::Custom(custom, machine) => {
                let servers = match machine {
                    Some(machine) => format!("simulated {}", machine.place()),
                    None => format!("connector {}", custom.number),
                };
                let chroot = machine.as_ref().map_or("", |machine| machine.chroot());
                Place { servers: servers.into(), chroot: chroot.into() }
            }
        }
    }

    /// What opens its ZooKeeper sessions, and where they are served.
    pub(super) fn open(self, acl_is_chosen: bool) -> Result<(Arc<dyn Connector>, Host), LockError> {
        let invalid = |error: RequestError| match error {
            RequestError::BadArguments(why) => LockError::new(ErrorKind::InvalidOption, why),
            other => LockError::new(ErrorKind::InvalidOption, other.in_short()),
        };
        Ok(match self {
            Store::ZooKeeper(options) => {
                if !options.auth.is_empty() && !acl_is_chosen {
                    unharmed(|| {
                        tracing::warn!(
                            "this session has credentials and no ACL, so the nodes of its locks are \
                         open to everybody: use `.acl(Acl::CreatorAll)` or ZKLOCK_ACL=creator, or \
                         `.acl(Acl::Open)` if this is intended"
                        );
                    });
                }
                (Arc::new(ZooKeeperConnector::new(*options).map_err(invalid)?), Host::Thread)
            }
            Store::Embedded(store, timeout) => {
                let checked = check_session_timeout(timeout).map_err(RequestError::BadArguments);
                checked.map_err(invalid)?;
                (Arc::new(store.connector(timeout)), Host::Callers)
            }
            Store::Custom(Custom { connector, session_timeout, connect_timeout, .. }, machine) => {
                let checked = check_session_timeout(session_timeout);
                checked.map_err(RequestError::BadArguments).map_err(invalid)?;
                let connector = connector(session_timeout, connect_timeout);
                (connector, machine.map_or(Host::Thread, Host::Machine))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::handle::Session;

    #[test]
    fn a_place_is_the_servers_as_they_were_named_and_the_chroot() {
        let place = |connect: &str| Session::builder(connect).store.place();
        let (plain, below) = (place("zk1:2181,zk2:2181"), place("zk1:2181,zk2:2181/prod"));
        assert_eq!((&*plain.servers, &*plain.chroot), ("zk1:2181,zk2:2181", ""));
        assert_eq!((&*below.servers, &*below.chroot), ("zk1:2181,zk2:2181", "/prod"));
        assert_eq!(place("zk1:2181/"), place("zk1:2181"));
        let (one, other) = (Embedded::new(), Embedded::new());
        let place = |store: &Embedded| Session::embedded_builder(store).store.place();
        assert_eq!(place(&one), place(&one.clone()));
        assert_ne!(place(&one), place(&other));
    }

    /// The next one may have the address of one that is gone.
    #[test]
    fn each_connector_of_ones_own_is_another_place() {
        let connector = || Embedded::new().connector(Duration::from_secs(10));
        let places: Vec<_> =
            (0..100).map(|_| Session::builder_on(connector()).store.place()).collect();
        for (index, place) in places.iter().enumerate() {
            assert!(!places[..index].contains(place), "{place:?}");
        }
        let builder = Session::builder_on(connector());
        assert_eq!(builder.clone().store.place(), builder.store.place());
    }
}
