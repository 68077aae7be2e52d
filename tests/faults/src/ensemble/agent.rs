//! A client in a process of its own, behind proxies of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use zklock_checker::Answer;
use zklock_test_support::{Ensemble, Proxy};

use super::history::Writer;
use super::work::Work;

/// Builds the agent as this program was built, and returns where it is.
pub(super) fn build() -> PathBuf {
    let own = std::env::current_exe().expect("a program has a path");
    let release = own.components().any(|part| part.as_os_str() == "release");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet", "--package", "zklock", "--example", "lock_agent"]);
    cargo.args(release.then_some("--release"));
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    assert!(cargo.status().expect("cargo runs").success(), "lock_agent does not build");
    let target = own.ancestors().find(|dir| dir.join("CACHEDIR.TAG").is_file());
    let profile = if release { "release" } else { "debug" };
    target.expect("built by cargo").join(profile).join("examples/lock_agent")
}

/// A place where one process after the other runs.
#[derive(Debug)]
pub(super) struct Seat {
    number: usize,
    /// One in front of each server.
    pub(super) proxies: Vec<Proxy>,
    options: Vec<String>,
    program: PathBuf,
    history: Arc<Writer>,
    running: Mutex<Option<Running>>,
    work: Arc<Work>,
}

#[derive(Debug)]
struct Running {
    name: String,
    child: Child,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    reader: JoinHandle<()>,
}

impl Seat {
    pub(super) fn new(
        number: usize,
        ensemble: &Ensemble,
        options: &[&str],
        program: PathBuf,
        history: Arc<Writer>,
        work: Arc<Work>,
    ) -> Self {
        let servers = ensemble.servers().iter();
        let proxies = servers.map(|server| Proxy::start(server.socket_addr())).collect();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Seat { number, proxies, options, program, history, running: Mutex::default(), work }
    }

    /// Which seat this is.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Starts the next process here.
    pub(super) fn start(&self, incarnation: u64) {
        let name = format!("c{}.{incarnation}", self.number);
        let servers: Vec<_> = self.proxies.iter().map(Proxy::addr).collect();
        let mut child = Command::new(&self.program)
            .args(["--connect", &servers.join(","), "--root", "/fire"])
            .args(&self.options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("lock_agent starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let stdin = Arc::new(Mutex::new(Some(stdin)));
        let (history, work, to) = (self.history.clone(), self.work.clone(), stdin.clone());
        let (seat, who) = (self.number as u64, name.clone());
        let fair = self.options.iter().any(|option| option == "--fair");
        let reader = thread::spawn(move || {
            let send = |line: &Value| {
                let line = line.to_string();
                history.said(&who, "in", &line);
                let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(to) = to.as_mut() {
                    // Fails where the process was killed.
                    _ = to.write_all(format!("{line}\n").as_bytes());
                }
            };
            let mut hands = work.begin(seat * 1_000 + incarnation, fair, &send);
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(answer) = serde_json::from_str::<Answer>(&line) else {
                    // Cut off by a kill.
                    continue;
                };
                history.said(&who, "out", &line);
                work.go_on(&mut hands, &answer, &send);
            }
            work.gone(&hands);
        });
        *self.lock() = Some(Running { name, child, stdin, reader });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is here.
    pub(super) fn name(&self) -> String {
        self.lock().as_ref().map_or_else(String::new, |running| running.name.clone())
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(running) = self.lock().as_ref() {
            _ = kill_process(Pid::from_child(&running.child), signal);
        }
    }

    /// Kills the process (SIGKILL).
    pub(super) fn kill(&self) {
        let Some(mut running) = self.lock().take() else { return };
        _ = running.child.kill();
        _ = running.child.wait();
        drop(running.stdin);
        _ = running.reader.join();
        self.history.note(json!({ "client": running.name, "end": "killed" }));
    }

    /// Ends the process in order, by the end of its input. Answers whether it went well.
    pub(super) fn quit(&self) -> bool {
        let Some(mut running) = self.lock().take() else { return true };
        running.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let status = running.child.wait();
        _ = running.reader.join();
        self.history.note(json!({ "client": running.name, "end": "quit" }));
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.kill();
    }
}
