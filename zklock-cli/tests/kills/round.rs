//! One round: some commands want a lock, something goes wrong, and nothing may run without the lock.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zklock_test_support::{Proxy, ZooKeeper, monotonic_ns};

use crate::history::{Life, Look, label, lives, watch};
use crate::judge::NOTICED;
use crate::plan::{Fault, Kind, Plan, TIMEOUT};

/// As long as nothing that is well takes.
const BOUND: Duration = Duration::from_secs(90);

const CHILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kills/child.py");

/// What was seen of a round.
pub(crate) struct Seen {
    pub(crate) plan: Plan,
    pub(crate) lives: Vec<Life>,
    pub(crate) looks: Vec<Look>,
    /// The longest time that a process took to start and end which had nothing to do.
    pub(crate) slowest_start: Duration,
    pub(crate) ends: Vec<End>,
    /// Whom the fault hit, if it was one, and whether its command was running then.
    pub(crate) hit: Option<Hit>,
    /// The words of each `zklock`.
    pub(crate) words: Vec<String>,
    /// Processes that are still there.
    pub(crate) left: Vec<i32>,
}

/// How one `zklock` ended, and when it was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) at: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    /// Nobody, where all were hit and nobody ran.
    pub(crate) who: Option<usize>,
    /// Whether its command was running.
    pub(crate) ran: bool,
}

/// A process `zklock run`.
struct Wrapper {
    process: Child,
    /// One before each server.
    proxies: Vec<Proxy>,
    end: Option<End>,
}

impl Wrapper {
    fn signal(&mut self, signal: Signal) {
        self.look();
        if self.end.is_none() {
            kill(pid(self.process.id()), signal).unwrap();
        }
    }

    fn look(&mut self) {
        if self.end.is_none()
            && let Some(status) = self.process.try_wait().unwrap()
        {
            self.end = Some(End { status, at: monotonic_ns() });
        }
    }
}

impl Drop for Wrapper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.try_into().unwrap())
}

/// Python itself, and not a script that starts it.
fn python() -> &'static str {
    static PYTHON: OnceLock<String> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let asked = ["-c", "import sys; print(sys.executable)"];
        let said = Command::new("python3").args(asked).output().unwrap().stdout;
        String::from_utf8(said).unwrap().trim().to_owned()
    })
}

/// The exit code of a command that ends by itself.
pub(crate) fn own_code(who: usize) -> i32 {
    20 + i32::try_from(who).unwrap()
}

/// The directory of a round's lock.
pub(crate) fn directory(round: u64) -> String {
    format!("/kills/round-{round}")
}

/// Where the nodes are of those who hold the lock of a round.
fn holders(round: u64, kind: Kind) -> String {
    let inner = if kind == Kind::Semaphore { "/leases" } else { "" };
    directory(round) + inner
}

struct Stage<'s> {
    servers: &'s [ZooKeeper],
    round: u64,
    folder: PathBuf,
    start: Instant,
    wrappers: Vec<Option<Wrapper>>,
}

