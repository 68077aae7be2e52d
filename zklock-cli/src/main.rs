//! The command `zklock`: runs a command under a lock, and shows, explains, follows and frees locks,
//! also on a page.
//!
//! Its settings are the environment variables of the library (`ZKLOCK_CONNECT` and so on).

// They panic where nobody reads, in the middle of a command that holds a lock.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod args;
mod breaks;
mod doctor;
mod exit;
mod held;
mod inspect;
mod ls;
mod member;
mod near;
mod parts;
mod run;
#[cfg(feature = "serve")]
mod serve;
mod server;
mod signals;
mod text;
mod top;
mod watch;
mod when;
mod why;
mod words;

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::{Args, Command, Server};
use crate::exit::Failure;
use crate::server::Again;

fn main() -> ExitCode {
    // What the command starts of itself is no command of its user's.
    if let Some(code) = run::helper(std::env::args_os()) {
        return ExitCode::from(code);
    }
    let parsed = args::command().try_get_matches();
    let args = match parsed.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(error) => {
            let code = if error.use_stderr() { exit::OWN } else { 0 };
            // Nobody is left to be told where the terminal is gone.
            drop(error.print());
            return ExitCode::from(code);
        }
    };
    let Args { server, command } = args;
    match begin(&server, command) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            text::tell(server::as_given(&server, failure.message));
            ExitCode::from(failure.code)
        }
    }
}

fn begin(server: &Server, command: Command) -> Result<u8, Failure> {
    let app = match &command {
        Command::Run(run) => run.program_name(),
        _ => None,
    };
    server::settle(server, app.as_deref())?;
    to_its_end(async {
        match command {
            Command::Run(run) => run::run(run).await,
            Command::Show { name, json } => inspect::show(&name, json).await,
            Command::Why { name, within, json } => {
                why::why(&name, within, &Again::of(server), json).await
            }
            Command::Ls { prefix, json } => {
                ls::ls(prefix.as_deref(), &Again::of(server), json).await
            }
            Command::Top { interval, json } => top::top(interval, Again::of(server), json).await,
            Command::Doctor { containers_within, within, json } => {
                doctor::doctor(containers_within, within, json).await
            }
            #[cfg(feature = "serve")]
            Command::Serve(wanted) => serve::serve(wanted, Again::of(server)).await,
            Command::Break(node) => breaks::break_node(&node).await,
            Command::Watch { name, json } => watch::watch(&name, json).await,
            Command::Revoke { name, json } => inspect::revoke(&name, json).await,
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut args::command(), "zklock", &mut script);
                print(&script)
            }
            Command::Man { command } => print(&manual(command.as_deref())?),
        }
    })
}

/// Runs a command on one thread, which lives as long as the command: a child is bound to the thread that
/// starts it.
fn to_its_end(command: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::own(format!("no runtime: {error}")))?;
    let code = runtime.block_on(command);
    // The names of servers are looked up on other threads, for many seconds where no name server answers.
    runtime.shutdown_background();
    code
}

/// Returns the manual page of a command, or of all.
fn manual(of: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut all = args::command();
    // Only then do commands know their whole names.
    all.build();
    // Others are refused with the arguments.
    let page = of.and_then(|name| all.find_subcommand(name)).unwrap_or(&all);
    let mut text = Vec::new();
    // Commands have no version of their own.
    let source = concat!("zklock ", env!("CARGO_PKG_VERSION"));
    let rendered = clap_mangen::Man::new(page.clone()).source(source).render(&mut text);
    rendered.map_err(|error| Failure::own(format!("no page: {error}")))?;
    Ok(text)
}

/// Prints a text. Who reads it may have ended.
fn print(text: &[u8]) -> Result<u8, Failure> {
    let written = stdout().write_all(text);
    written.map(|()| 0).map_err(|error| Failure::own(format!("cannot write: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_command_does_not_wait_at_its_end_for_the_name_of_a_server() {
        let (answer, answered) = channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let code = to_its_end(async {
            tokio::task::spawn_blocking(move || {
                begin.send(()).unwrap();
                answered.recv_timeout(Duration::from_secs(10))
            });
            begun.await.unwrap();
            Ok(7)
        });
        assert_eq!(code.unwrap(), 7);
        assert!(answer.send(()).is_ok(), "it was waited for");
    }
}
