//! A client in a process of its own, behind proxies of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use zklock_checker::Answer;
use zklock_test_support::{Ensemble, Proxy, monotonic_ns};

use super::hands::Hands;
use super::history::Writer;
use super::run::SESSION_TIMEOUT;
use super::work::Work;

/// Where the locks are.
pub(super) const ROOT: &str = "/fire";

/// A place where one process after the other runs.
#[derive(Debug)]
pub(super) struct Seat {
    number: usize,
    /// One in front of each server.
    pub(super) proxies: Vec<Proxy>,
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
        program: PathBuf,
        history: Arc<Writer>,
        work: Arc<Work>,
    ) -> Self {
        let servers = ensemble.servers().iter();
        let proxies = servers.map(|server| Proxy::start(server.socket_addr())).collect();
        Seat { number, proxies, program, history, running: Mutex::default(), work }
    }

    /// Starts the next process here.
    pub(super) fn start(&self, incarnation: u64) {
        let name = format!("c{}.{incarnation}", self.number);
        let servers: Vec<_> = self.proxies.iter().map(Proxy::addr).collect();
        let timeout = SESSION_TIMEOUT.as_millis();
        let start = json!({ "session_timeout_ms": timeout });
        self.history.note(json!({ "client": name, "start": start }));
        let mut child = Command::new(&self.program)
            .args(["--connect", &servers.join(","), "--root", ROOT])
            .args(["--session-timeout-ms", &timeout.to_string()])
            // Nobody judges it; it is in the history for who reads that.
            .arg("--tell-losses")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("lock_agent starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let stdin = Arc::new(Mutex::new(Some(stdin)));
        let (heard, answers) = channel();
        let (history, who) = (self.history.clone(), name.clone());
        let listener = thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // A line that is cut off by a kill is none.
                if let Ok(answer) = serde_json::from_str::<Answer>(&line) {
                    history.said(&who, "out", &line);
                    _ = heard.send(answer);
                }
            }
        });
        let (history, work, to) = (self.history.clone(), self.work.clone(), stdin.clone());
        let (client, who) = ((self.number, incarnation), name.clone());
        let reader = thread::spawn(move || {
            let send = |line: &Value| {
                let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(to) = to.as_mut() {
                    let line = line.to_string();
                    history.said(&who, "in", &line);
                    // Fails where the process was killed.
                    _ = to.write_all(format!("{line}\n").as_bytes());
                }
            };
            let mut hands = Hands::begin(&work, client, send);
            loop {
                let time = hands.due();
                match answers.recv_timeout(time) {
                    Ok(answer) => hands.go_on(&answer),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            hands.gone();
            _ = listener.join();
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

    /// Who is here, and the number of its process.
    pub(super) fn process(&self) -> Option<(String, u32)> {
        self.lock().as_ref().map(|running| (running.name.clone(), running.child.id()))
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(running) = self.lock().as_ref() {
            _ = kill_process(Pid::from_child(&running.child), signal);
        }
    }

    /// Kills the process (SIGKILL).
    pub(super) fn kill(&self) {
        let Some(mut running) = self.lock().take() else { return };
        // Not when it is buried: on a busy machine that takes seconds.
        let from = monotonic_ns();
        _ = running.child.kill();
        _ = running.child.wait();
        drop(running.stdin);
        _ = running.reader.join();
        self.history.note(json!({ "client": running.name, "end": "killed", "from_ns": from }));
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
