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
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::{Pid, close, getppid};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::family::{self, Family, Left};
use super::guardian::{self, Guardian};
use super::interrupt::{self, Interrupt};
use super::lease::Lease;
use super::reaper::{Change, Status, reap};
use super::teller::Teller;
use super::terminal::Terminal;
use crate::exit::{Failure, LOST, NOT_EXECUTABLE, NOT_FOUND, OWN};
use crate::server::to_spawn;
use crate::signals::Signals;
use crate::text::tell;

/// The first argument with which the command starts itself to become the command that it runs.
const BECOME: &str = "--zklock-become";

/// How often the group is looked at while it ends.
const LOOK: Duration = Duration::from_millis(10);

/// How often all processes are looked at meanwhile, which takes some milliseconds.
const LOOK_AT_ALL: Duration = Duration::from_millis(50);

/// How often at most, where the command cannot be killed: it may go on for hours.
const LOOK_AT_WHAT_STAYS: Duration = Duration::from_secs(1);

/// How often a command that is stopped until it has the terminal is looked after: nobody tells when the
/// shell gives that to this process's group.
const LOOK_AT_TERMINAL: Duration = Duration::from_millis(100);

/// What may end a group.
const ENDS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// The running command.
#[derive(Debug)]
pub(crate) struct Child {
    group: Pid,
    family: Family,
    /// What was left of the family when all processes were looked at last, when that was, and whether it had the
    /// group then.
    left: Left,
    looked: Option<(bool, Instant)>,
    changes: mpsc::UnboundedReceiver<Change>,
    status: Option<Status>,
    /// Whether it is stopped until it has the terminal.
    waits: bool,
    /// What the group was sent.
    sent: SigSet,
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
        let family = Family::of(Pid::this(), group);
        // The command begins when the guardian has heard of it: nothing else ends the whole group in time.
        let mut guardian = Guardian::start(&family, lease)?;
        let terminal = Arc::new(Terminal::open());
        terminal.begin(group);
        let (seen, changes) = mpsc::unbounded_channel();
        let gives = terminal.clone();
        thread::Builder::new()
            .name("zklock-reaper".to_owned())
            .spawn(move || reap(group, &gives, &seen))
            .map_err(|error| Failure::own(format!("cannot start a thread: {error}")))?;
        // Not if this process was stopped meanwhile for too long.
        if guardian.is_late() {
            return Err(Failure { code: LOST, message: "the lock is lost".to_owned() });
        }
        // It may have been killed already.
        _ = key.write_all(b"\n");
        let (status, waits, sent) = (None, false, SigSet::empty());
        let (left, looked) = (Left::default(), None);
        Ok(Child { group, family, left, looked, changes, status, waits, sent, guardian, terminal })
    }

    /// Waits until the command has ended; what it started may go on.
    pub(crate) async fn ended(&mut self) -> Status {
        if let Some(status) = self.status {
            return status;
        }
        let status = loop {
            tokio::select! {
                change = self.changes.recv() => match change {
                    Some(Change::Ended(status)) => break status,
                    Some(Change::Waits(waits)) => self.waits = waits,
                    None => break Status::Exited(OWN),
                },
                () = sleep(LOOK_AT_TERMINAL), if self.waits => {
                    if self.terminal.give_to(self.group) {
                        self.waits = false;
                        _ = killpg(self.group, Signal::SIGCONT);
                    }
                }
            }
        };
        self.status = Some(status);
        status
    }

    /// Sends a signal to the command and what it started in its group.
    pub(crate) fn signal_group(&mut self, signal: Signal) {
        self.sent.add(signal);
        // It may have ended by itself.
        _ = killpg(self.group, signal);
        // What is stopped does not hear it otherwise.
        if ENDS.contains(&signal) {
            _ = killpg(self.group, Signal::SIGCONT);
        }
    }

    /// Sends a signal to all that is left, also outside of the group.
    fn signal_all(&mut self, signal: Signal) {
        if self.left.group {
            self.signal_group(signal);
        }
        self.signal_others(signal);
    }

    /// Sends a signal to what is left outside of the group.
    fn signal_others(&self, signal: Signal) {
        let next = ENDS.contains(&signal).then_some(Signal::SIGCONT);
        for one in &self.left.others {
            for signal in std::iter::once(signal).chain(next) {
                _ = kill(*one, signal);
            }
        }
    }

    /// The signal of a key that was its end, and is not only for the command.
    pub(super) fn interrupt(&self, status: Status) -> Option<Interrupt> {
        Interrupt::of_command(status, self.sent, self.terminal.is_given())
    }

    /// The lease may have been renewed: the command may go on for longer.
    pub(crate) fn go_on(&mut self, lease: &Lease<'_>, teller: &Teller) -> Result<(), Failure> {
        self.guardian.guard(&self.family, lease.deadline(), teller)
    }

    /// Whether this process was stopped for so long that the guardian is to kill the group.
    pub(crate) fn was_forsaken(&mut self) -> bool {
        self.guardian.is_late()
    }

    /// Asks what is left of the command to end.
    pub(crate) fn ask_to_end(&mut self) {
        // First without a look, which takes its time.
        self.signal_group(Signal::SIGTERM);
        if !self.is_gone() {
            self.signal_others(Signal::SIGTERM);
        }
    }

    /// Waits for the end of what was asked to end, and kills it after the patience or when the lease
    /// is over. Returns when nothing is left.
    pub(crate) async fn end_all(
        &mut self,
        lease: &Lease<'_>,
        patience: Duration,
        signals: &mut Signals,
        teller: &Teller,
    ) {
        if !self.is_gone() {
            let (over, renewed) = (lease.over(), lease.renewed());
            tokio::pin!(over, renewed);
            let patient = timeout(patience, async {
                while !self.is_gone() {
                    tokio::select! {
                        () = &mut over => return,
                        () = &mut renewed => {
                            // Without a guardian, nobody waits any longer.
                            if self.go_on(lease, teller).is_err() {
                                return;
                            }
                            renewed.set(lease.renewed());
                        }
                        signal = signals.next() => self.signal_all(signal),
                        () = sleep(LOOK) => {}
                    }
                }
            });
            drop(patient.await);
        }
        let mut look = LOOK;
        // It is killed before it is looked at again, which takes its time.
        while !self.left.is_empty() {
            if self.family.kill(&self.left).is_err() {
                if look == LOOK {
                    teller.tell("the command cannot be killed: it belongs to another user");
                }
                look = LOOK_AT_WHAT_STAYS.min(look * 2);
            }
            sleep(look).await;
            self.look();
        }
        self.guardian.dismiss();
        self.terminal.take_back();
    }

    fn is_gone(&mut self) -> bool {
        self.look();
        self.left.is_empty()
    }

    /// Looks what is left, now and then, and at once when the group has ended.
    fn look(&mut self) {
        let has_group = self.family.has_group();
        let is_new = |(had, at): (bool, Instant)| had == has_group && at.elapsed() < LOOK_AT_ALL;
        if !self.looked.is_some_and(is_new) {
            self.left = self.family.left();
            self.looked = Some((has_group, Instant::now()));
        }
    }
}