impl Stage<'_> {
    fn records(&self) -> PathBuf {
        self.folder.join("records")
    }

    fn start(&self, who: usize, plan: &Plan) -> Wrapper {
        let wish = &plan.wishes[who];
        let proxies = self.servers.iter().map(|server| Proxy::start(server.socket_addr()));
        let proxies: Vec<_> = proxies.collect();
        let addresses: Vec<_> = proxies.iter().map(Proxy::addr).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_zklock"));
        let patience = if wish.hurried { "300ms" } else { "60s" };
        command.args(["run", &format!("round-{}", self.round), "--label", &label(who)]);
        command.args(["--mode", plan.mode(wish)]);
        command.args(["--timeout", patience, "--retries", "1", "--", python(), "-S", "-E", CHILD]);
        command.arg(self.records()).arg(who.to_string()).arg(wish.life.as_millis().to_string());
        command.arg(own_code(who).to_string()).arg(self.folder.join("done"));
        let ways = [(wish.deaf, "deaf"), (wish.forks, "forks"), (wish.patient, "patient")];
        let ways: Vec<_> = ways.iter().filter(|(has, _)| *has).map(|(_, way)| *way).collect();
        command.arg(ways.join(","));
        command.env("ZKLOCK_CONNECT", addresses.join(",")).env("ZKLOCK_ROOT", "/kills");
        command.env("ZKLOCK_SESSION_TIMEOUT", format!("{}ms", TIMEOUT.as_millis()));
        // The server's, so that the lease is as long as it may be.
        command.env("ZKLOCK_TICK_TIME", "200ms");
        let words = File::create(self.folder.join(format!("words-{who}"))).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words);
        Wrapper { process: command.spawn().unwrap(), proxies, end: None }
    }

    /// Starts what has to be started by now, and sees what has ended.
    fn step(&mut self, plan: &Plan) {
        for (who, wish) in plan.wishes.iter().enumerate() {
            if self.wrappers[who].is_none() && self.start.elapsed() >= wish.begins {
                self.wrappers[who] = Some(self.start(who, plan));
            }
        }
        self.wrappers.iter_mut().flatten().for_each(Wrapper::look);
        thread::sleep(Duration::from_millis(1));
    }

    fn steps_until(&mut self, plan: &Plan, mut enough: impl FnMut(&Self) -> bool) {
        while !enough(self) {
            assert!(self.start.elapsed() < BOUND, "it does not end: {plan:?}");
            self.step(plan);
        }
    }

    fn all_ended(&self) -> bool {
        self.wrappers.iter().all(|one| one.as_ref().is_some_and(|one| one.end.is_some()))
    }

    /// Whose commands run; last the one that wrote last.
    fn all_who_run(&self) -> Vec<usize> {
        let lives = lives(&self.records());
        let has_ended =
            |who: usize| self.wrappers[who].as_ref().is_none_or(|one| one.end.is_some());
        let runs = |who: &usize| {
            lives[*who].pid.is_some() && lives[*who].ended.is_none() && !has_ended(*who)
        };
        let mut all: Vec<_> = (0..lives.len()).filter(runs).collect();
        all.sort_by_key(|who| lives[*who].last);
        all
    }

    /// Does what goes wrong, and for as long as it lasts.
    fn strike(&mut self, plan: &Plan) -> Option<Hit> {
        let running = self.all_who_run();
        let runs = running.last().copied();
        let wanted = plan.who.filter(|who| self.wrappers[*who].is_some());
        let who = wanted.or(runs).or_else(|| self.wrappers.iter().position(Option::is_some));
        let until = Instant::now() + plan.time;
        let lasts = move |_: &Self| Instant::now() >= until;
        if plan.fault.is_of_the_server() {
            let hit = Hit { who: runs, ran: runs.is_some() };
            let servers = self.servers;
            let each = || plan.servers.iter().map(|index| &servers[*index]);
            if plan.fault == Fault::KillServer {
                each().for_each(ZooKeeper::kill);
                self.steps_until(plan, lasts);
                each().for_each(ZooKeeper::relaunch);
                each().for_each(|server| assert!(server.wait_until_serving()));
            } else {
                each().for_each(ZooKeeper::pause);
                self.steps_until(plan, lasts);
                each().for_each(ZooKeeper::resume);
            }
            return Some(hit);
        }
        let number = who?;
        let wrapper = self.wrappers[number].as_mut()?;
        wrapper.look();
        if wrapper.end.is_some() {
            return None;
        }
        let holder = wrapper.process.id();
        match plan.fault {
            Fault::Kill => wrapper.signal(Signal::SIGKILL),
            Fault::Terminate => wrapper.signal(Signal::SIGTERM),
            Fault::Stop => wrapper.signal(Signal::SIGSTOP),
            Fault::KillCommand => {
                let command = lives(&self.folder.join("records"))[number].pid?;
                // It may have ended; nobody else has its number so soon.
                kill(Pid::from_raw(command), Signal::SIGKILL).ok()?;
            }
            Fault::KillGuardian => kill(guardian(holder)?, Signal::SIGKILL).ok()?,
            Fault::KillBoth => {
                // Who waits for the lock has none.
                if let Some(guardian) = guardian(holder) {
                    kill(guardian, Signal::SIGKILL).ok()?;
                }
                wrapper.signal(Signal::SIGKILL);
            }
            Fault::Cut => wrapper.proxies.iter().for_each(Proxy::cut_reset),
            Fault::Swallow => wrapper.proxies.iter().for_each(|proxy| proxy.black_hole(true)),
            Fault::Refuse => wrapper.proxies.iter().for_each(|proxy| {
                proxy.refuse(true);
                proxy.cut_reset();
            }),
            Fault::KillServer | Fault::StopServer => unreachable!(),
        }
        let lasts_for_a_time = matches!(plan.fault, Fault::Stop | Fault::Swallow | Fault::Refuse);
        if lasts_for_a_time {
            self.steps_until(plan, lasts);
            let wrapper = self.wrappers[number].as_mut()?;
            if plan.fault == Fault::Stop {
                wrapper.signal(Signal::SIGCONT);
            }
            wrapper.proxies.iter().for_each(Proxy::heal);
        }
        Some(Hit { who, ran: running.contains(&number) })
    }
}

