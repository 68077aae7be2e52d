//! Probing: finds out which servers answer before the client library is given their addresses.
//!
//! The library tries the servers in an order of its own, and waits for a frozen server as long as
//! for a slow one; with two dead servers in a list of three, this could use up the connect timeout.
//! It also does not report why a connection failed. So all servers are asked at once, with the one
//! four-letter command that every server answers by default; a server that does not allow it says
//! so, which is an answer, too.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use async_io::Timer;
use async_net::TcpStream;
use futures_lite::{AsyncReadExt, AsyncWriteExt};

/// The state of a server as seen from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
    /// It answers.
    Answers,
    /// It has not answered yet.
    Silent,
    /// It cannot be reached or does not serve requests, with the reason.
    Fails(String),
}

/// The reply of a server without quorum, which does not answer session requests at all.
const NOT_SERVING: &str = "not currently serving requests";

/// Probes all servers at once, for at most `patience`. Once a majority has answered, the others have a
/// quarter of that. Fewer answers do not hurry them: a session does not use those that were silent, and
/// would have too few left. If `plain` is false, the servers use TLS and are not sent anything: an open
/// connection counts as an answer.
pub(super) async fn probe(servers: &[String], plain: bool, patience: Duration) -> Vec<ProbeResult> {
    let mut asked: Vec<_> = servers.iter().map(|server| Box::pin(ask(server, plain))).collect();
    let mut seen: Vec<Option<ProbeResult>> = vec![None; servers.len()];
    let (start, mut over) = (Instant::now(), Timer::after(patience));
    let mut answers = 0;
    poll_fn(|cx| {
        for (asked, seen) in asked.iter_mut().zip(&mut seen) {
            if seen.is_none()
                && let Poll::Ready(result) = asked.as_mut().poll(cx)
            {
                answers += usize::from(result == ProbeResult::Answers);
                if result == ProbeResult::Answers && answers == servers.len() / 2 + 1 {
                    over.set_after(rest(patience, start.elapsed()));
                }
                *seen = Some(result);
            }
        }
        let all = seen.iter().all(Option::is_some);
        if all || Pin::new(&mut over).poll(cx).is_ready() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    seen.into_iter().map(|result| result.unwrap_or(ProbeResult::Silent)).collect()
}

/// How much longer to wait for the others once a majority has answered.
fn rest(patience: Duration, waited: Duration) -> Duration {
    patience.saturating_sub(waited).min(patience / 4)
}

async fn ask(server: &str, plain: bool) -> ProbeResult {
    let mut stream = match TcpStream::connect(server).await {
        Ok(stream) => stream,
        Err(error) => return ProbeResult::Fails(error.to_string()),
    };
    if !plain || stream.write_all(b"srvr").await.is_err() {
        return ProbeResult::Answers;
    }
    let mut answer = [0; 256];
    let length = stream.read(&mut answer).await.unwrap_or_default();
    if String::from_utf8_lossy(&answer[..length]).contains(NOT_SERVING) {
        return ProbeResult::Fails("it serves no requests at the moment".to_owned());
    }
    // Also one that closes without a reply: a proxy may not know the command, and the client
    // library may still succeed.
    ProbeResult::Answers
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);
    const VERSION: &str = "Zookeeper version: 3.8.0\n";

    /// Answers the first who speaks.
    fn server(answer: &'static str) -> String {
        slow_server(answer, Duration::ZERO)
    }

    /// The same, after a time.
    fn slow_server(answer: &'static str, after: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut word = [0; 4];
            stream.read_exact(&mut word).unwrap();
            assert_eq!(&word, b"srvr");
            thread::sleep(after);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        addr
    }

    #[tokio::test]
    async fn a_silent_server_does_not_hold_up_the_others() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = [
            silent.local_addr().unwrap().to_string(),
            "127.0.0.1:1".to_owned(),
            server(VERSION),
            server("srvr is not executed because it is not in the whitelist.\n"),
            server("This ZooKeeper instance is not currently serving requests\n"),
            server(""),
            server(VERSION),
        ];
        let start = Instant::now();
        let results = probe(&servers, true, PATIENCE).await;
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        assert_eq!(results[0], ProbeResult::Silent);
        assert!(
            matches!(&results[1], ProbeResult::Fails(why) if why.contains("refused")),
            "{results:?}"
        );
        assert_eq!(results[2..4], [ProbeResult::Answers, ProbeResult::Answers]);
        assert!(
            matches!(&results[4], ProbeResult::Fails(why) if why.contains("serve")),
            "{results:?}"
        );
        assert_eq!(results[5..], [ProbeResult::Answers, ProbeResult::Answers]);
    }

    /// Whoever is not heard now is left out while the ZooKeeper session lives, even if the others fail.
    #[tokio::test]
    async fn one_fast_answer_does_not_hurry_the_others() {
        let patience = Duration::from_secs(8);
        let slow = || slow_server(VERSION, patience * 3 / 8);
        let results = probe(&[server(VERSION), slow(), slow()], true, patience).await;
        assert_eq!(results, [const { ProbeResult::Answers }; 3]);
    }

    #[test]
    fn late_answers_do_not_prolong_the_search() {
        let rest = |waited| rest(Duration::from_secs(8), Duration::from_secs(waited));
        assert_eq!([0, 6, 7, 8, 9].map(rest), [2, 2, 1, 0, 0].map(Duration::from_secs));
    }

    #[tokio::test]
    async fn a_server_that_speaks_tls_is_not_spoken_to() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = [silent.local_addr().unwrap().to_string()];
        assert_eq!(probe(&servers, false, PATIENCE).await, [ProbeResult::Answers]);
        let (mut stream, _) = silent.accept().unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}
