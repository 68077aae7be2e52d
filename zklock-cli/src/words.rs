//! What a server tells about itself: by the four-letter words `cons`, `mntr` and `conf`, or by its AdminServer.
//! All may be forbidden. A server as it is shipped allows none, and Debian's has no AdminServer.

use std::env;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::over_tls;

/// The port of the AdminServer, unless `ZKLOCK_ADMIN_PORT` says another.
const ADMIN_PORT: &str = "8080";
/// The longest answer that is read.
const LONGEST: u64 = 16 << 20;
/// What a server says to whatever it is asked while it has no quorum.
pub(crate) const SERVES_NOT: &str = "not currently serving";
/// How a server calls itself that never leads.
const OBSERVER: u64 = 1;

/// A connection of a client, as its server tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The ZooKeeper session.
    pub(crate) session: i64,
    /// The address of the client.
    pub(crate) from: String,
    /// The session timeout.
    pub(crate) timeout: Duration,
    /// When the server answered it last, in milliseconds of a clock of the server's own.
    pub(crate) answered: i64,
}

/// How often the data of a server were not those of its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digests {
    /// `leader`, `follower`, `observer` or `standalone`.
    pub(crate) role: String,
    /// After so many transactions since its process was started, its digest was not the one that came
    /// with the transaction, from whoever led then.
    pub(crate) mismatches: u64,
    /// How long it has had this role, under the same leader.
    pub(crate) up: Duration,
    /// How many servers of the ensemble vote.
    pub(crate) voters: Option<usize>,
}

/// What a server is set up with, that sessions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) tick: Duration,
    /// The shortest session timeout that it grants.
    pub(crate) shortest: Duration,
    /// The longest one.
    pub(crate) longest: Duration,
    /// Whether it is an observer, which never leads.
    pub(crate) observes: bool,
}

/// Sends a four-letter word. An error says in words why there is no answer.
pub(crate) async fn word(server: &str, word: &str) -> Result<String, String> {
    word_from(server, word).await.1
}

/// Sends a four-letter word. Also returns the address at which that server is asked again: a name may be that of several
/// servers.
pub(crate) async fn word_from(server: &str, word: &str) -> (String, Result<String, String>) {
    // A port that speaks TLS only waits for a fifth byte, and then sees that this is something else.
    let line = if over_tls() { format!("{word}\n") } else { word.to_owned() };
    let (at, said) = match exchange(server, &line).await {
        Ok(told) => told,
        Err(error) => return (server.to_owned(), Err(error.to_string())),
    };
    let said = match said {
        said if said.is_empty() => Err(format!("it does not answer `{word}`")),
        said if said.contains("is not executed because it is not in the whitelist") => {
            Err(format!("it does not allow the four-letter word `{word}`"))
        }
        said => Ok(said),
    };
    (at, said)
}

/// Waits for what a server tells that may accept the connection and never answer.
pub(crate) async fn in_time<T>(
    within: Duration,
    told: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    timeout(within, told).await.unwrap_or_else(|_| Err("it does not answer in time".to_owned()))
}

/// Where a server of a connect string listens, without the chroot.
pub(crate) fn host(server: &str) -> &str {
    server.split('/').next().unwrap_or_default()
}

/// Returns the four-letter words that a server refuses, where its AdminServer does not tell the same. An error says
/// in words why there is no answer.
pub(crate) async fn refused(server: &str) -> Result<Vec<&'static str>, String> {
    let mut refused = Vec::new();
    for (name, command) in [
        ("srvr", None),
        ("cons", Some("connections")),
        ("mntr", Some("monitor")),
        ("conf", Some("configuration")),
    ] {
        match word(server, name).await {
            Ok(_) => continue,
            Err(why) if !is_refusal(&why) => return Err(why),
            Err(_) => {}
        }
        let told = match command {
            Some(command) => admin(server, command).await.is_ok(),
            None => false,
        };
        if !told {
            refused.push(name);
        }
    }
    Ok(refused)
}

/// Whether this is said of a word that the server knows and does not allow.
pub(crate) fn is_refusal(why: &str) -> bool {
    why.contains("does not allow the four-letter word")
}

/// Returns the address that was reached, and what was said there.
async fn exchange(server: &str, request: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(server).await?;
    let at = stream.peer_addr()?.to_string();
    stream.write_all(request.as_bytes()).await?;
    let mut said = Vec::new();
    stream.take(LONGEST).read_to_end(&mut said).await?;
    Ok((at, String::from_utf8_lossy(&said).into_owned()))
}

