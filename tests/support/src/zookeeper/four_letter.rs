//! What a server says about itself.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A session as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSession {
    /// The session's id.
    pub id: i64,
    /// The paths of its ephemeral nodes, sorted.
    pub ephemerals: Vec<String>,
}

/// How long to wait for an answer: with two cores and a test suite on them, seconds can pass.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Sends a four-letter word and returns the answer.
pub(super) fn ask(addr: SocketAddr, word: &str, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    _ = stream.shutdown(Shutdown::Both);
    Ok(answer)
}

/// Whether an answer did not come in time.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Reads what a server is from the answer to `srvr`; nothing while it does not serve.
pub(super) fn mode(srvr: &str) -> Option<&str> {
    srvr.lines().find_map(|line| line.strip_prefix("Mode: "))
}

/// Reads a number from the answer to `mntr`.
pub(super) fn metric(mntr: &str, name: &str) -> Option<u64> {
    mntr.lines().find_map(|line| {
        let (key, value) = line.split_once('\t')?;
        if key == name { value.parse::<f64>().ok().map(|value| value as u64) } else { None }
    })
}

/// Reads the sessions from the answer to `dump`.
///
/// ```text
/// Session Sets (2)/(1):
/// 1 expire at Thu Jan 01 00:00:06 UTC 1970:
///         0x100000000000000
/// ephemeral nodes dump:
/// Sessions with Ephemerals (1):
/// 0x100000000000000:
///         /a
/// Connections dump:
/// ```
pub(super) fn sessions(dump: &str) -> Vec<ServerSession> {
    let mut sessions: Vec<ServerSession> = Vec::new();
    let mut current = None;
    for line in dump.lines().take_while(|line| !line.starts_with("Connections dump")) {
        let word = line.trim().trim_end_matches(':');
        // A follower adds the timeout behind the id.
        let word = word.split_whitespace().next().unwrap_or_default();
        if let Some(id) = word.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok())
        {
            let id = id.cast_signed();
            let known = sessions.iter().position(|session| session.id == id);
            current = Some(known.unwrap_or_else(|| {
                sessions.push(ServerSession { id, ephemerals: Vec::new() });
                sessions.len() - 1
            }));
        } else if let Some(index) = current
            && line.trim().starts_with('/')
        {
            sessions[index].ephemerals.push(line.trim().to_owned());
        }
    }
    for session in &mut sessions {
        session.ephemerals.sort();
    }
    sessions
}
