//! Which servers, and the session to them.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use zklock::Session;

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

/// The path of this program.
pub(crate) fn own_path() -> Result<std::path::PathBuf, Failure> {
    env::current_exe().map_err(|error| Failure::own(format!("cannot find this program: {error}")))
}

/// Connects as the environment says.
pub(crate) async fn connect() -> Result<Session, Failure> {
    Ok(Session::from_env().await?)
}
