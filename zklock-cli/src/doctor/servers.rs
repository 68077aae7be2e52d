//! Whether enough servers serve.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;
use zklock::{ErrorKind, Session};

use crate::doctor::Check;
use crate::member::{Member, Place};
use crate::server::over_tls;
use crate::words::{SERVES_NOT, host, is_refusal, word};

/// Why a session is of no use that a server has opened.
const OTHERS: [ErrorKind; 3] =
    [ErrorKind::NoChroot, ErrorKind::Unauthorized, ErrorKind::InvalidOption];

enum Server {
    Serves,
    /// It answers, but does not say whether it serves.
    Answers,
    Fails(String),
}

/// Which servers serve, of those that are asked.
pub(super) struct Quorum {
    pub(super) check: Check,
    pub(super) serving: Vec<String>,
    /// Whether they are so few that no session can be expected.
    pub(super) are_too_few: bool,
}

/// More than half of the servers must serve. A server says only for itself that it does not.
pub(super) async fn quorum(servers: &[String], within: Duration) -> Quorum {
    let asked = servers.iter().map(|server| {
        let server = server.clone();
        tokio::spawn(async move {
            match over_tls() {
                true => open(&server, within).await,
                false => ask(host(&server), within).await,
            }
        })
    });
    let (mut serving, mut down, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    // How many say that they serve.
    let mut told = 0;
    for (server, asked) in servers.iter().zip(asked.collect::<Vec<_>>()) {
        let why = match asked.await {
            Ok(answer @ (Server::Serves | Server::Answers)) => {
                told += usize::from(matches!(answer, Server::Serves));
                serving.push(server.clone());
                continue;
            }
            Ok(Server::Fails(why)) => why,
            Err(error) => error.to_string(),
        };
        down.push(&**server);
        failed.push(format!("{server}: {why}"));
    }
    let (all, serve, why) = (servers.len(), serving.len(), failed.join("; "));
    let are_enough = serve * 2 > all;
    let verb = if told == serve { "serve" } else { "answer" };
    let helps = "start the servers that are down, until more than half of them run";
    let wrong = |says: String, helps: &str| Check::wrong("quorum", says, helps);
    let check = match serve {
        _ if told == all => Check::well("quorum", format!("{all} of {all} servers serve")),
        serve if serve == all => {
            let many = match told {
                0 => "none says whether it serves".to_owned(),
                1 => "1 of them says that it serves".to_owned(),
                _ => format!("{told} of them say that they serve"),
            };
            Check::unchecked("quorum", format!("{all} of {all} servers answer, and {many}"))
        }
        0 => wrong(format!("no server serves: there is no quorum ({why})"), helps),
        _ if are_enough => {
            let so = match told {
                0 => "and none says whether it serves",
                _ => "so there is a quorum, but not all do",
            };
            let says = format!("{serve} of {all} servers {verb}, {so} ({why})");
            wrong(says, &format!("start {}", down.join(" and ")))
        }
        _ => wrong(format!("only {serve} of {all} servers {verb} ({why})"), helps),
    };
    Quorum { check, serving, are_too_few: !are_enough }
}

/// Leaves out what is another name of a server before it, which would have two votes. A server of an ensemble
/// tells its number, by `conf` or its AdminServer.
pub(super) async fn distinct(servers: Vec<String>, within: Duration) -> Vec<String> {
    let asked = servers.iter().map(|server| {
        let server = server.clone();
        tokio::spawn(async move { timeout(within, Place::of(&server)).await.ok()?.member.ok() })
    });
    let asked: Vec<_> = asked.collect();
    let (mut known, mut distinct) = (BTreeSet::new(), Vec::new());
    for (server, asked) in servers.into_iter().zip(asked) {
        let is_known = match asked.await {
            Ok(Some(Member::Of { own, .. } | Member::Among { own, .. })) => !known.insert(own),
            _ => false,
        };
        if !is_known {
            distinct.push(server);
        }
    }
    distinct
}

/// Opens a session and closes it, which are transactions. Where it is opened, this server has applied its
/// transaction, and all that its leader had committed before.
pub(super) async fn opens(server: &str, within: Duration) -> bool {
    matches!(open(server, within).await, Server::Serves)
}

/// Only a server that serves opens a session.
async fn open(server: &str, within: Duration) -> Server {
    let opened = async {
        let session =
            Session::builder_from_env_for(server)?.connect_timeout(within).connect().await?;
        session.close().await;
        Ok::<_, zklock::LockError>(())
    };
    match opened.await {
        Ok(()) => Server::Serves,
        // That is another check.
        Err(error) if OTHERS.contains(&error.kind()) => Server::Serves,
        Err(error) => Server::Fails(format!("{error:#}")),
    }
}

async fn ask(host: &str, within: Duration) -> Server {
    match timeout(within, word(host, "srvr")).await {
        Err(_) => Server::Fails("it does not answer".to_owned()),
        // One that was cut off from the others may still let clients read.
        Ok(Ok(said)) if said.contains(SERVES_NOT) || said.contains("\nMode: read-only") => {
            Server::Fails("it runs, but has no quorum".to_owned())
        }
        Ok(Ok(said)) if said.contains("\nMode: ") => Server::Serves,
        Ok(Err(why)) if !is_refusal(&why) => Server::Fails(why),
        Ok(_) => Server::Answers,
    }
}
