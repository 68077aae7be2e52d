//! Which server of its ensemble one is, and which others there are.
//!
//! A session may be connected to each of them: that nobody has its connection is known only if all were asked. `conf` tells
//! all members, observers too. An AdminServer tells only how many there are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::text::printable;
use crate::words::{admin, host, is_refusal, of_line, whole, word, word_from};

/// A server, as it tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// It belongs to no ensemble.
    Alone,
    /// It has this number, in an ensemble of these: their numbers and hosts.
    Of { own: u64, all: BTreeMap<u64, String> },
    /// It has this number, in an ensemble of so many that vote. So many observers follow it.
    Among { own: u64, votes: bool, voters: usize, observers: usize },
}

/// Where a server is, and who it is, or why it does not tell.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its address: the name in the connect string may be that of several servers.
    pub(crate) at: String,
    pub(crate) member: Result<Member, String>,
}

/// Why it is not known that all servers of the ensemble were asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// One of those that were asked does not tell.
    Untold(String),
    /// There are others, and what to do.
    Unasked(String),
}

impl Place {
    /// Of a server that did not tell.
    pub(crate) fn untold(server: &str, why: String) -> Self {
        Place { at: host(server).to_owned(), member: Err(why) }
    }

    /// Asks a server which one it is.
    pub(crate) async fn of(server: &str) -> Self {
        let (at, said) = word_from(host(server), "conf").await;
        let member = match said {
            Ok(said) => of_conf(&said).ok_or_else(|| untold(&said)),
            Err(why) => otherwise(&at, why).await,
        };
        Place { at, member }
    }

    #[cfg(test)]
    pub(crate) fn alone() -> Self {
        Place { at: String::new(), member: Ok(Member::Alone) }
    }
}

fn untold(said: &str) -> String {
    let said = said.trim().lines().next().unwrap_or_default();
    format!("it does not tell which server of its ensemble it is; it says `{said}`")
}

/// Asks a server that does not answer `conf`.
async fn otherwise(at: &str, why: String) -> Result<Member, String> {
    // A server as it is shipped allows this one.
    if is_refusal(&why)
        && word(at, "srvr").await.is_ok_and(|said| said.contains("\nMode: standalone"))
    {
        return Ok(Member::Alone);
    }
    let told = async {
        let (conf, monitor) = (admin(at, "configuration").await?, admin(at, "monitor").await?);
        of_admin(&conf, &monitor).ok_or_else(|| "its AdminServer does not tell it".to_owned())
    };
    told.await.map_err(|neither| format!("{why}, and {neither}"))
}

/// Reads lines such as `serverId=1`, and `server.3=zk3:2888:3888:observer;0.0.0.0:2181` of each member.
fn of_conf(said: &str) -> Option<Member> {
    let value = |name: &str| of_line(said, name);
    let own: u64 = value("serverId")?.trim().parse().ok()?;
    if value("quorumPort").is_none() {
        return Some(Member::Alone);
    }
    let member = |line: &str| {
        let (number, told) = line.strip_prefix("server.")?.split_once('=')?;
        // An address of the sixth version has colons of its own.
        let host = match told.find(']') {
            Some(end) if told.starts_with('[') => &told[..=end],
            _ => told.split(':').next().unwrap_or_default(),
        };
        Some((number.trim().parse::<u64>().ok()?, printable(host)))
    };
    let all: BTreeMap<u64, String> = said.lines().filter_map(member).collect();
    all.contains_key(&own).then_some(Member::Of { own, all })
}

fn of_admin(conf: &Value, monitor: &Value) -> Option<Member> {
    let role = monitor["server_state"].as_str()?;
    if role == "standalone" {
        return Some(Member::Alone);
    }
    Some(Member::Among {
        own: conf["server_id"].as_u64()?,
        votes: role != "observer",
        voters: whole(&monitor["quorum_size"].to_string())?,
        // Those that do not vote follow the leader, or one that tells how many follow it.
        observers: whole(&monitor["synced_observers"].to_string()).unwrap_or(0),
    })
}

