//! A place with locks, and the command `zklock` as an operator calls it.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use zklock_test_support::{RawClient, ZooKeeper};

#[path = "../run/until.rs"]
mod until;

use crate::documented::check;

use until::children;
pub(crate) use until::{BOUND, until};

/// The folder of zkCli.sh where Debian installed ZooKeeper.
const ZK_CLI: &str = "/usr/share/zookeeper/bin";

pub(crate) struct Scene {
    pub(crate) servers: String,
    pub(crate) root: String,
}

/// A process that ends with the test.
pub(crate) struct Running(Child);

impl Scene {
    /// On the server that all tests share.
    pub(crate) fn new(name: &str) -> Self {
        Scene::at(&ZooKeeper::shared().addr(), name)
    }

    pub(crate) fn at(servers: &str, name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = format!("/incident-{name}-{}-{number}", std::process::id());
        Scene { servers: servers.to_owned(), root }
    }

    /// With the root `/`.
    pub(crate) fn bare(servers: &str) -> Self {
        Scene { servers: servers.to_owned(), root: "/".to_owned() }
    }

    /// The same locks, by another server.
    pub(crate) fn by(&self, servers: &str) -> Self {
        Scene { servers: servers.to_owned(), root: self.root.clone() }
    }

    /// The path of a lock, as other clients name it.
    pub(crate) fn path(&self, lock: &str) -> String {
        format!("{}/{lock}", self.root.trim_end_matches('/'))
    }

    /// The server that is asked.
    fn first(&self) -> &str {
        self.servers.split(',').next().unwrap()
    }

    pub(crate) fn raw(&self) -> RawClient {
        // Servers that elect a leader again, as on a busy machine, end a connection without a word.
        until("a server opens a session", || RawClient::connect(self.first(), BOUND).ok())
    }

    /// A command with the settings of these locks.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let zklock = Path::new(env!("CARGO_BIN_EXE_zklock")).parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{zklock}:{ZK_CLI}:{path}"));
        command.env("ZKLOCK_CONNECT", &self.servers).env("ZKLOCK_ROOT", &self.root);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts `zklock`.
    pub(crate) fn start(&self, session_timeout: &str, arguments: &[&str]) -> Running {
        let mut command = self.command("zklock");
        command.env("ZKLOCK_SESSION_TIMEOUT", session_timeout).args(arguments);
        Running(command.spawn().unwrap())
    }

    /// Starts a command that holds a lock until it is killed, and waits until it holds it.
    pub(crate) fn holder(&self, session_timeout: &str, arguments: &[&str]) -> Running {
        let lock = arguments[0];
        let before = self.nodes(lock).len();
        let arguments = [&["run"], arguments, &["--", "sleep", "1000"]].concat();
        let holder = self.start(session_timeout, &arguments);
        until("it has a node", || (self.nodes(lock).len() > before).then_some(()));
        holder
    }

    /// Starts a command that waits for a lock, and waits until it is in the queue.
    pub(crate) fn waiter(&self, arguments: &[&str]) -> Running {
        let lock = arguments[0];
        let before = self.nodes(lock).len();
        let arguments = [&["run"], arguments, &["--timeout", "600s", "--", "true"]].concat();
        let waiter = self.start("10s", &arguments);
        until("it waits", || (self.nodes(lock).len() > before).then_some(()));
        waiter
    }

    /// The exit code of a command that needs a lock for a moment, and that nobody keeps waiting.
    pub(crate) fn takes(&self, lock: &str) -> i32 {
        let arguments = ["run", lock, "--timeout", "60s", "--retries", "1", "--", "true"];
        self.start("10s", &arguments).code()
    }

    pub(crate) fn nodes(&self, lock: &str) -> Vec<String> {
        children(self.first(), &self.path(lock))
    }

    /// Not within a second, because many servers share few processors here.
    fn ask_why(&self, lock: &str, more: &[&str]) -> Output {
        let why = ["why", lock, "--within", "20s"];
        self.command("zklock").args(why).args(more).output().unwrap()
    }

