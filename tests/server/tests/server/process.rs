//! A process of its own: this test binary again, with its part in the environment.

use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, thread};

use zklock::blocking::block_on;
use zklock::{LockOptions, Session, ZkLockTemplate};
use zklock_test_support::{RawClient, monotonic_ns};

use crate::bed::{Bed, PATIENCE, TICK};
use crate::kinds::{Held, all};

/// What the process does once it holds its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Nothing more.
    Hold,
    /// Reads its guard all the time, and says until when it was valid.
    Watch,
    /// Says whether its guard is valid, whenever it is [asked](Process::ask).
    Answer,
    /// The same, with a lease that is over long before the session: it takes a server's tick for half its timeout.
    Lose,
    /// Runs an async body under the lock `a`, which looks at the clock all the time; says when it did so last
    /// once the body has been dropped, and with which error its call failed.
    Body,
    /// Drops its guard, closes its session and exits at once.
    Leave,
    /// Holds nothing, and waits for [many](WANTED) locks, each on a thread of its own; says each that it gets.
    Wait,
    /// Holds nothing. Whenever it is asked, it comes in to read under the lock `a`, and says when it did and what it
    /// read; when it is asked once more, it reads once more and leaves.
    Read,
}

/// How many locks a process waits for, `m0` and so on.
pub(crate) const WANTED: usize = 10;

/// A process that holds the lock `a`, or one of each kind; killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    asked: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts it and waits until it holds the lock.
    pub(crate) fn start(bed: &Bed, part: Part, session_timeout: Duration) -> Self {
        Self::start_with(bed, part, session_timeout, [Duration::ZERO; 2])
    }

    /// The same with the lock's delay and shortest hold.
    pub(crate) fn start_with(
        bed: &Bed,
        part: Part,
        session_timeout: Duration,
        times: [Duration; 2],
    ) -> Self {
        Self::start_as(bed.server().addr(), bed, part, session_timeout, times, "a")
    }

    /// Starts one at another server.
    pub(crate) fn start_at(addr: String, bed: &Bed, part: Part, session_timeout: Duration) -> Self {
        Self::start_as(addr, bed, part, session_timeout, [Duration::ZERO; 2], "a")
    }

    /// Starts one that holds a lock of each kind instead. They are valid while one of them is.
    pub(crate) fn start_with_all(bed: &Bed, part: Part, session_timeout: Duration) -> Self {
        let addr = bed.server().addr();
        Self::start_as(addr, bed, part, session_timeout, [Duration::ZERO; 2], "all")
    }

    /// Starts one that waits for locks. It takes a server's tick for half the session timeout, too.
    pub(crate) fn waiting(bed: &Bed, session_timeout: Duration) -> Self {
        let addr = bed.server().addr();
        Self::start_as(addr, bed, Part::Wait, session_timeout, [Duration::ZERO; 2], "none")
    }

    /// Starts one that reads the data of a node below the root, whenever it is asked.
    pub(crate) fn reading(bed: &Bed, node: &str) -> Self {
        let (addr, timeout) = (bed.server().addr(), Duration::from_secs(20));
        Self::start_as(addr, bed, Part::Read, timeout, [Duration::ZERO; 2], node)
    }

    fn start_as(
        addr: String,
        bed: &Bed,
        part: Part,
        session_timeout: Duration,
        [delay, hold]: [Duration; 2],
        locks: &str,
    ) -> Self {
        let tick = match part {
            Part::Wait | Part::Lose => session_timeout / 2,
            _ => TICK,
        };
        let millis = |time: Duration| time.as_millis().to_string();
        let mut process = Process::of(
            "process::child",
            &[
                ("PART", format!("{part:?}")),
                ("LOCKS", locks.to_owned()),
                ("SERVERS", addr),
                ("ROOT", bed.path("")),
                ("SESSION_TIMEOUT", millis(session_timeout)),
                ("DELAY", millis(delay)),
                ("HOLD", millis(hold)),
                ("TICK", millis(tick)),
            ],
        );
        process.hears("held");
        process
    }

    /// Starts an ignored test of this binary, with these variables behind `ZKLOCK_`.
    pub(crate) fn of(test: &str, variables: &[(&str, String)]) -> Self {
        let variables = variables.iter().map(|(name, value)| (format!("ZKLOCK_{name}"), value));
        let mut child = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--ignored", "--nocapture"])
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asked = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Process { child, asked, said }
    }

    /// Waits for a line that begins so; answers the rest of it.
    pub(crate) fn hears(&mut self, word: &str) -> String {
        let mut lines = self.said.by_ref().map_while(Result::ok);
        let rest = lines.find_map(|line| line.strip_prefix(word).map(str::to_owned));
        rest.unwrap_or_else(|| panic!("the process ended before it said {word:?}"))
    }

    /// Asks whether its guard is valid; a process that is stopped hears it when it goes on.
    pub(crate) fn ask(&mut self) {
        self.asked.write_all(b"\n").unwrap();
    }

    /// Its answer to the first question that it has not answered.
    pub(crate) fn answer(&mut self) -> bool {
        self.hears("valid ").parse().unwrap()
    }

    /// Stops it (SIGSTOP).
    pub(crate) fn stop(&self) {
        self.signal("STOP");
    }

    /// Lets it go on (SIGCONT).
    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "what other tests run as a process of its own"]
