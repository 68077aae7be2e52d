//! Which servers, and the session to them.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use zklock::{LockError, Session};

use crate::args::Server;
use crate::exit::Failure;

/// Puts the arguments into the environment, which is what the library reads and what the command
/// hands on to those that it runs. A process cannot safely change its own environment, so it starts
/// itself again, in the same process.
pub(crate) fn settle(server: &Server, app: Option<&str>) -> Result<(), Failure> {
    let mut wanted = Vec::new();
    let mut want = |name: &'static str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| env::var(name).as_deref() != Ok(value)) {
            wanted.push((name, value.to_owned()));
        }
    };
    want("ZKLOCK_CONNECT", server.connect.as_deref());
    want("ZKLOCK_ROOT", server.root.as_deref());
    want("ZKLOCK_APP", app.filter(|_| env::var_os("ZKLOCK_APP").is_none()));
    if wanted.is_empty() {
        return Ok(());
    }
    let itself = own_path()?;
    let error = Command::new(itself).args(env::args_os().skip(1)).envs(wanted).exec();
    Err(Failure::own(format!("cannot start again: {error}")))
}

/// A message about a setting, which names the option of who gave that instead of the variable.
pub(crate) fn as_given(server: &Server, message: String) -> String {
    let options = [
        ("--connect", "ZKLOCK_CONNECT: ", &server.connect),
        ("--root", "ZKLOCK_ROOT: ", &server.root),
    ];
    let given = options.into_iter().filter(|(_, _, value)| value.is_some());
    let named = given.into_iter().find_map(|(option, variable, _)| {
        Some(format!("{option}: {}", message.strip_prefix(variable)?))
    });
    named.unwrap_or(message)
}

/// The path of this program, for another process of it.
#[cfg(target_os = "linux")]
pub(crate) fn to_spawn() -> Result<std::path::PathBuf, Failure> {
    // It works when the file was removed or replaced, for instance by an upgrade while it waited.
    Ok("/proc/self/exe".into())
}
#[cfg(not(target_os = "linux"))]
pub(crate) use own_path as to_spawn;

/// The path of this program.
pub(crate) fn own_path() -> Result<std::path::PathBuf, Failure> {
    env::current_exe().map_err(|error| Failure::own(format!("cannot find this program: {error}")))
}

/// The servers of the connect string, one by one, each with its port and the chroot. A wrong setting is
/// noticed here, before they are asked.
pub(crate) fn servers() -> Result<Vec<String>, Failure> {
    let connect = of_servers()?;
    Session::builder_from_env_for(&connect).map(drop)?;
    Ok(each(&connect))
}

/// How long it may take to learn why nobody answers.
const TO_CONNECT: Duration = Duration::from_secs(1);

/// In the place of servers: locks of this process only.
const EMBEDDED: &str = "embedded";

/// Whether the locks are those of this process only.
pub(crate) fn is_embedded() -> bool {
    given().is_ok_and(|connect| connect == EMBEDDED)
}

/// The connect string of servers. Whoever only looks finds nothing in its own memory.
fn of_servers() -> Result<String, Failure> {
    match given()? {
        connect if connect == EMBEDDED => Err(Failure::own(
            "ZKLOCK_CONNECT: embedded is no server that can be asked; accepted are servers, for instance \
             zk1:2181,zk2:2181",
        )),
        connect => Ok(connect),
    }
}

fn given() -> Result<String, Failure> {
    match env::var("ZKLOCK_CONNECT") {
        Ok(connect) if !connect.is_empty() => Ok(connect),
        Err(env::VarError::NotUnicode(_)) => {
            Err(Failure::own("ZKLOCK_CONNECT: the value is not UTF-8"))
        }
        _ => Err(Failure::own("no servers are given: set ZKLOCK_CONNECT, or use --connect")),
    }
}

fn each(connect: &str) -> Vec<String> {
    let (hosts, chroot) = parts(connect);
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host.to_owned(),
        _ => format!("{host}:2181"),
    };
    let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
    hosts.map(|host| with_port(host) + chroot).collect()
}

/// The connect string of some of the servers of one, which has the chroot once.
pub(crate) fn joined(servers: &[&str]) -> String {
    let chroot = servers.first().map_or("", |first| parts(first).1);
    let hosts: Vec<_> = servers.iter().map(|server| parts(server).0).collect();
    hosts.join(",") + chroot
}

