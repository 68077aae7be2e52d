//! Opening a ZooKeeper session.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_io::Timer;
use futures_lite::future::or;
use zookeeper_client::{Client, SessionState};

use super::connect_string::{ConnectString, parse};
use super::coordinator::ZooKeeperCoordinator;
use super::error::request_error;
use super::options::ZooKeeperOptions;
use super::probe::{ProbeResult, probe};
use crate::base::on_drop::OnDrop;
use crate::base::times;
use crate::base::unharmed::unharmed;
use crate::coordinator::client_task::ClientTask;
use crate::coordinator::connector::Connector;
use crate::coordinator::io_thread::is_io_thread;
use crate::coordinator::request_error::RequestError;
use crate::coordinator::requests::{Coordinator, Reply};

/// Opens sessions on a ZooKeeper.
///
/// The future of [`connect`](Connector::connect) must be polled on an
/// [I/O thread](crate::coordinator::io_thread) or inside a tokio runtime. The session lives there,
/// and ends with it.
#[derive(Clone, Debug)]
pub struct ZooKeeperConnector {
    options: Arc<ZooKeeperOptions>,
    servers: ConnectString,
    attempts: Attempts,
}

/// A session that was opened, and the client library's task that serves it.
type Opened = (Client, Arc<ClientTask>);

/// The number of calls that have chosen servers, and may have been given a session.
type Attempts = Arc<AtomicUsize>;

impl ZooKeeperConnector {
    /// Returns a connector with these options. It does no I/O.
    ///
    /// # Errors
    ///
    /// [`RequestError::BadArguments`] as for [`ZooKeeperOptions::validate`].
    pub fn new(options: ZooKeeperOptions) -> Result<Self, RequestError> {
        options.validate()?;
        let servers = parse(&options.connect)?;
        let attempts = Attempts::default();
        Ok(ZooKeeperConnector { options: Arc::new(options), servers, attempts })
    }

    /// Opens a session like [`Connector::connect`], and returns its concrete type.
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
        let attempts = self.attempts.clone();
        async move {
            if !is_io_thread() && tokio::runtime::Handle::try_current().is_err() {
                let why = "a ZooKeeper session must be opened inside a tokio runtime";
                return Err(RequestError::Other(why.to_owned()));
            }
            let results = vec![ProbeResult::Silent; servers.servers.len()];
            let (options, servers, attempts) = (&*options, &servers, &attempts);
            let (last, refused) = (None, None);
            let mut search = Search { options, servers, attempts, results, last, refused };
            match within(options.connect_timeout, search.run()).await {
                Some(Ok(((client, task), keeps_watches))) => {
                    let session = ZooKeeperCoordinator::new(client, task, &options.acl);
                    Ok(session.keeping_watches(keeps_watches))
                }
                Some(Err(error)) => Err(error),
                None => Err(search.refused.take().unwrap_or_else(|| search.in_vain())),
            }
        }
    }
}

impl Connector for ZooKeeperConnector {
    fn connect(&self) -> Reply<Arc<dyn Coordinator>> {
        let opened = self.open();
        Box::pin(async move { Ok(Arc::new(opened.await?) as Arc<dyn Coordinator>) })
    }

    fn is_opening(&self) -> bool {
        self.attempts.load(Ordering::Acquire) > 0
    }
}

/// The search for a server that opens a session.
struct Search<'a> {
    options: &'a ZooKeeperOptions,
    servers: &'a ConnectString,
    attempts: &'a Attempts,
    /// The result of probing each server.
    results: Vec<ProbeResult>,
    /// Why the last server that answered opened no session.
    last: Option<RequestError>,
    /// Why a session was refused that is being closed.
    refused: Option<RequestError>,
}

