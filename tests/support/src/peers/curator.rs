//! Apache Curator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Agent, Figures, Load, Run, install};
use crate::java;

const JARS: [&str; 8] = [
    "curator-recipes",
    "curator-framework",
    "curator-client",
    "zookeeper",
    "zookeeper-jute",
    "guava",
    "slf4j-api",
    "slf4j-nop",
];

/// Curator's programs, compiled.
#[derive(Clone, Debug)]
pub struct Curator {
    class_path: String,
}

impl Curator {
    /// Compiles the programs where no test process has done so yet.
    ///
    /// # Panics
    ///
    /// When the JDK or Curator is not installed.
    pub fn compile() -> Self {
        let jars = java::curator_class_path(&JARS);
        let folder = install::sources("java");
        let entries = fs::read_dir(&folder).expect("the sources are beside this crate");
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|ext| ext == "java"));
        files.push(folder.join("../../vectors/LockNames.java"));
        files.sort();
        let read = |file| fs::read(file).expect("a readable source");
        let key: Vec<u8> = files.iter().flat_map(read).chain(jars.bytes()).collect();
        let classes = install::once("curator", &key, |classes| {
            let mut javac = java::command("javac");
            javac.args(["-encoding", "UTF-8", "-cp", &jars, "-d"]).arg(classes).args(&files);
            let output = javac.output().expect("javac runs");
            let said = || String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(said()) }
        });
        let classes = classes.unwrap_or_else(|why| panic!("{why}"));
        Self { class_path: format!("{}:{jars}", classes.display()) }
    }

    /// Starts an agent and waits until it is connected.
    pub fn agent(&self, connect: &str, session_timeout: Duration) -> Agent {
        let mut command = self.java(&["-XX:TieredStopAtLevel=1"], "LockAgent");
        Agent::start(command.arg(connect).arg(session_timeout.as_millis().to_string()))
    }

    /// Starts adding 1 to the number in a file, `n` times, each under a mutex.
    pub fn counter(&self, connect: &str, lock: &str, file: &Path, n: usize) -> Run {
        let mut command = self.java(&["-XX:TieredStopAtLevel=1"], "CounterRun");
        Run::start(command.args([connect, lock]).arg(file).arg(n.to_string()))
    }

    /// Starts taking a lock `n` times, `rw` or `semaphore:LIMIT`; prints when it was inside.
    pub fn mix(&self, connect: &str, kind: &str, lock: &str, n: usize) -> Run {
        let mut command = self.java(&["-XX:TieredStopAtLevel=1"], "MixRun");
        Run::start(command.args([connect, kind, lock]).arg(n.to_string()))
    }

    /// Starts taking a mutex for each id of a file, and holds them until the run is finished; prints
    /// their paths.
    pub fn names(&self, connect: &str, above: &str, ids: &Path) -> Run {
        let mut command = self.java(&["-XX:TieredStopAtLevel=1"], "NamesRun");
        Run::start(command.args([connect, above]).arg(ids))
    }

    /// Measures the mutex at `path`, after a warm-up (5 s are needed for the JIT).
    pub fn bench(
        &self,
        connect: &str,
        path: &str,
        load: Load,
        time: Duration,
        warm_up: Duration,
    ) -> Figures {
        let mut command = self.java(&[], "MutexBench");
        command.args([connect, path]).args(load.args());
        command.args([time, warm_up].map(|time| time.as_secs_f64().to_string()));
        Figures::parse(&Run::start(&mut command).finish())
    }

    fn java(&self, options: &[&str], class: &str) -> Command {
        let mut java = java::command("java");
        java.args(["-Xmx256m", "-XX:+UseSerialGC"]).args(options);
        java.args(["-cp", &self.class_path, class]);
        java
    }
}
