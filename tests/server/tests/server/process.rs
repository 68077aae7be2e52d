//! A process of its own: this test binary again, with its part in the environment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{env, thread};

use zklock::Session;
use zklock::blocking::{Mutex, block_on};

use crate::bed::Bed;

/// What the process does once it holds the lock `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nothing more.
    Hold,
    /// Drops its guard, closes its session and exits at once.
    Leave,
}

/// A process that holds the lock `a`; killed when this is dropped.
pub(crate) struct Process(Child);

impl Process {
    /// Starts it and waits until it holds the lock.
    pub(crate) fn start(bed: &Bed, part: Part, session_timeout: Duration) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["process::child", "--exact", "--ignored", "--nocapture"])
            .env("ZKLOCK_PART", format!("{part:?}"))
            .env("ZKLOCK_SERVERS", bed.server().addr())
            .env("ZKLOCK_ROOT", bed.path(""))
            .env("ZKLOCK_SESSION_TIMEOUT", session_timeout.as_millis().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let process = Process(child);
        let held = lines.map_while(Result::ok).any(|line| line == "held");
        assert!(held, "the process ended without the lock");
        process
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "what other tests run as a process of its own"]
fn child() {
    let said = |name| env::var(name).unwrap();
    let timeout = Duration::from_millis(said("ZKLOCK_SESSION_TIMEOUT").parse().unwrap());
    let builder = Session::builder(said("ZKLOCK_SERVERS"))
        .root(said("ZKLOCK_ROOT").trim_end_matches('/'))
        .session_timeout(timeout);
    let session = block_on(builder.connect()).unwrap();
    let guard = Mutex::from(session.mutex("a").unwrap()).acquire().unwrap();
    println!("\nheld");
    if said("ZKLOCK_PART") == format!("{:?}", Part::Hold) {
        thread::sleep(Duration::from_secs(600));
    }
    drop(guard);
    block_on(session.close());
    std::process::exit(0);
}