impl Search<'_> {
    /// Tries until a session is open or the error is final. Returns also whether it keeps its watches.
    async fn run(&mut self) -> Result<(Opened, bool), RequestError> {
        let start = Instant::now();
        let look = (self.options.connect_timeout / 4).min(times::PROBE);
        let mut pause = times::CONNECT.0;
        loop {
            self.results = probe(&self.servers.servers, self.options.is_plain(), look).await;
            let mut candidates = candidates(&self.servers.servers, &self.results);
            if !candidates.is_empty() {
                let rest = self.options.connect_timeout.saturating_sub(start.elapsed());
                // A server that answers and then opens no session must not use up all the time.
                let share = if self.servers.servers.len() == 1 { rest } else { rest / 2 };
                // It may have been given a session.
                let attempts = self.attempts;
                attempts.fetch_add(1, Ordering::AcqRel);
                let _opening = OnDrop::new(|| {
                    attempts.fetch_sub(1, Ordering::AcqRel);
                });
                let refused = &mut self.refused;
                let first = attempt(self.options, self.servers, &candidates, refused);
                let mut opened = within(share, first).await;
                if matches!(opened, Some(Err(RequestError::AuthFailed))) && candidates.len() > 1 {
                    // The library has asked one of them. Another one may know a new password already, or a former one
                    // still; and who reconnects to one that does not loses its session.
                    candidates = self.letting_in(&candidates, share).await;
                    if !candidates.is_empty() {
                        let refused = &mut self.refused;
                        let next = attempt(self.options, self.servers, &candidates, refused);
                        opened = within(share, next).await;
                    }
                }
                match opened {
                    Some(Ok(opened)) => {
                        if let Some(servers) = left_out(&self.servers.servers, &candidates) {
                            let what = "some servers did not answer, or refused the credentials, and this \
                                        ZooKeeper session does not use them";
                            unharmed(|| tracing::warn!(servers, "{what}"));
                        }
                        let keeps = keeps_watches(self.options, self.servers, &candidates, look);
                        return Ok((opened, keeps.await));
                    }
                    Some(Err(error)) if error.is_definite() => return Err(error),
                    // If the server ended the connection, or TLS failed, the client library reports
                    // no more than this.
                    Some(Err(error)) if error == no_hosts() => self.last = None,
                    Some(Err(error)) => self.last = Some(error),
                    None => {
                        if let Some(refused) = self.refused.take() {
                            return Err(refused);
                        }
                    }
                }
            }
            Timer::after(pause).await;
            pause = (pause * 2).min(times::CONNECT.1);
        }
    }

    /// Those of several servers that do not refuse the credentials, if one of them opens a session.
    async fn letting_in<'s>(&self, candidates: &[&'s str], limit: Duration) -> Vec<&'s str> {
        let share = limit / u32::try_from(candidates.len()).unwrap_or(u32::MAX);
        let (mut others, mut some_open) = (Vec::new(), false);
        for server in candidates {
            match within(share, granted(self.options, self.servers, &[server])).await {
                Some(Ok(opened)) => {
                    close(opened, self.options).await;
                    some_open = true;
                }
                Some(Err(RequestError::AuthFailed)) => continue,
                Some(Err(_)) | None => {}
            }
            others.push(*server);
        }
        if some_open { others } else { Vec::new() }
    }

    fn in_vain(self) -> RequestError {
        let within = humantime::format_duration(self.options.connect_timeout);
        let told =
            self.servers.servers.iter().zip(self.results).map(|(server, result)| match result {
                ProbeResult::Fails(why) => format!("{server}: {why}"),
                ProbeResult::Silent => format!("{server} did not answer"),
                ProbeResult::Answers => match &self.last {
                    Some(last) => format!("{server}: {last}"),
                    None => format!("{server} answers, but opens no session"),
                },
            });
        let told = told.collect::<Vec<_>>().join(", ");
        RequestError::Unreachable(format!("no session within {within} ({told})"))
    }
}

/// The error of the client library when none of its servers opened a session.
fn no_hosts() -> RequestError {
    request_error(zookeeper_client::Error::NoHosts)
}

/// The servers for the client library: those that answered, and those that refused the connection,
/// which cost nothing and may come back. Silent servers are left out if one has answered, for as
/// long as this ZooKeeper session lives, because the library would wait for them; the log names them. If
/// none answers, the library may still succeed with those that are silent, and then goes on with all.
fn candidates<'a>(servers: &'a [String], results: &[ProbeResult]) -> Vec<&'a str> {
    let [some_answer, some_are_silent] =
        [ProbeResult::Answers, ProbeResult::Silent].map(|one| results.contains(&one));
    let wanted = |result: &ProbeResult| match some_answer {
        true => *result != ProbeResult::Silent,
        false => some_are_silent,
    };
    let all = servers.iter().map(String::as_str).zip(results);
    all.filter(|(_, result)| wanted(result)).map(|(server, _)| server).collect()
}

