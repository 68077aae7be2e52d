//! kazoo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Agent, Figures, Load, Run, install};

/// Debian's 2.8 loses a wake-up in its read/write lock (kazoo #649).
const VERSION: &str = "kazoo==2.11.*";

/// kazoo in a Python environment of its own.
#[derive(Clone, Debug)]
pub struct Kazoo {
    python: PathBuf,
}

impl Kazoo {
    /// Installs kazoo from PyPI where no process has done so yet.
    ///
    /// # Panics
    ///
    /// As [`try_install`](Self::try_install) fails.
    pub fn install() -> Self {
        Self::try_install().unwrap_or_else(|why| panic!("{why}"))
    }

    /// Like [`install`](Self::install), for programs that can do without.
    ///
    /// # Errors
    ///
    /// When Python or its `venv` is not installed, or PyPI cannot be reached the first time.
    pub fn try_install() -> Result<Self, String> {
        let folder = install::once("kazoo", VERSION.as_bytes(), |folder| {
            let python = folder.join("bin/python");
            run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", VERSION];
            run(Command::new(python).args(pip))
        })?;
        Ok(Self { python: folder.join("bin/python") })
    }

    /// Returns the Python that has it.
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// Starts an agent and waits until it is connected.
    pub fn agent(&self, connect: &str, session_timeout: Duration) -> Agent {
        let mut command = self.script("kazoo_agent.py");
        Agent::start(command.arg(connect).arg(session_timeout.as_millis().to_string()))
    }

    /// Starts adding 1 to the number in a file, `n` times, each under a lock.
    pub fn counter(&self, connect: &str, lock: &str, file: &Path, n: usize) -> Run {
        let mut command = self.script("kazoo_counter.py");
        Run::start(command.args([connect, lock]).arg(file).arg(n.to_string()))
    }

    /// The same, with the names of Curator's nodes.
    pub fn counter_as_curator(&self, connect: &str, lock: &str, file: &Path, n: usize) -> Run {
        let mut command = self.script("kazoo_counter.py");
        command.args([connect, lock]).arg(file).arg(n.to_string());
        Run::start(command.arg("as-curator"))
    }

    /// Starts taking a lock `n` times, `rw`, `rw-as-curator` or `semaphore:LIMIT`; prints when it
    /// was inside.
    pub fn mix(&self, connect: &str, kind: &str, lock: &str, n: usize) -> Run {
        let mut command = self.script("kazoo_mix.py");
        Run::start(command.args([connect, kind, lock]).arg(n.to_string()))
    }

    /// Starts trying a lock for each id of a file, with the names of Curator's nodes; prints what came
    /// of it, and its path, and holds what it has got until the run is finished.
    pub fn names_as_curator(&self, connect: &str, above: &str, ids: &Path) -> Run {
        let mut command = self.script("kazoo_names.py");
        Run::start(command.args([connect, above]).arg(ids))
    }

    /// Measures the lock at `path`, after a warm-up (2 s do).
    pub fn bench(
        &self,
        connect: &str,
        path: &str,
        load: Load,
        time: Duration,
        warm_up: Duration,
    ) -> Figures {
        let mut command = self.script("kazoo_bench.py");
        command.args([connect, path]).args(load.args());
        command.args([time, warm_up].map(|time| time.as_secs_f64().to_string()));
        Figures::parse(&Run::start(&mut command).finish())
    }

    fn script(&self, name: &str) -> Command {
        let mut python = Command::new(&self.python);
        python.arg(install::sources("python").join(name));
        python
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|err| {
        format!("{command:?}: {err}; install it with: apt-get install python3-venv")
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let hint = "needs python3-venv, and PyPI once";
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed ({hint}): {said}"))
    }
}
