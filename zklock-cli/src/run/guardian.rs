//! A process that kills the command and all that it started when the process that holds the lock cannot do so.
//!
//! Where that process is killed, the parent-death signal ends the command alone, and not what it has
//! started: a shell would die, and the program that it waits for would go on without the lock. And
//! where that process is stopped, nobody renews the lease, and nobody notices its end.

use std::io::{self, ErrorKind, PipeWriter, Write, pipe, stdin};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, read};
use rustix::io::ioctl_fionread;

use super::family::Family;
use super::lease::{Lease, Moment};
use super::teller::Teller;
use crate::exit::{Failure, LOST};
use crate::server::to_spawn;

/// The first argument of the guardian.
pub(super) const GUARD: &str = "--guard-a-group";

/// What people see of it. It is not the command's name, because they end the command by that:
/// `pkill -9` would end both.
pub(super) const NAME: &str = "lock-guardian";

/// Why the lock is lost where the guardian was told too late.
pub(super) const STOPPED: &str = "zklock was stopped for longer than the lock is safe";

/// What the guardian is told when the group has ended.
const DISMISSED: &str = "dismissed";

/// The longest time for which it sleeps: its timer stands still while the machine is suspended.
const LONGEST: Duration = Duration::from_secs(1);

/// How many guardians are started before the command begins, where each is stopped or killed at once.
const TRIES: u32 = 10;

/// The guardian, and what it hears.
#[derive(Debug)]
pub(super) struct Guardian {
    pid: Pid,
    ear: PipeWriter,
    told: Moment,
    /// Until when it may be slow to begin, if it has not heard anything yet.
    begins: Option<Moment>,
    /// Whether it was told too late. It kills the group then, unless it was stopped or killed itself.
    late: bool,
}

impl Guardian {
    /// Starts one for a group that waits for it to hear its order. One that is stopped or killed before
    /// has a successor.
    pub(super) fn start(family: &Family, lease: &Lease<'_>) -> Result<Self, Failure> {
        for _ in 0..TRIES {
            let mut guardian = Self::start_with(family, lease.deadline())?;
            if guardian.hears() {
                return Ok(guardian);
            }
        }
        Err(Failure::own("the guardian is stopped or killed as soon as it is started"))
    }

    /// Starts it with an order, which it finds whatever becomes of this process.
    fn start_with(family: &Family, deadline: Moment) -> Result<Self, Failure> {
        let started = Self::spawn(family, deadline);
        started.map_err(|error| Failure::own(format!("cannot start the guardian: {error}")))
    }

    fn spawn(family: &Family, deadline: Moment) -> io::Result<Self> {
        let (stdin, mut ear) = pipe()?;
        // A guardian that does not listen must not stop this process.
        fcntl(ear.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        ear.write_all(order(family, deadline).as_bytes())?;
        let guardian =
            Command::new(to_spawn().map_err(|failure| io::Error::other(failure.message))?)
                .arg0(NAME)
                .arg(GUARD)
                .stdin(stdin)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // What is sent to this process's group is not for the guardian.
                .process_group(0)
                .spawn()?;
        let pid = Pid::from_raw(i32::try_from(guardian.id()).unwrap_or(i32::MAX));
        Ok(Guardian { pid, ear, told: deadline, begins: Some(deadline), late: false })
    }

    /// Waits until it has heard what it was told, or it is too late for that. False if it never will.
    fn hears(&mut self) -> bool {
        while ioctl_fionread(&self.ear).is_ok_and(|unheard| unheard > 0) && !self.is_late() {
            match waitpid(self.pid, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::StillAlive) => sleep(Duration::from_millis(1)),
                Ok(WaitStatus::Stopped(..)) => {
                    _ = kill(self.pid, Signal::SIGKILL);
                    return false;
                }
                _ => return false,
            }
        }
        true
    }

    /// From now on, the end of this process is the end of the group, and so is the deadline unless
    /// it is told a later one before. Fails where it is too late for that: it kills the group then, unless
    /// somebody has stopped or killed it as well.
    pub(super) fn guard(
        &mut self,
        family: &Family,
        deadline: Moment,
        teller: &Teller,
    ) -> Result<(), Failure> {
        if self.is_late() {
            return Err(Failure { code: LOST, message: STOPPED.to_owned() });
        }
        self.told = deadline;
        let Err(error) = self.hand_over(&order(family, deadline)) else { return Ok(()) };
        // Somebody has ended it (and then this process has waited for it), or it is stopped.
        if error.kind() != ErrorKind::BrokenPipe {
            // Before it could take the end of what it hears for the end of this process.
            _ = kill(self.pid, Signal::SIGKILL);
        }
        *self = Self::start_with(family, deadline)?;
        teller.tell(format_args!("the guardian did not listen: {error}; started another one"));
        Ok(())
    }