/// The servers that are no candidates, if there are any.
fn left_out(servers: &[String], candidates: &[&str]) -> Option<String> {
    let others = servers.iter().map(String::as_str).filter(|server| !candidates.contains(server));
    let others: Vec<_> = others.collect();
    (!others.is_empty()).then(|| others.join(", "))
}

async fn attempt(
    options: &ZooKeeperOptions,
    servers: &ConnectString,
    candidates: &[&str],
    refused: &mut Option<RequestError>,
) -> Result<Opened, RequestError> {
    let opened = granted(options, servers, candidates).await?;
    // The client library accepts any chroot; a missing one would appear later, as a parent that
    // cannot be created.
    let why = match shows_root(&opened.0).await.map_err(request_error) {
        Ok(true) => return Ok(opened),
        Ok(false) => RequestError::NoNode,
        Err(error) => error,
    };
    // It is told also where there is no time for the rest.
    *refused = why.is_definite().then(|| why.clone());
    close(opened, options).await;
    Err(why)
}

/// Whether a session keeps its watches when it connects again. After that, the client library (0.11.2) sends
/// them before SASL has come to its end, and any other credentials after that. A server that lets nobody in without them
/// refuses the watches, and ends the session. So another one is opened without credentials. One that does not come about in
/// time may be refused.
async fn keeps_watches(
    options: &ZooKeeperOptions,
    servers: &ConnectString,
    candidates: &[&str],
    look: Duration,
) -> bool {
    let Some(anonymous) = options.without_sasl() else { return true };
    let asking = async {
        let opened = granted(&anonymous, servers, candidates).await.ok()?;
        close(opened, &anonymous).await;
        Some(())
    };
    let keeps = within(look, asking).await.flatten().is_some();
    if !keeps {
        let what = "the servers did not let a connection without SASL in: this ZooKeeper session sets no watches";
        unharmed(|| tracing::info!("{what}"));
    }
    keeps
}

/// Closes a session that is not used. Whoever closes the lane meanwhile waits for that, because nobody else knows
/// of the session.
async fn close((client, task): Opened, options: &ZooKeeperOptions) {
    ZooKeeperCoordinator::new(client, task, &options.acl).close().await;
}

/// How often a session is opened until one has the timeout that it asks for. Servers of different settings may
/// grant different ones.
const DIALS: u32 = 3;

/// Opens a session that asks for the timeout which the server grants.
///
/// When to ping and when to leave a silent connection, the client library is told before it knows what the
/// server grants. With the times of another timeout, the session could be silent for longer than the
/// [margin](times::SILENCE) of its leases allows for, or leave a busy server too soon: so it is closed, and
/// another one asks for what was granted.
async fn granted(
    options: &ZooKeeperOptions,
    servers: &ConnectString,
    candidates: &[&str],
) -> Result<Opened, RequestError> {
    let several = candidates.len() > 1;
    let mut timeout = options.session_timeout;
    for _ in 0..DIALS {
        let leave = times::leave(timeout, several);
        let mut connector =
            Client::connector().with_session_timeout(timeout).with_connection_timeout(leave);
        for auth in &options.auth {
            connector = connector.with_auth(&auth.scheme, &auth.credentials);
        }
        let times = if several { 1 } else { repetitions(timeout) };
        if several {
            // When all have failed, the servers are probed again.
            connector = connector.with_fail_eagerly();
        }
        let cluster = servers.to_client(candidates, times);
        // Where each attempt fails at once, the library would not end after its own time: so this one is
        // looked at first, and is shorter.
        let dialled = ClientTask::of(Box::pin(dial(connector, options, &cluster)));
        let (client, task) = match before(times::dial(timeout), dialled).await {
            Some((client, task)) => (client.map_err(request_error)?, task),
            None => return Err(request_error(zookeeper_client::Error::Timeout)),
        };
        let state = client.state_watcher();
        let is_connected = move || state.peek_state() == SessionState::SyncConnected;
        task.serves(client.session_timeout(), leave, is_connected);
        // The protocol counts milliseconds.
        if client.session_timeout().as_millis() == timeout.as_millis() {
            return Ok((client, task));
        }
        timeout = client.session_timeout();
        close((client, task), options).await;
    }
    Err(RequestError::Unreachable("each server grants another session timeout".to_owned()))
}