/// Asks the AdminServer of a server. Of several servers with one address, at most one has that which answers there.
pub(crate) async fn admin(server: &str, command: &str) -> Result<Value, String> {
    let (whose, said) = tokio::join!(ask_admin(server, "configuration"), word(server, "conf"));
    let whose = whose?;
    is_of(&whose, server, said.ok().and_then(|said| identity(&said)))?;
    match command {
        "configuration" => Ok(whose),
        _ => ask_admin(server, command).await,
    }
}

/// Fails unless the AdminServer that tells this configuration is that of the server, which may have told its number and
/// port itself. Otherwise the port tells it at which it is reached, unless that speaks TLS: it is not told then.
fn is_of(whose: &Value, server: &str, itself: Option<(u64, u64)>) -> Result<(), String> {
    let (port, at) = (whose["client_port"].as_u64(), admin_port());
    let reached = server.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    match (itself, port) {
        (Some(itself), Some(port)) if whose["server_id"] == itself.0 && port == itself.1 => Ok(()),
        (Some(_), Some(_)) => Err(format!("the AdminServer on its port {at} is another server's")),
        (None, _) if over_tls() => Ok(()),
        // It tells nothing else while its server has no quorum.
        (_, None) if whose["error"].is_string() => {
            Err(format!("an AdminServer answers on its port {at}, whose server has no quorum"))
        }
        (None, Some(_)) if reached == port => Ok(()),
        (_, port) => {
            let tells = port.map_or("none".to_owned(), |port| port.to_string());
            Err(format!(
                "the AdminServer on its port {at} may be another server's, whose client port is {tells}"
            ))
        }
    }
}

/// Reads the number and the port of a server, as it knows them: it may be reached at another one.
fn identity(said: &str) -> Option<(u64, u64)> {
    let value = |name: &str| of_line(said, name)?.trim().parse().ok();
    Some((value("serverId")?, value("clientPort")?))
}

fn admin_port() -> String {
    env::var("ZKLOCK_ADMIN_PORT").unwrap_or_else(|_| ADMIN_PORT.to_owned())
}

/// Asks the AdminServer at the address of a server, whose ever it is.
async fn ask_admin(server: &str, command: &str) -> Result<Value, String> {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let port = admin_port();
    let request = format!("GET /commands/{command} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    let said = exchange(&format!("{host}:{port}"), &request).await;
    let body = said.ok().and_then(|(_, said)| Some(said.split_once("\r\n\r\n")?.1.to_owned()));
    let value = body.and_then(|body| serde_json::from_str::<Value>(&body).ok());
    let value = value.filter(|value| value["command"] == command);
    value.ok_or_else(|| format!("no AdminServer answers on its port {port}"))
}

/// Returns the connections of a server. One without a quorum tells none, whoever is connected.
pub(crate) async fn connections(server: &str) -> Result<Vec<Connection>, String> {
    let untold = || "it runs, but has no quorum".to_owned();
    let why = match word(server, "cons").await {
        Ok(said) => return of_cons(&said).ok_or_else(untold),
        Err(why) => why,
    };
    match admin(server, "connections").await {
        Ok(told) => of_admin(&told).ok_or_else(untold),
        Err(neither) => Err(format!("{why}, and {neither}")),
    }
}

/// Returns what a server tells of its digests, which servers before 3.6 do not have. Its AdminServer is asked if it is its
/// own.
pub(crate) async fn digests(server: &str, may_ask_admin: bool) -> Option<Digests> {
    match word(server, "mntr").await {
        Ok(said) => of_mntr(&said),
        Err(_) if may_ask_admin => of_monitor(&admin(server, "monitor").await.ok()?),
        Err(_) => None,
    }
}

fn of_mntr(said: &str) -> Option<Digests> {
    let field = |name: &str| {
        said.lines().filter_map(|line| line.split_once('\t')).find(|one| one.0 == name)
    };
    Some(Digests {
        role: field("zk_server_state")?.1.to_owned(),
        mismatches: whole(field("zk_digest_mismatches_count")?.1)?,
        up: Duration::from_millis(whole(field("zk_uptime")?.1)?),
        voters: field("zk_quorum_size").and_then(|one| whole(one.1)),
    })
}

fn of_monitor(told: &Value) -> Option<Digests> {
    Some(Digests {
        role: told["server_state"].as_str()?.to_owned(),
        mismatches: whole(&told["digest_mismatches_count"].to_string())?,
        up: Duration::from_millis(whole(&told["uptime"].to_string())?),
        voters: whole(&told["quorum_size"].to_string()),
    })
}

/// Reads a figure of a server, which has `3.0` for 3 where it is set up for Prometheus.
pub(crate) fn whole<N: FromStr>(figure: &str) -> Option<N> {
    figure.strip_suffix(".0").unwrap_or(figure).parse().ok()
}

/// Returns what a server is set up with.
pub(crate) async fn settings(server: &str) -> Result<Settings, String> {
    let untold = |said: &str| {
        let said = said.trim().lines().next().unwrap_or_default();
        format!("it does not tell its tickTime; it says `{said}`")
    };
    let why = match word(server, "conf").await {
        Ok(said) => return of_conf(&said).ok_or_else(|| untold(&said)),
        Err(why) => why,
    };
    match admin(server, "configuration").await {
        Ok(told) => of_configuration(&told).ok_or_else(|| untold(&told.to_string())),
        Err(neither) => Err(format!("{why}, and {neither}")),
    }
}

fn of_conf(said: &str) -> Option<Settings> {
    let value = |name: &str| of_line(said, name);
    let time = |name: &str| value(name)?.parse().ok().map(Duration::from_millis);
    Some(Settings {
        tick: time("tickTime")?,
        shortest: time("minSessionTimeout")?,
        longest: time("maxSessionTimeout")?,
        observes: value("peerType").and_then(|own| own.parse().ok()) == Some(OBSERVER),
    })
}

/// The value of a line of `conf`.
pub(crate) fn of_line<'s>(said: &'s str, name: &str) -> Option<&'s str> {
    said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

