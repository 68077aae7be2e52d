//! `zklock run`: a command that runs while a lock is held, and never without it.

mod child;
mod family;
mod guardian;
mod interrupt;
mod lease;
mod reaper;
mod teller;
mod terminal;

use std::error::Error;
use std::future::pending;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zklock::{AnyGuard, AnyLock, ErrorKind, Label, LockError, LockOptions, Session};

use self::child::Child;
pub(crate) use self::child::helper;
use self::interrupt::Interrupt;
use self::lease::Lease;
use self::reaper::{Status, keep_ends};
use self::teller::Teller;
use crate::args::{Mode, Run};
use crate::exit::{Failure, LOST};
use crate::server::{is_embedded, open, trouble};
use crate::signals::{Signals, exit_code};
use crate::text::printable;

/// The signals that are handed on to the command.
const HANDED_ON: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// The signal of the guardian.
const KILLED: i32 = Signal::SIGKILL as i32;

/// For how long a command may go on after it was asked to end, while the lock is held.
const TO_END: Duration = Duration::from_secs(10);

/// How long the release and the end of the session may take.
const TO_LEAVE: Duration = Duration::from_secs(5);

/// How long of that no signal cuts short: a second one may come with the first, which ended the wait, and what is left in
/// the queue then stays for a session timeout.
const TO_LEAVE_UNDISTURBED: Duration = Duration::from_secs(1);

/// How it ends when the lock is released.
#[derive(Debug)]
struct Ending {
    code: u8,
    /// A signal by which it ends, where it can.
    interrupt: Option<Interrupt>,
}

/// Acquires the lock, runs the command, and releases the lock. Returns the exit code.
pub(crate) async fn run(args: Run) -> Result<u8, Failure> {
    keep_ends()?;
    let mut signals = Signals::of(&HANDED_ON)?;
    let teller = Teller::start()?;
    if let Some(warning) = args.label.as_deref().and_then(cut) {
        teller.tell(warning);
    }
    if is_embedded() {
        teller.tell("warning: the lock is in the memory of this process (embedded): it excludes nobody else");
    }
    // Who waits for the lock waits for servers that start again, too.
    let session = open()?;
    let outcome = run_with(&args, &session, &mut signals, &teller).await;
    let is_disturbed = async {
        sleep(TO_LEAVE_UNDISTURBED).await;
        signals.next().await
    };
    // Also who gave up has nodes until the session ends.
    tokio::select! {
        _ = timeout(TO_LEAVE, session.close()) => {}
        _ = is_disturbed => {}
    }
    teller.end();
    let ending = outcome?;
    Ok(ending.interrupt.map_or(ending.code, Interrupt::end))
}

async fn run_with(
    args: &Run,
    session: &Session,
    signals: &mut Signals,
    teller: &Teller,
) -> Result<Ending, Failure> {
    let lock = lock(args, session)?;
    let acquired = tokio::select! {
        acquired = lock.acquire_tries() => acquired,
        signal = signals.next() => {
            let code = exit_code(signal as i32);
            return Ok(Ending { code, interrupt: Interrupt::of(signal) });
        }
    };
    let guard = match acquired {
        Ok(guard) => guard,
        Err(error) => return Err(not_acquired(&error, args.on_busy).await),
    };
    let ending = supervise(args, session, &guard, signals, teller).await?;
    // The command has ended: who waits next may go on.
    if let Ok(Err(error)) = timeout(TO_LEAVE, guard.release()).await {
        teller.tell(format_args!("{error:#}"));
        if error.is_lost() {
            return Ok(Ending { code: LOST, interrupt: None });
        }
    }
    Ok(ending)
}

fn lock(args: &Run, session: &Session) -> Result<AnyLock, Failure> {
    let mut options = LockOptions::new();
    if let Some(timeout) = args.timeout {
        options = options.timeout(timeout);
    }
    if let Some(retries) = args.retries {
        options = options.retries(retries);
    }
    if let Some(label) = &args.label {
        options = options.label(label);
    }
    let name = args.name.as_str();
    Ok(match args.mode {
        Mode::Mutex => AnyLock::Mutex(session.mutex(name)?.with_options(options)),
        Mode::Read => AnyLock::Read(session.rw_lock(name)?.with_options(options)),
        Mode::Write => AnyLock::Write(session.rw_lock(name)?.with_options(options)),
        Mode::Semaphore(limit) => {
            AnyLock::Permits(session.semaphore(name, limit)?.with_options(options), 1)
        }
    })
}

