//! The server's life.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::builder::Builder;
use super::four_letter::{self, ServerSession};
use super::snapshot;
use crate::port::ReservedPort;
use crate::process::{Folder, Process};
use crate::scratch;

/// How long a server may take to serve. It needs half a second on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A real server on 127.0.0.1, with its own port and its own folder.
///
/// It is killed and its folder removed when this value is dropped, and also when the test process
/// is killed.
#[derive(Debug)]
pub struct ZooKeeper {
    builder: Builder,
    port: ReservedPort,
    // Before the folder: fields are dropped in order, and a live server would fill it again.
    process: Mutex<Option<Process>>,
    folder: Folder,
}

impl ZooKeeper {
    /// Starts a server with the default settings and waits until it serves.
    ///
    /// # Panics
    ///
    /// When Java or ZooKeeper is not installed, or the server does not come up.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Returns the settings to change before [`Builder::start`].
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the server that all tests of this process share, with the default settings, and more memory:
    /// many sessions that list long queues at the same time fill 128 MB with answers that wait to be sent.
    ///
    /// Starting one costs about a second of CPU time. Use a root path of your own in it, and
    /// never stop it: other tests run on it at the same time.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ZooKeeper> = OnceLock::new();
        SHARED.get_or_init(|| Self::builder().heap_mb(512).start())
    }

    pub(super) fn launch(builder: Builder) -> Self {
        for _ in 0..4 {
            let server = Self::prepare(builder.clone(), ReservedPort::reserve(), &[]);
            server.spawn();
            if server.wait_until_serving() {
                return server;
            }
            // The port is reserved, so only a program that ignores reservations can be there.
            assert!(server.port_was_taken(), "{}", server.failure());
        }
        panic!("four ports in a row were taken by others");
    }

    /// Lays out the folder; `members` are the lines that name an ensemble's servers.
    pub(super) fn prepare(builder: Builder, port: ReservedPort, members: &[String]) -> Self {
        let folder = Folder(scratch::create("zookeeper"));
        let mut cfg = builder.cfg(&folder.0, port.number());
        cfg.extend(members.iter().map(|line| format!("{line}\n")));
        let data = folder.0.join("data");
        fs::create_dir(&data).expect("the folder is new");
        fs::write(folder.0.join("zoo.cfg"), cfg).expect("the folder is ours");
        if !builder.counters().is_empty() {
            snapshot::write(&data, builder.counters());
        }
        for (name, text) in builder.files() {
            fs::write(folder.0.join(name), text).expect("the folder is ours");
        }
        Self { builder, port, process: Mutex::new(None), folder }
    }

    /// Makes this the member with this id of an ensemble.
    pub(super) fn set_id(&self, id: usize) {
        fs::write(self.folder.0.join("data/myid"), id.to_string()).expect("the folder is ours");
    }

    /// Starts the process and does not wait for it.
    pub(super) fn spawn(&self) {
        let log = File::create(self.log_path()).expect("the folder is ours");
        let mut command = self.builder.command();
        command.current_dir(&self.folder.0).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file descriptor")).stderr(log);
        let process = Process::spawn(&mut command, Some(&self.folder.0))
            .unwrap_or_else(|err| panic!("cannot start java: {err}"));
        *self.process() = Some(process);
    }

    /// Returns where clients connect, as `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        self.socket_addr().to_string()
    }

    /// Returns where clients connect.
    pub fn socket_addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Returns the port where clients connect.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the process id while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::id)
    }

    /// Freezes the server (SIGSTOP): connections stay open and nothing is answered. Returns when
    /// it stands still.
    pub fn pause(&self) {
        self.process().as_ref().expect("the server was killed").pause();
    }

    /// Thaws the server (SIGCONT).
    pub fn resume(&self) {
        self.process().as_ref().expect("the server was killed").resume();
    }

    /// Kills the server (SIGKILL) and returns when the process is gone. Port and data stay.
    pub fn kill(&self) {
        self.process().take();
    }

    /// Adds an ephemeral node to the data of a server that was killed, which no other server has and
    /// whose session is long over. Its parent must be there.
    ///
    /// # Panics
    ///
    /// When the parent is not there.
    pub fn plant(&self, path: &str) {
        snapshot::plant(&self.folder.0.join("data"), path);
    }

    /// Removes the data of a server that was killed. A member of an ensemble copies them from its leader
    /// when it starts again.
    ///
    /// # Panics
    ///
    /// When the folder cannot be removed.
    pub fn wipe(&self) {
        let data = self.folder.0.join("data/version-2");
        fs::remove_dir_all(data).expect("the folder is ours");
    }

    /// Kills the server where it runs, starts it on the same port and data, and waits until it
    /// serves.
    ///
    /// # Panics
    ///
    /// When it does not come up, as a member of an ensemble without a quorum does not; use
    /// [`relaunch`](Self::relaunch) for that.
    pub fn restart(&self) {
        self.relaunch();
        assert!(self.wait_until_serving(), "{}", self.failure());
    }

    /// Like [`restart`](Self::restart), but does not wait.
    pub fn relaunch(&self) {
        self.kill();
        self.spawn();
    }

    /// Waits until the server answers clients; false when it ended or took too long.
    pub fn wait_until_serving(&self) -> bool {
        let limit = Instant::now() + START_LIMIT;
        // A server that is about to serve may take a question and never answer it.
        let mut patience = Duration::from_millis(200);
        while Instant::now() < limit {
            let answer = four_letter::ask(self.socket_addr(), "srvr", patience);
            match answer {
                Ok(answer) if four_letter::mode(&answer).is_some() => return true,
                Err(error) if four_letter::is_timeout(&error) => {
                    patience = (patience * 2).min(four_letter::PATIENCE);
                }
                _ => {}
            }
            if !self.process().as_mut().is_some_and(Process::is_running) {
                return false;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Returns `standalone`, `leader` or `follower`, or `None` while the server does not serve.
    pub fn mode(&self) -> Option<String> {
        four_letter::mode(&self.four_letter("srvr").ok()?).map(str::to_owned)
    }

    /// Sends a four-letter word (`mntr`, `dump`, `cons` …) and returns the answer.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached or does not answer within 5 s.
    pub fn four_letter(&self, word: &str) -> std::io::Result<String> {
        four_letter::ask(self.socket_addr(), word, four_letter::PATIENCE)
    }

    fn ask(&self, word: &str) -> String {
        self.four_letter(word)
            .unwrap_or_else(|err| panic!("{} does not answer `{word}`: {err}", self.addr()))
    }

    /// Returns a number of the server's `mntr`, such as `zk_znode_count`.
    ///
    /// # Panics
    ///
    /// When the server does not answer or knows no such number.
    pub fn metric(&self, name: &str) -> u64 {
        four_letter::metric(&self.ask("mntr"), name)
            .unwrap_or_else(|| panic!("`mntr` has no `{name}`"))
    }

    /// Returns how many watches are set.
    pub fn watch_count(&self) -> u64 {
        self.metric("zk_watch_count")
    }

    /// Returns how many nodes there are; a new server has five.
    pub fn node_count(&self) -> u64 {
        self.metric("zk_znode_count")
    }

    /// Returns how many packets came in since the start, of all clients, pings and four-letter
    /// words included.
    pub fn packets_received(&self) -> u64 {
        self.metric("zk_packets_received")
    }

    /// Returns the answer to `dump`: sessions, their ephemeral nodes, connections.
    pub fn dump(&self) -> String {
        self.ask("dump")
    }

    /// Returns the live sessions with their ephemeral nodes.
    pub fn sessions(&self) -> Vec<ServerSession> {
        four_letter::sessions(&self.dump())
    }

    /// The same, of a server that may be broken just now.
    ///
    /// # Errors
    ///
    /// As [`four_letter`](Self::four_letter).
    pub fn try_sessions(&self) -> std::io::Result<Vec<ServerSession>> {
        self.four_letter("dump").map(|dump| four_letter::sessions(&dump))
    }

    /// Returns what the server logged since its last start: warnings and errors.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.folder.0.join("log")
    }

    fn port_was_taken(&self) -> bool {
        self.log().contains("BindException")
    }

    pub(super) fn failure(&self) -> String {
        let serves = self.mode().unwrap_or_else(|| "does not serve".to_owned());
        format!("ZooKeeper on {}: {serves}; its log:\n{}", self.addr(), self.log())
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
