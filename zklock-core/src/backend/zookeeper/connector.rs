//! Opening a session.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_io::Timer;
use futures_lite::future::or;
use zookeeper_client::Client;

use super::connect_string::{ConnectString, parse};
use super::coordinator::ZooKeeperCoordinator;
use super::error::request_error;
use super::options::ZooKeeperOptions;
use crate::backend::io_thread::is_io_thread;
use crate::coordinator::{Connector, Coordinator, Reply, RequestError};

/// How long to rest after the client gave up on all servers.
const PAUSE: Duration = Duration::from_millis(50);

/// Opens sessions on a ZooKeeper.
///
/// The future of [`connect`](Connector::connect) must be polled on an
/// [I/O thread](crate::backend::io_thread) or inside a tokio runtime, and the session lives there:
/// it dies with it.
#[derive(Clone, Debug)]
pub struct ZooKeeperConnector {
    options: Arc<ZooKeeperOptions>,
    servers: ConnectString,
}

impl ZooKeeperConnector {
    /// Returns a connector with these options. It does no I/O.
    ///
    /// # Errors
    ///
    /// [`RequestError::BadArguments`] as [`ZooKeeperOptions::validate`].
    pub fn new(options: ZooKeeperOptions) -> Result<Self, RequestError> {
        options.validate()?;
        let servers = parse(&options.connect)?;
        Ok(ZooKeeperConnector { options: Arc::new(options), servers })
    }

    /// Opens a session as [`Connector::connect`] does, with its type.
    ///
    /// # Errors
    ///
    /// As [`Connector::connect`], within the connect timeout.
    ///
    /// # Cancel safety
    ///
    /// A session that was opened by a dropped call is closed, or expires.
    pub fn open(
        &self,
    ) -> impl Future<Output = Result<ZooKeeperCoordinator, RequestError>> + Send + 'static {
        let (options, servers) = (self.options.clone(), self.servers.clone());
        async move {
            if !is_io_thread() && tokio::runtime::Handle::try_current().is_err() {
                let why = "a ZooKeeper session must be opened inside a tokio runtime";
                return Err(RequestError::Other(why.to_owned()));
            }
            let mut last = None;
            let opened = or(async { Some(attempts(&options, &servers, &mut last).await) }, async {
                Timer::after(options.connect_timeout).await;
                None
            })
            .await;
            match opened {
                Some(Ok(client)) => Ok(ZooKeeperCoordinator::new(client, &options.acl)),
                Some(Err(error)) => Err(error),
                None => Err(unreachable(&options, &servers, last)),
            }
        }
    }
}

impl Connector for ZooKeeperConnector {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        let opened = self.open();
        Box::pin(async move { Ok(Arc::new(opened.await?) as Arc<dyn Coordinator>) })
    }
}

/// Tries until a session is open or the answer is final.
async fn attempts(
    options: &ZooKeeperOptions,
    servers: &ConnectString,
    last: &mut Option<RequestError>,
) -> Result<Client, RequestError> {
    loop {
        let error = match attempt(options, servers).await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        if error.is_definite() {
            return Err(error);
        }
        *last = Some(error);
        Timer::after(PAUSE).await;
    }
}

async fn attempt(
    options: &ZooKeeperOptions,
    servers: &ConnectString,
) -> Result<Client, RequestError> {
    let mut connector = Client::connector().with_session_timeout(options.session_timeout);
    for auth in &options.auth {
        connector = connector.with_auth(&auth.scheme, &auth.credentials);
    }
    let client = dial(connector, options, &servers.to_client()).await.map_err(request_error)?;
    // The client takes any chroot; one that does not exist would show as a parent that cannot be
    // made.
    match client.check_stat("/").await.map_err(request_error)? {
        Some(_) => Ok(client),
        None => Err(RequestError::NoNode),
    }
}

#[cfg(feature = "tls")]
async fn dial(
    connector: zookeeper_client::Connector,
    options: &ZooKeeperOptions,
    cluster: &str,
) -> Result<Client, zookeeper_client::Error> {
    match &options.tls {
        Some(tls) => connector.with_tls(tls.clone()).secure_connect(cluster).await,
        None => connector.connect(cluster).await,
    }
}

#[cfg(not(feature = "tls"))]
async fn dial(
    connector: zookeeper_client::Connector,
    _options: &ZooKeeperOptions,
    cluster: &str,
) -> Result<Client, zookeeper_client::Error> {
    connector.connect(cluster).await
}

fn unreachable(
    options: &ZooKeeperOptions,
    servers: &ConnectString,
    last: Option<RequestError>,
) -> RequestError {
    let names = servers.servers.join(", ");
    let within = humantime::format_duration(options.connect_timeout);
    RequestError::Unreachable(match last {
        Some(last) => format!("{names} did not answer within {within} ({last})"),
        None => format!("{names} did not answer within {within}"),
    })
}