/// Returns why it is not known that these are all servers of their ensemble; `None` if they are. Two names of one server are
/// one server.
pub(crate) fn gap<'a>(
    asked: impl IntoIterator<Item = (&'a str, &'a Result<Member, String>)>,
) -> Option<Gap> {
    let (mut names, mut untold) = (Vec::<&str>::new(), None);
    let (mut numbers, mut all) = (BTreeSet::<u64>::new(), BTreeMap::<u64, &str>::new());
    let [mut votes, mut voters, mut others, mut observers] = [0_usize; 4];
    for (server, member) in asked {
        let name = host(server);
        if !names.contains(&name) {
            names.push(name);
        }
        match member {
            Ok(Member::Alone) => {}
            Ok(Member::Of { own, all: told }) => {
                numbers.insert(*own);
                all.extend(told.iter().map(|(number, host)| (*number, &**host)));
            }
            Ok(Member::Among { own, votes: is_voter, voters: most, observers: follow }) => {
                if numbers.insert(*own) {
                    *(if *is_voter { &mut votes } else { &mut others }) += 1;
                    observers += follow;
                }
                voters = voters.max(*most);
            }
            Err(why) => {
                untold.get_or_insert_with(|| format!("{server}: {why}"));
            }
        }
    }
    let missing = all.iter().filter(|(number, _)| !numbers.contains(*number));
    let missing: Vec<_> =
        missing.map(|(number, host)| format!("server.{number} ({host})")).collect();
    let is_told = !all.is_empty() || voters > 0;
    let is_complete = match all.is_empty() {
        true => votes >= voters && others >= observers,
        false => missing.is_empty(),
    };
    if is_complete && (is_told || untold.is_none()) {
        return None;
    }
    if let Some(why) = untold {
        return Some(Gap::Untold(why));
    }
    let which = match &*missing {
        [] => format!("one of the {} servers of the ensemble", voters + observers),
        [one] => format!("the other server of the ensemble, {one}"),
        several => {
            format!("one of the other servers of the ensemble, {}", several.join(" and "))
        }
    };
    let were = if names.len() == 1 { "was" } else { "were" };
    Some(Gap::Unasked(format!(
        "only {} {were} asked, and it may be connected to {which}: name all of them in the connect string \
         (--connect or ZKLOCK_CONNECT)",
        names.join(" and ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What `conf` says on the server with this number, of three and an observer.
    fn conf(own: u64) -> String {
        format!(
            "clientPort=2181\ntickTime=2000\nserverId={own}\ninitLimit=10\nquorumPort=2888\npeerType=0\n\
             membership: \nserver.1=zk1:2888:3888:participant\n\
             server.2=zk2:2888:3888:participant;0.0.0.0:2181\n\
             server.3=[fe80::3]:2888:3888:participant|[fe80::4]:2888:3888\n\
             server.4=zk4:2888:3888:observer\nversion=0"
        )
    }

    fn of(number: u64) -> Result<Member, String> {
        Ok(of_conf(&conf(number)).unwrap())
    }

    fn among(own: u64, votes: bool, observers: usize) -> Result<Member, String> {
        Ok(Member::Among { own, votes, voters: 3, observers })
    }

    /// What is said of these servers, by their names.
    fn said(told: &[(&str, Result<Member, String>)]) -> Option<Gap> {
        gap(told.iter().map(|(name, member)| (*name, member)))
    }

    #[test]
    fn members_are_read() {
        let hosts = [(1, "zk1"), (2, "zk2"), (3, "[fe80::3]"), (4, "zk4")];
        let all: BTreeMap<u64, String> =
            hosts.into_iter().map(|(number, host)| (number, host.to_owned())).collect();
        assert_eq!(of_conf(&conf(2)), Some(Member::Of { own: 2, all }));
        let alone = "clientPort=2181\ntickTime=2000\nserverId=0\n";
        assert_eq!(of_conf(alone), Some(Member::Alone));
        // It was left out of the ensemble, or tells no members.
        assert_eq!(of_conf(&conf(5)), None);
        let serves_not = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(of_conf(serves_not), None);
        let conf = json!({ "server_id": 2 });
        let monitor = json!({ "server_state": "leader", "quorum_size": 3, "synced_observers": 1 });
        assert_eq!(of_admin(&conf, &monitor), among(2, true, 1).ok());
        let monitor = json!({ "server_state": "observer", "quorum_size": 3 });
        assert_eq!(of_admin(&conf, &monitor), among(2, false, 0).ok());
        let monitor = json!({ "server_state": "standalone" });
        assert_eq!(of_admin(&conf, &monitor), Some(Member::Alone));
    }

    #[test]
    fn servers_that_were_not_asked_are_named() {
        let Some(Gap::Unasked(says)) = said(&[("zk1:2181/app", of(1))]) else { panic!("no gap") };
        let others = "only zk1:2181 was asked, and it may be connected to one of the other servers of the \
                      ensemble, server.2 (zk2) and server.3 ([fe80::3]) and server.4 (zk4): name all of them \
                      in the connect string (--connect or ZKLOCK_CONNECT)";
        assert_eq!(says, others);
        // The observer has clients, too.
        let three = [("zk1:2181", of(1)), ("zk2:2181", of(2)), ("zk3:2181", of(3))];
        let Some(Gap::Unasked(says)) = said(&three) else { panic!("no gap") };
        assert!(says.starts_with("only zk1:2181 and zk2:2181 and zk3:2181 were asked, "), "{says}");
        assert!(says.contains("the other server of the ensemble, server.4 (zk4): "), "{says}");
    }

    #[test]
    fn where_all_were_asked_there_is_no_gap() {
        let all = [1, 2, 3, 4].map(|number| ("zk:2181", of(number)));
        assert_eq!(said(&all), None);
        assert_eq!(said(&[("zk:2181", Ok(Member::Alone))]), None);
        // Another name of one of them, which does not tell.
        let more = [&all[..], &[("other:2181", Err("silent".to_owned()))]].concat();
        assert_eq!(said(&more), None);
    }

    /// Four names may be those of one server, and one name that of several.
    #[test]
    fn two_names_of_a_server_are_one_server() {
        let names = ["zk1:2181", "10.0.0.1:2181", "zk:2181", "zk:2182"].map(|name| (name, of(1)));
        assert!(matches!(said(&names), Some(Gap::Unasked(_))));
    }

    #[test]
    fn where_only_their_number_is_told_as_many_must_have_been_asked() {
        let [leader, follower] = [among(1, true, 1), among(2, true, 0)].map(|one| ("a:1", one));
        let (third, observer) = (("b:1", among(3, true, 0)), ("c:1", among(4, false, 0)));
        let all = [leader, follower, third, observer];
        assert_eq!(said(&all), None);
        // An observer does not take the place of one that votes, nor one that votes its place.
        for left_out in 0..all.len() {
            let mut some = all.to_vec();
            drop(some.remove(left_out));
            let gap = said(&some);
            // How many observers there are is told by the leader.
            let Some(Gap::Unasked(says)) = gap else { panic!("{left_out}: {gap:?}") };
            assert!(says.contains("one of the "), "{says}");
        }
    }

    #[test]
    fn a_server_that_does_not_tell_leaves_it_open() {
        let silent =
            || ("zk2:2181", Err("it does not allow the four-letter word `conf`".to_owned()));
        let why = "zk2:2181: it does not allow the four-letter word `conf`".to_owned();
        assert_eq!(said(&[silent()]), Some(Gap::Untold(why.clone())));
        assert_eq!(said(&[("zk1:2181", of(1)), silent()]), Some(Gap::Untold(why)));
    }
}
