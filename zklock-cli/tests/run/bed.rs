//! Commands that run under locks.

use std::io::{Write, stderr};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zklock_test_support::{CreateMode, RawClient, ZooKeeper, is_long};

#[path = "until.rs"]
mod until;

pub(crate) use until::{BOUND, children, until};

/// A root of its own on the shared server, and a folder.
pub(crate) struct Bed {
    root: String,
    pub(crate) folder: PathBuf,
}

impl Bed {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let one = format!("zklock-run-{name}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&one);
        std::fs::create_dir_all(&folder).unwrap();
        Bed { root: format!("/{one}"), folder }
    }

    /// The command with these arguments, on the shared server.
    pub(crate) fn zklock(&self, arguments: &[&str]) -> Command {
        self.zklock_at(&ZooKeeper::shared().addr(), arguments)
    }

    pub(crate) fn zklock_at(&self, servers: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zklock"));
        command.args(["--connect", servers, "--root", &self.root]).args(arguments);
        // Nobody looks silent or loses a lock because the machine is busy: with 4 s, what stood still for
        // 2.4 s lost it.
        command.env("ZKLOCK_SESSION_TIMEOUT", "20s").current_dir(&self.folder);
        // Who does not say how long it waits gets the lock, however slow the machine is.
        command.env("ZKLOCK_TIMEOUT", "60s");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end. Again if ZooKeeper does not answer, as on a busy machine: nothing was done then.
    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        until("ZooKeeper answers", || {
            let output = self.zklock(arguments).output().unwrap();
            (output.status.code() != Some(69)).then_some(output)
        })
    }

    /// The exit code with which it ends.
    pub(crate) fn code(&self, arguments: &[&str]) -> i32 {
        let output = self.output(arguments);
        println!("{arguments:?}: {output:?}");
        output.status.code().unwrap()
    }

    /// The path of something below the root.
    pub(crate) fn path(&self, below: &str) -> String {
        format!("{}/{below}", self.root)
    }

    /// The nodes in a lock's queue.
    pub(crate) fn nodes(&self, lock: &str) -> Vec<String> {
        let directory = format!("{}/{lock}", self.root);
        let children = children(&ZooKeeper::shared().addr(), &directory);
        children.into_iter().map(|child| format!("{directory}/{child}")).collect()
    }

    /// Waits until these are dead: until then, nobody else has the lock `a`.
    pub(crate) fn until_dead(&self, pids: &[Pid]) {
        until("their end", || {
            // In this order: when they are dead, the node may go.
            let is_held = self.nodes("a").len() == 1;
            let dead = all_dead(pids);
            assert!(dead || is_held);
            dead.then_some(())
        });
    }

    /// Two wait for the only permit of `a`, which another command holds.
    pub(crate) fn permits(&self) -> (Child, [Child; 2]) {
        let semaphore = ["run", "a", "--mode", "semaphore:1", "--timeout", "60s", "--"];
        let run = |command: &[&str]| self.zklock(&[&semaphore, command].concat()).spawn().unwrap();
        let holder = run(&["sh", "-c", TWO]);
        self.lines("pids", 2);
        let waiters = [(); 2].map(|()| run(&["true"]));
        until("both wait", || {
            let nodes = [self.nodes("a/leases").len(), self.nodes("a/locks").len()];
            (nodes == [2, 2]).then_some(())
        });
        (holder, waiters)
    }

    /// Waits until a file has been written to its end, which is a line, and returns its lines.
    pub(crate) fn lines(&self, file: &str, count: usize) -> Vec<String> {
        until(&format!("{count} lines in {file}"), || {
            let text = std::fs::read_to_string(self.folder.join(file)).ok()?;
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            (lines.len() >= count && text.ends_with('\n')).then_some(lines)
        })
    }

    /// Waits until two processes have written their numbers.
    pub(crate) fn pids(&self, file: &str) -> Vec<Pid> {
        let lines = self.lines(file, 2);
        lines.iter().map(|line| Pid::from_raw(line.trim().parse().unwrap())).collect()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn raw() -> RawClient {
    RawClient::connect(&ZooKeeper::shared().addr(), BOUND).unwrap()
}

/// Tells that a test cannot do its work here: a failure in the long form, which has to do all of it.
pub(crate) fn skipped(why: &str) {
    assert!(!is_long(), "{why}");
    // What macros print is shown only where a test fails.
    let mut shown = stderr();
    writeln!(shown, "SKIPPED, {why}").unwrap();
}

/// Makes a node and those above it.
pub(crate) fn make(client: &mut RawClient, path: &str, data: &[u8], mode: CreateMode) {
    for (at, _) in path.match_indices('/').skip(1) {
        let _ = client.create(&path[..at], b"", CreateMode::Persistent);
    }
    client.create(path, data, mode).unwrap();
}

/// Nodes of a mutex in two layouts.
pub(crate) const CURATORS: &str = "_c_be2ee212-c507-4b18-a733-81c86278175c-lock-0000000000";
pub(crate) const KAZOOS: &str = "be2ee212c5074b18a73381c86278175c__lock__0000000001";

/// A command, run by another one, with its settings: without them it would give up after four seconds, in
/// which a busy machine may not even connect.
pub(crate) fn through(by: &[&str], inner: &Command) -> Command {
    let mut outer = Command::new(by[0]);
    outer.args(&by[1..]).arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.current_dir(inner.get_current_dir().unwrap());
    outer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    outer
}

/// A shell and a program that it waits for: both write their numbers.
pub(crate) const TWO: &str = "echo $$ > pids; sleep 1000 & echo $! >> pids; wait";

pub(crate) fn all_dead(pids: &[Pid]) -> bool {
    pids.iter().all(|pid| !is_alive(*pid))
}

pub(crate) fn is_alive(process: Pid) -> bool {
    // Of a zombie only its exit code is left.
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = state.rsplit(')').next().unwrap_or_default().trim_start().to_owned();
    kill(process, None) != Err(Errno::ESRCH) && !state.starts_with('Z')
}

pub(crate) fn signal(process: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), signal).unwrap();
}

/// The process that guards the group of a `zklock`.
pub(crate) fn guardian(of: u32) -> Pid {
    until("its guardian", || find_guardian(of))
}

pub(crate) fn find_guardian(of: u32) -> Option<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|one| one.file_name().to_str()?.parse().ok()).find_map(|number: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let mut words = rest.split(' ');
        let (state, parent) = (words.next()?, words.next()?);
        let guards = name == "lock-guardian" && parent == of.to_string() && state != "Z";
        guards.then_some(Pid::from_raw(number))
    })
}