/// Why the lock was not acquired. An attempt to connect may take longer than all tries, which then end before it has said
/// why it fails.
async fn not_acquired(error: &LockError, on_busy: u8) -> Failure {
    let mut failure = Failure::of_acquire(error, on_busy);
    if error.kind() == ErrorKind::Unavailable
        && error.source().is_none()
        && let Some(why) = trouble().await
    {
        failure.message += &printable(&format!(": {why:#}"));
    }
    failure
}

/// What is not told of a label to those who look at the lock, because it is too long for a node.
fn cut(label: &str) -> Option<String> {
    let kept = Label::new(label);
    let is_cut = label.chars().filter(|c| !c.is_control()).ne(kept.chars());
    let most = Label::LONGEST;
    is_cut.then(|| {
        format!("warning: --label is longer than {most} bytes, and is cut to {:?}", &*kept)
    })
}

/// Runs the command under the guard, until it and all that it started in its session have ended.
async fn supervise(
    args: &Run,
    session: &Session,
    guard: &AnyGuard,
    signals: &mut Signals,
    teller: &Teller,
) -> Result<Ending, Failure> {
    let lease = Lease::of(guard, session)?;
    // `^Z` does not stop who holds a lock, where it reaches this process and not the command.
    let _unheeded = Signals::of(&[Signal::SIGTSTP])?;
    let environment = [
        ("ZKLOCK_NAME", guard.lock_name().to_owned()),
        ("ZKLOCK_TOKEN", guard.fencing_token().to_string()),
    ];
    let mut child = Child::start(&args.command, &lease, environment)?;
    let over = args.hold_at_most.and_then(|limit| Instant::now().checked_add(limit));
    let over = async {
        match over {
            Some(over) => sleep_until(over).await,
            None => pending().await,
        }
    };
    let renewed = lease.renewed();
    tokio::pin!(over, renewed);
    let mut heeds_wishes = args.revocable;
    let ended = loop {
        tokio::select! {
            status = child.ended() => break Ok(status),
            () = lease.nearly_over() => break Err(lost("the lock is lost")),
            () = &mut renewed => {
                if let Err(failure) = child.go_on(&lease, teller) {
                    break Err(failure);
                }
                renewed.set(lease.renewed());
            }
            () = &mut over => break Err(lost("the lock was held for as long as it may be")),
            () = guard.revoked(), if heeds_wishes => {
                heeds_wishes = false;
                child.signal_group(Signal::SIGTERM);
                teller.tell("somebody asks for the lock: the command was asked to end");
            }
            signal = signals.next() => child.signal_group(signal),
        }
    };
    let ended = match ended {
        Ok(Status::Killed(KILLED)) if child.was_forsaken() => Err(lost(guardian::STOPPED)),
        ended => ended,
    };
    // Before the terminal is taken back.
    let interrupt = ended.as_ref().ok().and_then(|status| child.interrupt(*status));
    // Whatever it has started must not go on without the lock.
    child.ask_to_end();
    if let Err(why) = &ended {
        teller.tell(format_args!("{}: ending the command", why.message));
    }
    child.end_all(&lease, TO_END, signals, teller).await;
    let code = match ended {
        Ok(Status::Exited(code)) => code,
        Ok(Status::Killed(signal)) => exit_code(signal),
        Err(why) => why.code,
    };
    Ok(Ending { code, interrupt })
}

fn lost(message: &str) -> Failure {
    Failure { code: LOST, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_is_cut_is_told_and_others_are_not() {
        let longest = "x".repeat(Label::LONGEST);
        assert_eq!(cut(&longest), None);
        // Control characters never go into a node.
        assert_eq!(cut(&format!("{longest}\n")), None);
        let told = format!("warning: --label is longer than 78 bytes, and is cut to \"{longest}\"");
        assert_eq!(cut(&format!("{longest}y")), Some(told));
    }
}