fn of_configuration(told: &Value) -> Option<Settings> {
    let time = |name: &str| told[name].as_u64().map(Duration::from_millis);
    Some(Settings {
        tick: time("tick_time")?,
        shortest: time("min_session_timeout")?,
        longest: time("max_session_timeout")?,
        observes: told["peer_type"].as_u64() == Some(OBSERVER),
    })
}

/// Reads lines such as
/// ` /10.0.0.7:59078[1](queued=0,…,sid=0x10002c2afaf0000,…,to=4000,…,lresp=46315694,…)`.
fn of_cons(said: &str) -> Option<Vec<Connection>> {
    if said.contains(SERVES_NOT) {
        return None;
    }
    let read = |line: &str| {
        // An address of IPv6 has brackets, too.
        let (from, rest) = line.trim().strip_prefix('/')?.split_once('(')?;
        let (from, _) = from.rsplit_once('[')?;
        let fields =
            rest.trim_end_matches(')').split(',').filter_map(|field| field.split_once('='));
        let field =
            |name: &str| fields.clone().find(|(key, _)| *key == name).map(|(_, value)| value);
        let session = field("sid")?.strip_prefix("0x")?;
        Some(Connection {
            session: u64::from_str_radix(session, 16).ok()?.cast_signed(),
            from: from.to_owned(),
            timeout: Duration::from_millis(field("to")?.parse().ok()?),
            answered: field("lresp")?.parse().ok()?,
        })
    };
    Some(said.lines().filter_map(read).collect())
}

fn of_admin(told: &Value) -> Option<Vec<Connection>> {
    if told["error"].is_string() {
        return None;
    }
    let read = |one: &Value| {
        Some(Connection {
            session: session(&one["session_id"])?,
            from: one["remote_socket_address"].as_str()?.trim_start_matches('/').to_owned(),
            timeout: Duration::from_millis(one["session_timeout"].as_u64()?),
            answered: one["last_response_time"].as_i64()?,
        })
    };
    let lists = ["connections", "secure_connections"].map(|list| told[list].as_array());
    Some(lists.into_iter().flatten().flatten().filter_map(read).collect())
}

