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

/// Servers, each with one name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Distinct {
    pub(super) names: Vec<String>,
    /// For each of them, whether the AdminServer that answers for it is another one's: on a machine with several
    /// servers, it belongs to one of them.
    pub(super) are_spoken_for: Vec<bool>,
}

/// Leaves out what is another name of a server before it.
pub(super) async fn distinct(servers: Vec<String>, within: Duration) -> Distinct {
    let asked = servers.iter().map(|server| {
        let server = server.clone();
        tokio::spawn(async move { timeout(within, Place::of(&server)).await.ok() })
    });
    let mut places = Vec::new();
    for asked in asked.collect::<Vec<_>>() {
        places.push(asked.await.ok().flatten());
    }
    Distinct::of(servers.into_iter().zip(places))
}

impl Distinct {
    /// A server of an ensemble tells its number by `conf`; that of an AdminServer, together with the port, is of one
    /// server.
    fn of(servers: impl IntoIterator<Item = (String, Option<Place>)>) -> Distinct {
        let servers: Vec<_> = servers.into_iter().collect();
        let tells = |(_, place): &(String, Option<Place>)| match place.as_ref()?.member.as_ref() {
            Ok(Member::Of { own, .. }) => Some(*own),
            _ => None,
        };
        // Those that tell it themselves, wherever they stand.
        let (mut known, mut spoken) =
            (BTreeSet::new(), servers.iter().filter_map(tells).collect::<BTreeSet<_>>());
        let mut distinct = Distinct::default();
        for (server, place) in servers {
            let (key, is_spoken_for) = match place {
                Some(Place { member: Ok(Member::Of { own, .. }), .. }) => {
                    (Some((own, None)), false)
                }
                Some(Place { member: Ok(Member::Among { own, .. }), at }) => {
                    let port = at.rsplit_once(':').map(|(_, port)| port.to_owned());
                    (Some((own, port)), !spoken.insert(own))
                }
                _ => (None, false),
            };
            if key.is_none_or(|key| known.insert(key)) {
                distinct.names.push(server);
                distinct.are_spoken_for.push(is_spoken_for);
            }
        }
        distinct
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn place(port: u16, member: Member) -> (String, Option<Place>) {
        (format!("zk:{port}"), Some(Place { at: format!("10.0.0.1:{port}"), member: Ok(member) }))
    }

    fn of(own: u64) -> Member {
        Member::Of { own, all: BTreeMap::new() }
    }

    fn among(own: u64) -> Member {
        Member::Among { own, votes: true, voters: 3, observers: 0 }
    }

    /// The second of three on a machine, in whichever order they are named.
    #[test]
    fn a_server_that_tells_nothing_is_spoken_for_by_the_admin_server_of_another() {
        for at in 0..3 {
            let mut servers = vec![place(1, of(1)), place(3, of(3))];
            servers.insert(at, place(2, among(1)));
            let distinct = Distinct::of(servers);
            let spoken_for: Vec<_> = (0..3).map(|index| index == at).collect();
            assert_eq!((distinct.names.len(), distinct.are_spoken_for), (3, spoken_for));
        }
    }

    #[test]
    fn names_of_one_server_are_told_by_its_number_or_by_that_and_its_port() {
        let twice = |member: Member| Distinct::of([place(1, member.clone()), place(1, member)]);
        let own = Distinct { names: vec!["zk:1".to_owned()], are_spoken_for: vec![false] };
        assert_eq!([twice(of(1)), twice(among(1))], [own, twice(of(1))]);
        let ports = Distinct::of([place(1, of(1)), place(2, of(1))]);
        assert_eq!(ports.names, ["zk:1"]);
        let untold = Distinct::of([("a".to_owned(), None), ("b".to_owned(), None)]);
        assert_eq!(untold.are_spoken_for, [false, false]);
    }
}
