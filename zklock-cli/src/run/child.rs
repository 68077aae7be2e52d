//! The command, in a process group of its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write, pipe};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, close, getppid};
use rustix::io::Errno as WaitError;
use rustix::process::{WaitOptions, wait};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::guardian::{self, Guardian};
use super::lease::Lease;
use super::terminal::Terminal;
use crate::exit::{Failure, LOST, NOT_EXECUTABLE, NOT_FOUND, OWN};
use crate::server::to_spawn;
use crate::signals::Signals;
use crate::text::tell;

/// The first argument with which the command starts itself to become the command that it runs.
const BECOME: &str = "--zklock-become";

/// How often the group is looked at while it ends.
const LOOK: Duration = Duration::from_millis(10);

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// By itself, with this code.
    Exited(u8),
    /// By the signal of this number; those from 34 on have no name.
    Killed(i32),
}

/// The running command.
#[derive(Debug)]
pub(crate) struct Child {
    group: Pid,
    ended: mpsc::UnboundedReceiver<Status>,
    status: Option<Status>,
    guardian: Guardian,
    /// Taken back from the command when it ends.
    terminal: Arc<Terminal>,
}

impl Child {
    /// Starts a command, unless the lease is over.
    pub(crate) fn start(
        command: &[OsString],
        lease: &Lease<'_>,
        environment: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<Self, Failure> {
        // What the command leaves behind comes to this process when its parent ends, so that it is
        // seen when the last of the group is gone.
        #[cfg(target_os = "linux")]
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let failed = |error| Failure::own(format!("cannot start a process: {error}"));
        let (gate, mut key) = pipe().map_err(failed)?;
        fcntl(&gate, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| failed(error.into()))?;
        let mut itself = Command::new(to_spawn()?);
        // This name is for the lock, and not for what the command starts.
        if std::env::var_os("ZKLOCK_APP") == command.first().and_then(file_name) {
            itself.env_remove("ZKLOCK_APP");
        }
        let child = itself
            .arg(BECOME)
            .arg(std::process::id().to_string())
            .arg(gate.as_raw_fd().to_string())
            .args(command)
            .envs(environment)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        drop(gate);
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        // The command begins when the guardian has heard of it: nothing else ends the whole group in time.
        let mut guardian = Guardian::start(group, lease)?;
        let terminal = Arc::new(Terminal::open());
        terminal.begin(group);
        let (end, ended) = mpsc::unbounded_channel();
        let seen = terminal.clone();
        thread::Builder::new()
            .name("zklock-reaper".to_owned())
            .spawn(move || reap(group, &seen, &end))
            .map_err(|error| Failure::own(format!("cannot start a thread: {error}")))?;
        // Not if this process was stopped meanwhile for too long.
        if guardian.is_late() {
            return Err(Failure { code: LOST, message: "the lock is lost".to_owned() });
        }
        // It may have been killed already.
        _ = key.write_all(b"\n");
        Ok(Child { group, ended, status: None, guardian, terminal })
    }

    /// Waits until the command has ended; what it started may go on.
    pub(crate) async fn ended(&mut self) -> Status {
        if let Some(status) = self.status {
            return status;
        }
        let status = self.ended.recv().await.unwrap_or(Status::Exited(OWN));
        self.status = Some(status);
        status
    }

    /// Sends a signal to the command and what it started in its group.
    pub(crate) fn signal_group(&self, signal: Signal) {
        // It may have ended by itself.
        _ = killpg(self.group, signal);
    }

    /// The lease may have been renewed: the command may go on for longer.
    pub(crate) fn go_on(&mut self, lease: &Lease<'_>) -> Result<(), Failure> {
        self.guardian.guard(self.group, lease.deadline())
    }

    /// Whether this process was stopped for so long that the guardian has killed the group.
    pub(crate) fn was_forsaken(&mut self) -> bool {
        self.guardian.is_late()
    }

    /// Ends what is left of the group: asks, and kills it after the patience or when the lease is
    /// over. Returns when nothing is left.
    pub(crate) async fn end_group(
        &mut self,
        lease: &Lease<'_>,
        patience: Duration,
        signals: &mut Signals,
    ) {
        if !self.is_gone() {
            self.signal_group(Signal::SIGTERM);
            // One that is stopped does not hear it otherwise.
            self.signal_group(Signal::SIGCONT);
            let (over, renewed) = (lease.over(), lease.renewed());
            tokio::pin!(over, renewed);
            let patient = timeout(patience, async {
                while !self.is_gone() {
                    tokio::select! {
                        () = &mut over => return,
                        () = &mut renewed => {
                            // Without a guardian, nobody waits any longer.
                            if self.go_on(lease).is_err() {
                                return;
                            }
                            renewed.set(lease.renewed());
                        }
                        signal = signals.next() => self.signal_group(signal),
                        () = sleep(LOOK) => {}
                    }
                }
            });
            drop(patient.await);
        }
        let mut said = false;
        while !self.is_gone() {
            if killpg(self.group, Signal::SIGKILL) == Err(Errno::EPERM) && !said {
                said = true;
                tell("the command cannot be killed: it belongs to another user");
            }
            sleep(LOOK).await;
        }
        self.guardian.dismiss();
        self.terminal.take_back();
    }

    fn is_gone(&self) -> bool {
        killpg(self.group, None) == Err(Errno::ESRCH)
    }
}

fn file_name(program: &OsString) -> Option<OsString> {
    Some(Path::new(program).file_name()?.to_owned())
}

/// Waits for all children, and for what they left behind, as the first process of a container must.
fn reap(command: Pid, terminal: &Terminal, end: &mpsc::UnboundedSender<Status>) {
    loop {
        let (pid, status) = match wait(WaitOptions::UNTRACED) {
            Ok(Some(ended)) => ended,
            Err(WaitError::CHILD) => return,
            Ok(None) | Err(_) => continue,
        };
        if pid.as_raw_pid() != command.as_raw() {
            continue;
        }
        let status = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Status::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            (_, Some(signal)) => Status::Killed(signal),
            _ => {
                const ASKS: [i32; 2] = [Signal::SIGTTIN as i32, Signal::SIGTTOU as i32];
                let goes_on = match status.stopping_signal() {
                    Some(signal) if ASKS.contains(&signal) => terminal.give_to(command),
                    // In a terminal, a command that holds a lock is not suspended: others wait for it.
                    _ => terminal.is_given(),
                };
                if goes_on {
                    _ = killpg(command, Signal::SIGCONT);
                }
                continue;
            }
        };
        // Where nobody listens, this process is about to end.
        _ = end.send(status);
    }
}