/// Asks for the root, again and again: if the answer is lost on a connection that lives on, nothing else
/// ends the attempt before the connect timeout.
async fn shows_root(client: &Client) -> Result<bool, zookeeper_client::Error> {
    let mut pause = times::reply(client.session_timeout());
    loop {
        if let Some(answer) = within(pause, client.check_stat("/")).await {
            return Ok(answer?.is_some());
        }
        pause *= 2;
    }
}

/// How often a single server is repeated in the list for the client library.
///
/// After a disconnect, the library goes through its list at once. Then it pauses before it begins
/// again, each time twice as long; with one server in the list it would come back from an outage of
/// seven seconds after thirteen. But within the list it pauses only for 50 ms times the position,
/// so a list of `n` lasts for 25·n² ms. This list lasts for a session timeout, and its longest
/// pause is a second or two.
///
/// Several servers are listed once each. The library shuffles its list: if it contained a frozen
/// server several times, the library could wait for it several times before it tries another.
fn repetitions(session_timeout: Duration) -> usize {
    let steps = usize::try_from(session_timeout.as_millis() / 25).unwrap_or(usize::MAX);
    (steps.isqrt() + 2).min(50)
}

/// Waits for `work`, at most this long.
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    or(async { Some(work.await) }, async {
        Timer::after(limit).await;
        None
    })
    .await
}

/// The same, but does not begin with it any more when the time is over.
async fn before<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let over = async {
        Timer::after(limit).await;
        None
    };
    or(over, async { Some(work.await) }).await
}

/// Opens a session with TLS and SASL, if they are configured.
async fn dial(
    connector: zookeeper_client::Connector,
    options: &ZooKeeperOptions,
    cluster: &str,
) -> Result<Client, zookeeper_client::Error> {
    #[cfg(feature = "sasl")]
    let connector = match options.sasl.clone() {
        Some(sasl) => {
            connector.with_sasl(zookeeper_client::SaslOptions::digest_md5(sasl.user, sasl.password))
        }
        None => connector,
    };
    #[cfg(feature = "tls")]
    if let Some(tls) = &options.tls {
        return connector.with_tls(tls.options()).secure_connect(cluster).await;
    }
    let _ = options;
    connector.connect(cluster).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_is_left_out_unless_nobody_answers() {
        let servers = ["a:1", "b:2", "c:3"].map(str::to_owned);
        let (answers, silent) = (ProbeResult::Answers, ProbeResult::Silent);
        let fails = ProbeResult::Fails("refused".to_owned());
        for (results, expected) in [
            ([&answers, &answers, &answers], vec!["a:1", "b:2", "c:3"]),
            ([&answers, &silent, &fails], vec!["a:1", "c:3"]),
            ([&fails, &silent, &fails], vec!["a:1", "b:2", "c:3"]),
            ([&fails, &fails, &fails], vec![]),
        ] {
            assert_eq!(candidates(&servers, &results.map(Clone::clone)), expected);
            let others = left_out(&servers, &expected).unwrap_or_default();
            assert!(servers.iter().all(|one| others.contains(one) != expected.contains(&&**one)));
        }
    }

    #[tokio::test]
    async fn who_may_take_as_long_as_it_likes_to_connect_is_bounded_by_nothing() {
        let mut options = ZooKeeperOptions::new("127.0.0.1:1");
        options.connect_timeout = Duration::MAX;
        let opening = ZooKeeperConnector::new(options).unwrap().open();
        assert!(within(Duration::from_millis(200), opening).await.is_none());
    }

    #[test]
    fn a_list_of_one_server_lasts_for_a_session_timeout() {
        for seconds in [1, 4, 10, 30, 60] {
            let n = u64::try_from(repetitions(Duration::from_secs(seconds))).unwrap();
            let lasts = Duration::from_millis(1_000 + 25 * n * (n - 1));
            assert!(lasts >= Duration::from_secs(seconds), "{seconds} s: {lasts:?}");
        }
    }
}