fn child() {
    let said = |name| env::var(name).unwrap();
    let time = |name| Duration::from_millis(said(name).parse().unwrap());
    let timeout = time("ZKLOCK_SESSION_TIMEOUT");
    let builder = Session::builder(said("ZKLOCK_SERVERS"))
        .root(said("ZKLOCK_ROOT").trim_end_matches('/'))
        .tick_time(time("ZKLOCK_TICK"))
        .session_timeout(timeout);
    let session = block_on(builder.connect()).unwrap();
    let (delay, hold) = (time("ZKLOCK_DELAY"), time("ZKLOCK_HOLD"));
    let options = LockOptions::default().lock_delay(delay).hold_at_least(hold);
    let part = said("ZKLOCK_PART");
    if part == format!("{:?}", Part::Wait) {
        println!("\nheld");
        return thread::scope(|scope| {
            for number in 0..WANTED {
                let mutex = session.mutex(format!("m{number}")).unwrap();
                scope.spawn(move || {
                    mutex.blocking_acquire().unwrap().blocking_release().unwrap();
                    println!("\ngot");
                });
            }
        });
    }
    if part == format!("{:?}", Part::Body) {
        return body(session);
    }
    if part == format!("{:?}", Part::Read) {
        let state = said("ZKLOCK_ROOT") + &said("ZKLOCK_LOCKS");
        return reads(&session, &said("ZKLOCK_SERVERS"), &state);
    }
    let held = if said("ZKLOCK_LOCKS") == "all" {
        block_on(all(&session, options)).into_iter().map(|(_, held)| held).collect()
    } else {
        let mutex = session.mutex("a").unwrap().with_options(options);
        vec![Held::Mutex(mutex.blocking_acquire().unwrap())]
    };
    let is_valid = || held.iter().any(Held::is_valid);
    println!("\nheld");
    // Other locks of the same session, until it is closed: a busy day.
    let other = session.mutex("beside").unwrap();
    thread::spawn(move || {
        while !other.blocking_acquire_timeout(timeout).is_err_and(|error| error.is_closing()) {
            thread::sleep(Duration::from_millis(30));
        }
    });
    if part == format!("{:?}", Part::Hold) {
        thread::sleep(Duration::from_secs(600));
    }
    if part == format!("{:?}", Part::Watch) {
        let mut last = 0;
        loop {
            let now = monotonic_ns();
            if !is_valid() {
                break println!("lost {last}");
            }
            last = now;
        }
    }
    if [Part::Answer, Part::Lose].iter().any(|one| part == format!("{one:?}")) {
        for line in stdin().lines() {
            // The body's next statement, after however long a pause.
            println!("valid {}", line.is_ok() && is_valid());
        }
    }
    drop(held);
    block_on(session.close());
    std::process::exit(0);
}

/// Reads the data of a node, each time that it is told to.
fn reads(session: &Session, servers: &str, state: &str) {
    let (lock, mut asked) = (session.rw_lock("a").unwrap(), stdin().lines());
    let mut raw = RawClient::connect(servers, PATIENCE).unwrap();
    println!("\nheld");
    while asked.next().is_some() {
        let guard = lock.blocking_read().unwrap();
        println!("\nread {}", monotonic_ns());
        println!("\nstate {}", String::from_utf8(raw.data(state).unwrap()).unwrap());
        asked.next();
        println!("\nstate {}", String::from_utf8(raw.data(state).unwrap()).unwrap());
        guard.blocking_release().unwrap();
    }
}

/// Runs a body that never ends, and says what became of it.
fn body(session: Session) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let last = AtomicU64::new(0);
    let endless = || async {
        println!("\nheld");
        loop {
            // Here it is nearly always when the process is stopped, so that one statement more would show.
            tokio::time::sleep(Duration::from_millis(1)).await;
            last.store(monotonic_ns(), Ordering::Relaxed);
        }
    };
    let patient = LockOptions::default().timeout(PATIENCE);
    let template = ZkLockTemplate::new(session.clone()).with_options(patient);
    let error = runtime.block_on(template.execute("a", endless)).unwrap_err();
    println!("\nlast {}", last.load(Ordering::Relaxed));
    println!("\nerror {:?} {:?}", error.kind(), error.body());
    block_on(session.close());
}