/// A session, which is a number or, in later versions, its hexadecimal text.
fn session(value: &Value) -> Option<i64> {
    let text = value.as_str().map(|text| text.trim_start_matches("0x"));
    let read = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    value.as_i64().or_else(|| read.map(u64::cast_signed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVES_NOT_AT_ALL: &str = "This ZooKeeper instance is not currently serving requests\n";

    #[test]
    fn connections_are_read() {
        let said = " /127.0.0.1:59086[0](queued=0,recved=1,sent=0)\n \
                    /10.0.0.7:59078[1](queued=0,recved=14,sent=15,sid=0x10002c2af0000,lop=MULT,\
                    est=1795377391289,to=4000,lcxid=0xc,lzxid=0x8,lresp=46315694,llat=1)\n";
        let one = Connection {
            session: 0x1_0002_c2af_0000,
            from: "10.0.0.7:59078".to_owned(),
            timeout: Duration::from_secs(4),
            answered: 46_315_694,
        };
        assert_eq!(of_cons(said), Some(vec![one.clone()]));
        let from = "[0:0:0:0:0:0:0:1]:59078";
        let v6 = Connection { from: from.to_owned(), ..one.clone() };
        assert_eq!(of_cons(&said.replace("10.0.0.7:59078", from)), Some(vec![v6]));
        let told = serde_json::json!({ "connections": [{
            "remote_socket_address": "10.0.0.7:59078",
            "session_id": 0x1_0002_c2af_0000_i64,
            "session_timeout": 4000,
            "last_response_time": 46_315_694,
        }], "command": "connections", "error": null });
        assert_eq!(of_admin(&told), Some(vec![one]));
    }

    /// Its clients are connected while an election goes on, or come back a moment later.
    #[test]
    fn a_server_that_does_not_serve_tells_no_connections() {
        assert_eq!(of_cons(SERVES_NOT_AT_ALL), None);
        let told = serde_json::json!({ "command": "connections", "error": SERVES_NOT_AT_ALL });
        assert_eq!(of_admin(&told), None);
        // One without clients tells so.
        assert_eq!(of_cons("\n"), Some(Vec::new()));
    }

    /// Servers of one machine, or behind one address, share a host, and so the port of an AdminServer.
    #[test]
    fn the_admin_server_of_another_server_is_not_believed() {
        let whose = serde_json::json!({ "server_id": 2, "client_port": 2181 });
        let of = |server: &str, conf: &str| is_of(&whose, server, identity(conf));
        // It tells itself who it is, whatever port leads to it.
        assert_eq!(of("zk:2182", "clientPort=2181\nserverId=2\n"), Ok(()));
        let other = "the AdminServer on its port 8080 is another server's";
        assert_eq!(of("zk:2181", "clientPort=2181\nserverId=1\n").unwrap_err(), other);
        // These belong to no ensemble.
        assert_eq!(of("zk:2181", "clientPort=2182\nserverId=2\n").unwrap_err(), other);
        // It does not tell it.
        assert_eq!(of("[::1]:2181", ""), Ok(()));
        for server in ["[::1]:2182", "zk"] {
            let may_be = format!("{other}, whose client port is 2181")
                .replace("is another", "may be another");
            assert_eq!(of(server, "").unwrap_err(), may_be);
        }
        let untold = serde_json::json!({ "error": SERVES_NOT_AT_ALL });
        for server in ["zk:2181", "zk"] {
            let why = is_of(&untold, server, None).unwrap_err();
            assert_eq!(why, "an AdminServer answers on its port 8080, whose server has no quorum");
        }
    }

    #[test]
    fn digests_are_read() {
        let said = "zk_version\t3.8.0\nzk_server_state\tleader\nzk_digest_mismatches_count\t17\n\
                    zk_uptime\t2500\nzk_quorum_size\t3\n";
        let told = serde_json::json!({
            "server_state": "leader", "digest_mismatches_count": 17, "uptime": 2500, "quorum_size": 3,
        });
        let both = Some(Digests {
            role: "leader".to_owned(),
            mismatches: 17,
            up: Duration::from_millis(2500),
            voters: Some(3),
        });
        assert_eq!((of_mntr(said), of_monitor(&told)), (both.clone(), both.clone()));
        // With its provider for Prometheus.
        let doubles = serde_json::json!({
            "server_state": "leader", "digest_mismatches_count": 17.0, "uptime": 2500.0,
            "quorum_size": 3.0,
        });
        assert_eq!(of_monitor(&doubles), both);
        assert_eq!(of_mntr("zk_version\t3.5.9\nzk_server_state\tleader\n"), None);
    }

    #[test]
    fn settings_are_read() {
        let said = "clientPort=2181\ntickTime=2000\nmaxClientCnxns=60\nminSessionTimeout=500\n\
                    maxSessionTimeout=40000\nserverId=0\n";
        let told = serde_json::json!({
            "tick_time": 2000, "min_session_timeout": 500, "max_session_timeout": 40000,
        });
        let [tick, shortest, longest] = [2_000, 500, 40_000].map(Duration::from_millis);
        let both = Some(Settings { tick, shortest, longest, observes: false });
        assert_eq!((of_conf(said), of_configuration(&told)), (both, both));
        let voter = of_conf(&format!("{said}peerType=0\n"));
        assert_eq!(voter, both);
        let observer = of_conf(&format!("{said}peerType=1\n")).unwrap();
        let mut told = told;
        told["peer_type"] = 1.into();
        assert!(observer.observes && of_configuration(&told).unwrap().observes);
        assert_eq!(of_conf(SERVES_NOT_AT_ALL), None);
    }
}