    /// Fails if it has ended, or has not heard yet what it was told half a heartbeat ago.
    fn hand_over(&mut self, order: &str) -> io::Result<()> {
        let unheard = ioctl_fionread(&self.ear)?;
        if unheard == 0 {
            self.begins = None;
        } else if self.begins.is_none_or(Moment::is_over) {
            return Err(io::Error::other("it is stopped"));
        }
        self.ear.write_all(order.as_bytes())
    }

    /// Whether the deadline passed before it was told a later one: it kills the group then.
    pub(super) fn is_late(&mut self) -> bool {
        self.late |= self.told.is_over();
        self.late
    }

    /// The group has ended: the guardian ends too.
    pub(super) fn dismiss(&mut self) {
        // If it is gone already, so much the better.
        _ = writeln!(self.ear, "{DISMISSED}");
    }
}

/// What a guardian is told.
fn order(family: &Family, deadline: Moment) -> String {
    format!("{} {}\n", deadline.millis(), family.words())
}

/// What the guardian does. Returns its exit code.
pub(super) fn guard() -> u8 {
    // It goes when it is told, and not with what is sent to all processes of a service.
    _ = SigSet::all().thread_block();
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"lock-guardian");
    let mut orders = Orders::default();
    loop {
        match heard(orders.patience()) {
            Ok(Some(words)) if !words.is_empty() => orders.take(&words),
            // Its master is gone.
            Ok(Some(_)) => break,
            // Nothing more was said: what is known is up to date.
            Ok(None) => orders.look(),
            Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    orders.kill();
    0
}

/// What is said within some time; nothing at the end.
fn heard(within: Option<Duration>) -> nix::Result<Option<Vec<u8>>> {
    let stdin = stdin();
    let mut ears = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let within = within.map_or(PollTimeout::NONE, |within| {
        // Upwards: it must be over afterwards.
        let millis = within.as_nanos().div_ceil(1_000_000);
        PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
    });
    if poll(&mut ears, within)? == 0 {
        return Ok(None);
    }
    let mut words = vec![0; 4096];
    let length = read(stdin.as_fd(), &mut words)?;
    words.truncate(length);
    Ok(Some(words))
}

/// What the guardian was told.
#[derive(Debug, Default)]
struct Orders {
    /// The beginning of a line.
    begun: Vec<u8>,
    /// Whom to kill, unless the group has ended.
    family: Option<Family>,
    deadline: Option<Moment>,
}

impl Orders {
    fn take(&mut self, words: &[u8]) {
        self.begun.extend_from_slice(words);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let line: Vec<_> = self.begun.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split_whitespace().peekable();
            if words.peek() == Some(&DISMISSED) {
                // The number of the group may be another's from now on.
                (self.family, self.deadline) = (None, None);
                continue;
            }
            let deadline = words.next().and_then(|millis| millis.parse().ok());
            self.deadline = deadline.map(Moment::of_millis);
            self.family = Family::of_words(words);
        }
    }

    /// How long nothing has to be done.
    fn patience(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.left().min(LONGEST))
    }

    fn look(&mut self) {
        if self.deadline.is_some_and(Moment::is_over) {
            self.kill();
        }
    }

    /// Once: later the number may be another group's.
    fn kill(&mut self) {
        self.deadline = None;
        if let Some(family) = self.family.take() {
            family.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_dismissed_kills_nobody() {
        let mut anothers = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        // Nothing is below a process of this number.
        let family = format!("{} {} 0", i32::MAX, anothers.id());
        let mut orders = Orders::default();
        orders.take(format!("1 {family}\n{DISMISSED}\n").as_bytes());
        orders.look();
        // Its master is gone, too.
        orders.kill();
        let lives = anothers.try_wait().unwrap().is_none();
        _ = anothers.kill();
        anothers.wait().unwrap();
        assert!(lives);
        assert_eq!(orders.patience(), None);
    }

    /// This process was stopped, and whether its guardian was, which may have heard all that it was told, is not known.
    #[test]
    fn where_it_is_too_late_the_lock_is_lost() {
        let teller = Teller::start().unwrap();
        let (_hears, ear) = pipe().unwrap();
        let told = Moment::of_millis(0);
        let mut guardian = Guardian { pid: Pid::this(), ear, told, begins: None, late: false };
        let family = Family::of(Pid::this(), Pid::this());
        let told = guardian.guard(&family, Moment::of_millis(u64::MAX), &teller);
        assert_eq!(told.unwrap_err().code, LOST);
    }
}
