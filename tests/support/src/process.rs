//! Child processes that never outlive the test.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process};

/// What the watchdog runs: wait until the pipe from the test process closes, then clean up.
///
/// `PR_SET_PDEATHSIG` would need no second process, but it fires when the *thread* that spawned
/// the child ends, and test threads end long before a shared server may.
const WATCHDOG: &str = r#"
read -r _
kill -KILL "$1" 2>/dev/null
tries=0
while kill -0 "$1" 2>/dev/null && [ "$tries" -lt 40 ]; do tries=$((tries + 1)); sleep 0.05; done
[ -z "$2" ] || rm -rf -- "$2"
"#;

/// A child that is killed when this value is dropped, or when the test process is gone.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    watchdog: Child,
}

impl Process {
    /// Starts the command; the watchdog also removes `folder` should the test process vanish.
    ///
    /// # Errors
    ///
    /// Whatever [`Command::spawn`] says.
    pub(crate) fn spawn(command: &mut Command, folder: Option<&Path>) -> io::Result<Self> {
        // Groups of their own: Ctrl-C must not take the watchdog along with the test.
        let mut child = command.process_group(0).spawn()?;
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", &child.id().to_string()])
            .arg(folder.map(Path::to_path_buf).unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match watchdog {
            Ok(watchdog) => Ok(Self { child, watchdog }),
            Err(err) => {
                _ = child.kill();
                _ = child.wait();
                Err(err)
            }
        }
    }

    /// Stops the child, and returns when all its threads stand still.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        // The signal is taken by each thread when it is next scheduled: on a busy machine some
        // still answer a request meanwhile.
        let limit = Instant::now() + Duration::from_secs(10);
        while !self.stands_still() {
            assert!(Instant::now() < limit, "process {} does not stop", self.child.id());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets a stopped child go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal)
            .unwrap_or_else(|err| panic!("cannot signal process {}: {err}", self.child.id()));
    }

    fn stands_still(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let states = tasks.into_iter().flatten().flatten().map(|task| {
            // "pid (name) state …", and the name may contain anything.
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
        });
        states.flatten().all(|state| state == 'T')
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Takes the child's ends of the pipes; it was spawned with both.
    pub(crate) fn pipes(&mut self) -> (ChildStdin, ChildStdout) {
        let pipes = self.child.stdin.take().zip(self.child.stdout.take());
        pipes.expect("spawned with pipes, and not asked before")
    }

    /// Waits for the child's own end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("our own child")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL also ends a stopped process. The watchdog goes last, so that there is no
        // moment in which nobody would clean up.
        _ = self.child.kill();
        _ = self.child.wait();
        _ = self.watchdog.kill();
        _ = self.watchdog.wait();
    }
}

/// A folder that is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