    /// What `zklock why` tells programs.
    pub(crate) fn why(&self, lock: &str) -> Value {
        let output = self.ask_why(lock, &["--json"]);
        let printed = String::from_utf8_lossy(&output.stdout);
        let value: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{output:?}"));
        check(&value, "why", "why");
        let wrong = value["problems"].as_array().unwrap().iter().any(|one| one["normal"] == false);
        assert_eq!(output.status.code(), Some(i32::from(wrong)));
        value
    }

    /// What `zklock why` tells programs, after it has told people these words.
    pub(crate) fn says(&self, lock: &str, words: &str) -> Value {
        let output = self.ask_why(lock, &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        println!("{text}");
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words.trim()));
        self.why(lock)
    }

    /// Waits until `zklock why` names this cause, also within its default second, and returns the commands that
    /// it advises. Fails if it tells people anything else.
    pub(crate) fn cause(&self, lock: &str, code: &str) -> Vec<String> {
        let problem = until(&format!("why names {code}"), || {
            let why = self.why(lock);
            let problems = why["problems"].as_array().unwrap().clone();
            let found = problems.into_iter().find(|problem| problem["code"] == code);
            if found.is_none() {
                println!("{why}");
            }
            found
        });
        self.named_in_a_second(lock, code);
        let helps = problem["helps"].as_array().unwrap().iter();
        let helps: Vec<_> = helps.map(|help| help.as_str().unwrap().to_owned()).collect();
        let output = self.ask_why(lock, &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        println!("{text}");
        for words in of_the_runbook(code) {
            assert!(problem["says"].as_str().unwrap().contains(&words), "the runbook says {words}");
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        // Times go on meanwhile; the first words do not.
        let begins = words(problem["says"].as_str().unwrap())[..4].join(" ");
        assert!(words(&text).join(" ").contains(&begins), "{begins}");
        assert!(helps.iter().all(|help| text.contains(help)), "{helps:?}");
        helps
    }

    /// The command that deletes the node of the only holder, and nothing else. The lock of a holder that is gone comes
    /// free by itself in the end: that it does after an advice does not show that the advice helps.
    pub(crate) fn breaks(&self, lock: &str) -> String {
        let why = self.why(lock);
        let [one] = &why["holders"].as_array().unwrap()[..] else { panic!("{why}") };
        let [node, czxid] = ["node", "czxid"].map(|field| one[field].as_str().unwrap());
        format!("zklock break {lock} --node {node} --czxid {czxid}")
    }

    /// Does what is advised, in a shell, and says yes where it is asked.
    pub(crate) fn follow(&self, advice: &str) {
        println!("$ {advice}");
        let mut shell =
            self.command("sh").args(["-c", advice]).stdin(Stdio::piped()).spawn().unwrap();
        // One that asks nothing may have ended.
        let _ = shell.stdin.take().unwrap().write_all(b"y\n");
        let output = shell.wait_with_output().unwrap();
        println!("{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{advice}: {output:?}");
    }
}

/// The words that the runbook quotes for a cause.
fn of_the_runbook(code: &str) -> Vec<String> {
    let runbook = include_str!("../../../docs/runbook.md");
    let cell = format!(" | `{code}` | ");
    let row = runbook.lines().find_map(|line| Some(line.split_once(&cell)?.0));
    let row = row.unwrap_or_else(|| panic!("the runbook does not know {code}"));
    let quoted: Vec<_> = row.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(!quoted.is_empty(), "the runbook quotes nothing for {code}");
    quoted
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), signal).unwrap();
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends it as an operator does, and waits until it has ended.
    pub(crate) fn end(mut self) {
        self.signal(Signal::SIGTERM);
        self.0.wait().unwrap();
    }

    pub(crate) fn stop(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills it.
    pub(crate) fn crash(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end, and returns its exit code.
    pub(crate) fn code(mut self) -> i32 {
        let code = until("it ends", || self.0.try_wait().unwrap()).code();
        code.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
