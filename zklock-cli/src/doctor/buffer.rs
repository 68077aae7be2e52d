//! Whether the list of the longest queue fits into a packet.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zklock::{ErrorKind, LockError, Session};

use crate::doctor::Check;
use crate::doctor::limits::is_answered;
use crate::exit::Failure;
use crate::server::over_tls;
use crate::when::span;
use crate::words::host;

/// A packet of this size must be accepted: a heartbeat of two hundred locks with long names.
const PACKET: usize = 64 << 10;
/// So many locks are looked at at the same time.
const AT_ONCE: usize = 32;
/// How long it may take to list the queues of all locks.
const LISTING: Duration = Duration::from_secs(30);

/// A list of nodes, as a packet contains it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Listed {
    size: usize,
    /// The lock whose directory is listed.
    name: String,
    nodes: usize,
}

/// The longest list of a directory of this lock.
async fn listed(session: Session, name: String) -> Result<Listed, LockError> {
    let mut longest = Listed::default();
    let sites = match session.sites(&*name).await {
        // What may not be read, or is no lock, is not the longest that is known.
        Err(error) if matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::InvalidName) => {
            return Ok(longest);
        }
        sites => sites?,
    };
    for site in sites {
        let names = match site.children().await {
            Err(error) if error.kind() == ErrorKind::Unauthorized => continue,
            names => names?,
        };
        // Each name has its length in front.
        let size: usize = names.iter().map(|name| name.len() + 4).sum();
        if size > longest.size {
            longest = Listed { size, name: name.clone(), nodes: names.len() };
        }
    }
    Ok(longest)
}

/// The longest list of a directory of any lock.
async fn longest(session: &Session) -> Result<Listed, LockError> {
    let (mut longest, mut listing) = (Listed::default(), JoinSet::new());
    let names = session.lock_names(None).await;
    let names = names.map_err(|error| error.on("the list of locks"))?;
    let mut names = names.names.into_iter();
    loop {
        for name in names.by_ref().take(AT_ONCE - listing.len()) {
            listing.spawn(listed(session.clone(), name));
        }
        match listing.join_next().await {
            Some(Ok(listed)) => {
                let listed = listed?;
                if listed.size > longest.size {
                    longest = listed;
                }
            }
            // A task that panicked has told so itself.
            Some(Err(_)) => {}
            None => return Ok(longest),
        }
    }
}

/// Whether the list of the longest queue fits into a packet.
pub(super) async fn check(session: &Session, servers: &[String]) -> Result<Check, Failure> {
    if over_tls() {
        return Ok(Check::over_tls("buffer"));
    }
    let Ok(listed) = timeout(LISTING, longest(session)).await else {
        let says = format!(
            "not checked, because the locks in use were not listed within {}",
            span(LISTING)
        );
        return Ok(Check::unchecked("buffer", says));
    };
    let Listed { size, name, nodes } = listed?;
    for server in servers {
        for needed in [size, PACKET] {
            if needed == 0 || takes(host(server), needed).await {
                continue;
            }
            let says = if needed == size {
                format!(
                    "{server} accepts no packet of {needed} bytes, but so long is the list of the \
                     {nodes} nodes in the queue of {name}: clients with the same limit cannot read it"
                )
            } else {
                format!("{server} accepts no packet of {needed} bytes, which locks may send")
            };
            let helps = "-Djute.maxbuffer=1048575 or more, for the servers and for Java clients";
            return Ok(Check::wrong("buffer", says, helps));
        }
    }
    let most = size.max(PACKET);
    Ok(Check::well("buffer", format!("packets of {most} bytes are accepted")))
}

/// Whether a server accepts a packet of this size. This one asks for a session that does not exist, with
/// a long password, and so is answered and changes nothing. A server ends the connection when it has read
/// the length of a packet that is too long.
async fn takes(host: &str, size: usize) -> bool {
    let Ok(mut stream) = TcpStream::connect(host).await else { return true };
    let password = size.saturating_sub(29);
    let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let parts: [&[u8]; 8] = [
        &length(password + 29),
        &0_i32.to_be_bytes(),      // The version of the protocol.
        &0_i64.to_be_bytes(),      // The last transaction that was seen.
        &10_000_i32.to_be_bytes(), // The timeout, in milliseconds.
        &1_i64.to_be_bytes(),      // The session.
        &length(password),
        &vec![0; password],
        &[0], // Not for reading only.
    ];
    is_answered(&mut stream, &parts.concat()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklock::Embedded;

    #[tokio::test]
    async fn the_longest_list_is_that_of_all_nodes_of_one_directory() {
        let store = Embedded::new();
        let open = || Session::embedded_builder(&store).open().unwrap();
        let (session, other) = (open(), open());
        assert_eq!(longest(&session).await.unwrap(), Listed::default());
        let mut held = vec![session.mutex("short").unwrap().acquire().await.unwrap()];
        held.push(session.mutex("long").unwrap().acquire().await.unwrap());
        let next = other.mutex("long").unwrap();
        let waiting = tokio::spawn(async move { next.acquire().await });
        let site = session.site("long").unwrap();
        while site.children().await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        // More locks than are looked at at once.
        for number in 0..AT_ONCE {
            let more = session.mutex(format!("more/{number}")).unwrap();
            held.push(more.acquire().await.unwrap());
        }
        let names = site.children().await.unwrap();
        let size = names.iter().map(|name| name.len() + 4).sum::<usize>();
        let found = longest(&session).await.unwrap();
        assert_eq!(found, Listed { size, name: "long".to_owned(), nodes: 2 });
        waiting.abort();
        drop(held);
    }
}