fn file_name(program: &OsString) -> Option<OsString> {
    Some(Path::new(program).file_name()?.to_owned())
}

/// Does the work of the processes that the command starts of itself. `None` if this is none of
/// them; otherwise the exit code.
pub(crate) fn helper(mut arguments: impl Iterator<Item = OsString>) -> Option<u8> {
    let first = arguments.nth(1)?;
    if first == guardian::GUARD {
        return Some(guardian::guard());
    }
    if first == interrupt::END_BY {
        return interrupt::end_by(arguments);
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
    let mark = Family::of(Pid::from_raw(parent), Pid::this()).mark();
    if !is_let_through(gate) {
        return Some(OWN);
    }
    // This sets SIGPIPE to its default; whether it was ignored before, Rust's start of this program has made forgotten.
    let error = Command::new(&program).args(arguments).env(family::VARIABLE, mark).exec();
    tell(format_args!("cannot run {}: {error}", program.to_string_lossy()));
    Some(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// What is open, by its number. On Linux `/dev/fd` is a link, which a container may not have.
#[cfg(target_os = "linux")]
const OPEN: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const OPEN: &str = "/dev/fd";

/// Waits at the gate. The process that holds the lock may end there, or find that the lock is lost.
fn is_let_through(gate: RawFd) -> bool {
    let key = File::open(format!("{OPEN}/{gate}")).and_then(|mut gate| gate.read(&mut [0]));
    // It is not the command's.
    _ = close(gate);
    if let Err(error) = &key {
        tell(format_args!("cannot wait for the lock: {error}"));
    }
    key.is_ok_and(|length| length == 1)
}