/// The process that guards the command of another one.
fn guardian(of: u32) -> Option<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|one| one.file_name().to_str()?.parse().ok()).find_map(|number: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let parent = rest.split(' ').nth(1)?;
        (name == "lock-guardian" && parent == of.to_string()).then_some(Pid::from_raw(number))
    })
}

/// Starts processes that have nothing to do, until it is told to stop. Returns the longest time that one took:
/// between the grant and the command, `zklock` starts two.
fn start_again_and_again(stop: &AtomicBool) -> Duration {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let version = Command::new(env!("CARGO_BIN_EXE_zklock")).arg("--version").output();
        assert!(version.unwrap().status.success());
        slowest = slowest.max(start.elapsed());
        thread::sleep(Duration::from_millis(100));
    }
    slowest
}

/// Plays a round to its end.
pub(crate) fn play(servers: &[ZooKeeper], plan: Plan, round: u64, base: &Path) -> Seen {
    let folder = base.join(round.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    let (stop, address) = (AtomicBool::new(false), servers[plan.shown_by].addr());
    let mut stage = Stage {
        servers,
        round,
        folder,
        start: Instant::now(),
        wrappers: plan.wishes.iter().map(|_| None).collect(),
    };
    let (hit, looks, slowest_start) = thread::scope(|scope| {
        let starter = scope.spawn(|| start_again_and_again(&stop));
        let watcher = scope.spawn(|| watch(&address, &holders(round, plan.kind), &stop));
        if plan.once_one_runs {
            stage.steps_until(&plan, |stage| !stage.all_who_run().is_empty() || stage.all_ended());
        }
        let moment = Instant::now() + plan.moment;
        stage.steps_until(&plan, |_| Instant::now() >= moment);
        let hit = stage.strike(&plan);
        if matches!(plan.fault, Fault::Kill | Fault::KillBoth) {
            // One that nobody ends goes on for longer than it may.
            let moment = Instant::now() + 2 * NOTICED;
            stage.steps_until(&plan, |_| Instant::now() >= moment);
        }
        std::fs::write(stage.folder.join("done"), "").unwrap();
        stage.steps_until(&plan, Stage::all_ended);
        stop.store(true, Ordering::Relaxed);
        (hit, watcher.join().unwrap(), starter.join().unwrap())
    });
    // Who was killed has a guardian, whose work is looked at.
    let settled = Instant::now() + Duration::from_secs(1);
    let mut left = alive(&stage.records());
    while !left.is_empty() && Instant::now() < settled {
        thread::sleep(Duration::from_millis(10));
        left = alive(&stage.records());
    }
    let ends = stage.wrappers.iter().flatten().map(|one| one.end.unwrap()).collect();
    let words = |who| std::fs::read_to_string(stage.folder.join(format!("words-{who}"))).unwrap();
    let words = (0..plan.wishes.len()).map(words).collect();
    Seen { lives: lives(&stage.records()), looks, slowest_start, ends, hit, words, left, plan }
}

/// The processes that were started with this file.
fn alive(records: &Path) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mine = processes.filter_map(|one| {
        let number: i32 = one.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(one.path().join("cmdline")).ok()?;
        let with = line
            .split(|byte| *byte == 0)
            .any(|word| word == records.as_os_str().as_encoded_bytes());
        with.then_some(number)
    });
    mine.collect()
}

/// Whether it was ended by a signal.
pub(crate) fn ended_by(status: ExitStatus, signal: Signal) -> bool {
    status.signal() == Some(signal as i32)
}