/// The hosts of a connect string, and the chroot.
fn parts(connect: &str) -> (&str, &str) {
    connect.split_at(connect.find('/').unwrap_or(connect.len()))
}

/// How this program was called, to name commands that help.
#[derive(Clone, Debug, Default)]
pub(crate) struct Again(Server);

impl Again {
    pub(crate) fn of(server: &Server) -> Self {
        Again(server.clone())
    }

    /// The same servers, and another root.
    pub(crate) fn below(&self, root: &str) -> Self {
        Again(Server { root: Some(root.to_owned()), ..self.0.clone() })
    }

    /// A command with these arguments. Whoever may create nodes chooses what is in them.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        let options = [("--connect", &self.0.connect), ("--root", &self.0.root)];
        let given =
            options.into_iter().filter_map(|(option, value)| Some([option, value.as_deref()?]));
        let given: Vec<_> = given.flatten().collect();
        line([&["zklock"][..], &given, words].concat().iter())
    }
}

/// A line that a shell reads as these words.
pub(crate) fn line<'w>(words: impl IntoIterator<Item = &'w &'w str>) -> String {
    words.into_iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:,=@%+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Whether the servers are spoken to over TLS, and so may not understand four-letter words.
pub(crate) fn over_tls() -> bool {
    env::var_os("ZKLOCK_TLS_CA").is_some_and(|file| !file.is_empty())
}

/// The credentials of this client, other than its certificate.
pub(crate) fn auth() -> Option<String> {
    env::var("ZKLOCK_AUTH").ok().filter(|auth| !auth.is_empty())
}

/// Whether the servers know this client by its certificate.
pub(crate) fn has_certificate() -> bool {
    env::var_os("ZKLOCK_TLS_CERT").is_some_and(|file| !file.is_empty())
}

/// Opens a session as the environment says, without waiting for the servers.
pub(crate) fn open() -> Result<Session, Failure> {
    Ok(Session::builder_from_env_for(&given()?)?.open()?)
}

/// Why no session can be opened at this moment, if so.
pub(crate) async fn trouble() -> Option<LockError> {
    let builder = Session::builder_from_env_for(&given().ok()?).ok()?;
    match builder.connect_timeout(TO_CONNECT).connect().await {
        Ok(session) => {
            session.close().await;
            None
        }
        Err(error) => Some(error),
    }
}

/// Connects to the servers that the environment names.
pub(crate) async fn connect() -> Result<Session, Failure> {
    of_servers()?;
    Ok(Session::from_env().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_taken_one_by_one() {
        assert_eq!(each("a:1,b,[::1]:7/x/y"), ["a:1/x/y", "b:2181/x/y", "[::1]:7/x/y"]);
    }

    #[test]
    fn servers_with_a_chroot_make_a_connect_string_again() {
        for (connect, some) in
            [("a:1,b:2,[::1]:7/x/y", "a:1,[::1]:7/x/y"), ("a:1,b:2,c:3", "a:1,c:3")]
        {
            let all = each(connect);
            let some_of_them = joined(&[&all[0], &all[2]]);
            assert_eq!(some_of_them, some);
            assert!(Session::builder_from_env_for(&some_of_them).is_ok());
        }
    }

    #[test]
    fn an_error_names_the_option_that_was_given() {
        let root = |root: Option<&str>| Server { connect: None, root: root.map(str::to_owned) };
        let wrong = || "ZKLOCK_ROOT: not absolute".to_owned();
        assert_eq!(as_given(&root(Some("nope")), wrong()), "--root: not absolute");
        assert_eq!(as_given(&root(None), wrong()), wrong());
        let other = || "ZKLOCK_CONNECT: no host".to_owned();
        assert_eq!(as_given(&root(Some("nope")), other()), other());
        let server = Server { connect: Some(":1".to_owned()), root: None };
        assert_eq!(as_given(&server, other()), "--connect: no host");
    }

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        let server = Server { connect: Some("a:1".to_owned()), root: None };
        let command = Again::of(&server).command(&["break", "it's", "--node", "$(x)-W-1", ""]);
        assert_eq!(command, r"zklock --connect a:1 break 'it'\''s' --node '$(x)-W-1' ''");
        let command = Again::of(&server).below("/it's").command(&["ls"]);
        assert_eq!(command, r"zklock --connect a:1 --root '/it'\''s' ls");
    }
}
