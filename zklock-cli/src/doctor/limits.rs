//! How many connections the servers accept.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::doctor::Check;
use crate::server::over_tls;
use crate::words::{host, in_time, word};

/// So many connections from one machine are little: three processes that take many locks at once.
const CONNECTIONS: usize = 12;
/// So many more are tried when these are open.
const PROBES: usize = 3;
/// The setting of a server that accepts any number.
const NO_LIMIT: &str = "maxClientCnxns=0";
/// How long a server may take to answer. One that does not answer in time counts as if it had.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends something that every server answers, and returns whether it does. Otherwise it has ended the
/// connection.
pub(super) async fn is_answered(stream: &mut TcpStream, request: &[u8]) -> bool {
    let asking = async {
        // The end of a connection may show in either.
        stream.write_all(request).await.is_ok()
            && stream.read(&mut [0]).await.is_ok_and(|read| read > 0)
    };
    timeout(PATIENCE, asking).await.unwrap_or(true)
}

/// Opens connections as several processes of one machine would.
pub(super) async fn connections(servers: &[String], within: Duration) -> Check {
    if over_tls() {
        return Check::over_tls("connections");
    }
    let mut says = format!("no server has a limit ({NO_LIMIT})");
    for server in servers {
        // Asked before, because later there is no room for the question.
        let told = in_time(within, word(host(server), "conf")).await.unwrap_or_default();
        if limit(&told) == Some(NO_LIMIT) {
            continue;
        }
        if !accepts(server).await {
            // A server that begins to look for a leader ends all connections, however few they are: it is asked
            // again, when it answers.
            _ = in_time(within, word(host(server), "srvr")).await;
            if !accepts(server).await {
                return few(server, &told);
            }
        }
        says = format!("{CONNECTIONS} more from this machine are accepted");
    }
    Check::well("connections", says)
}

/// Opens a connection, if the server can be reached.
///
/// # Errors
///
/// If the server has ended it at once.
async fn open(server: &str) -> io::Result<Option<TcpStream>> {
    match TcpStream::connect(host(server)).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(error),
        opened => Ok(opened.ok()),
    }
}

/// Whether a server has ended this connection, on which it is asked nothing.
fn has_ended(stream: &TcpStream) -> bool {
    match stream.try_read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Whether a server accepts so many connections more, as far as it can be reached.
async fn accepts(server: &str) -> bool {
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let Ok(opened) = open(server).await else { return false };
        held.extend(opened);
    }
    // A server counts a connection some time after it accepted it, and before it answers. So the
    // first ones may be too many without being noticed.
    for probe in 0..PROBES {
        let Ok(opened) = open(server).await else { return false };
        let Some(mut stream) = opened else { continue };
        if !is_answered(&mut stream, b"srvr").await {
            return false;
        }
        // Connections that others have just closed still count for a moment. They may be why these are refused,
        // and count no more when the next probe is sent. After ten seconds, a server ends these in any case.
        if probe == 0 && held.iter().any(has_ended) {
            return false;
        }
    }
    true
}

/// The setting of a server's limit, of what it tells of its configuration.
fn limit(told: &str) -> Option<&str> {
    told.lines().find(|line| line.starts_with("maxClientCnxns="))
}

/// What a server tells of its configuration says the limit.
fn few(server: &str, told: &str) -> Check {
    let limit = limit(told).map(|limit| format!(" ({limit})")).unwrap_or_default();
    let says = format!(
        "{server} does not accept {CONNECTIONS} more connections from this machine{limit}; each process \
         needs up to 4"
    );
    Check::wrong("connections", says, "maxClientCnxns=60 in zoo.cfg of each server, or more")
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;

    use super::*;
    use crate::doctor::State;

    /// As long as no question of a test takes.
    const SOON: Duration = Duration::from_secs(60);

    /// A server that ends the first connections on which it is asked something else than its limit.
    async fn server(limit: &'static str, ends: usize) -> String {
        server_that(0, Some(limit), ends, usize::MAX).await
    }

    /// The same; it ends the very first connections before it is asked anything. It never answers without a limit,
    /// nor to the other question with this number.
    async fn server_that(
        refused: usize,
        limit: Option<&'static str>,
        ends: usize,
        silent: usize,
    ) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move {
            for _ in 0..refused {
                // As ZooKeeper does it.
                listener.accept().await.unwrap().0.set_zero_linger().unwrap();
            }
            while let Ok((mut client, _)) = listener.accept().await {
                let asked = asked.clone();
                tokio::spawn(async move {
                    let mut word = [0; 4];
                    client.read_exact(&mut word).await?;
                    let answer = match &word {
                        b"conf" => limit,
                        _ => match asked.fetch_add(1, Ordering::SeqCst) {
                            number if number == silent => None,
                            number if number < ends => Some(""),
                            _ => Some("Mode: follower\n"),
                        },
                    };
                    match answer {
                        Some(answer) => client.write_all(answer.as_bytes()).await,
                        None => pending().await,
                    }
                });
            }
        });
        addr.to_string()
    }

    #[tokio::test]
    async fn a_server_that_ends_its_connections_for_a_moment_does_not_accept_too_few() {
        for (ends, state) in [(0, State::Well), (1, State::Well), (usize::MAX, State::Wrong)] {
            let checked = connections(&[server("maxClientCnxns=60\n", ends).await], SOON).await;
            assert_eq!(checked.state, state, "{ends}: {}", checked.says);
        }
    }

    #[tokio::test]
    async fn a_server_that_never_answers_a_question_is_not_waited_for() {
        let short = Duration::from_secs(1);
        // The second one is whether it answers again, after it has ended its connections.
        for server in
            [server_that(0, None, 0, usize::MAX).await, server_that(0, Some(""), 1, 1).await]
        {
            let checked = timeout(SOON, connections(&[server], short)).await.unwrap();
            assert_eq!(checked.state, State::Well, "{}", checked.says);
        }
    }

    #[tokio::test]
    async fn connections_that_are_ended_at_once_are_not_accepted() {
        for (refused, accepted) in [(0, true), (1, false), (CONNECTIONS, false)] {
            let server = server_that(refused, Some(""), 0, usize::MAX).await;
            assert_eq!(accepts(&server).await, accepted, "{refused}");
        }
    }

    #[tokio::test]
    async fn what_was_tried_is_said() {
        for (limits, says) in [
            (&["maxClientCnxns=0\n"][..], "no server has a limit (maxClientCnxns=0)"),
            (
                &["maxClientCnxns=60\n", "maxClientCnxns=0\n"],
                "12 more from this machine are accepted",
            ),
        ] {
            let mut servers = Vec::new();
            for limit in limits {
                servers.push(server(limit, 0).await);
            }
            assert_eq!(connections(&servers, SOON).await.says, says);
        }
    }
}