/// Does the work of the processes that the command starts of itself. `None` if this is none of
/// them; otherwise the exit code.
pub(crate) fn helper(mut arguments: impl Iterator<Item = OsString>) -> Option<u8> {
    let first = arguments.nth(1)?;
    if first == guardian::GUARD {
        return Some(guardian::guard());
    }
    if first != BECOME {
        return None;
    }
    let mut number = || arguments.next()?.to_str()?.parse::<i32>().ok();
    let (parent, gate) = (number()?, number()?);
    let program = arguments.next()?;
    // The end of the process that holds the lock is the end of the command. The signal is kept when
    // this process becomes the command.
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL) {
        tell(format_args!("cannot bind the command to the lock: {error}"));
        return Some(OWN);
    }
    if getppid() != Pid::from_raw(parent) {
        // It has ended before.
        _ = kill(Pid::this(), Signal::SIGKILL);
    }
    if !is_let_through(gate) {
        return Some(OWN);
    }
    let error = Command::new(&program).args(arguments).exec();
    tell(format_args!("cannot run {}: {error}", program.to_string_lossy()));
    Some(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Waits at the gate. The process that holds the lock may end there, or find that the lock is lost.
fn is_let_through(gate: RawFd) -> bool {
    let key = File::open(format!("/dev/fd/{gate}")).and_then(|mut gate| gate.read(&mut [0]));
    // It is not the command's.
    _ = close(gate);
    key.is_ok_and(|length| length == 1)
}
