//! Whatever is killed, stopped or cut at a random moment: nothing runs without the lock, and no node is
//! left behind.
//!
//! On one server, and on an ensemble of three, of which one or two are hit; with a mutex, with readers and
//! writers, and with the two permits of a semaphore.
//!
//! Each round is drawn from a seed, which is printed. `ZKLOCK_SEED=17` repeats the rounds of a seed,
//! `ZKLOCK_ROUND=3` only one of them, and `ZKLOCK_ROUNDS=50` plays so many. There are a few, with each fault on
//! one server; and 200 on each in the long form, which takes seven minutes on two processors:
//!
//! ```sh
//! ZKLOCK_LONG=1 cargo test --package zklock-cli --test kills -- --nocapture
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod history;
mod judge;
mod plan;
mod round;

use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use zklock_test_support::{Ensemble, RawClient, RawError, ZooKeeper, is_long};

use crate::plan::{FAULTS, Plan, TIMEOUT};
use crate::round::{Seen, directory, play};

/// How many rounds are played side by side, each on servers of its own. Most of the time they wait.
const LANES: u64 = 4;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

#[test]
fn whatever_is_killed_stopped_or_cut_nothing_runs_without_the_lock() {
    play_rounds(1, FAULTS.len() as u64, LANES);
}

#[test]
fn whatever_is_killed_stopped_or_cut_nothing_runs_without_the_lock_of_three_servers() {
    play_rounds(3, 6, LANES / 2);
}

/// Plays rounds on so many servers: a few, or 200 in the long form.
fn play_rounds(servers: usize, few: u64, lanes: u64) {
    let rounds = number("ZKLOCK_ROUNDS").unwrap_or(if is_long() { 200 } else { few });
    let seed = number("ZKLOCK_SEED").unwrap_or_else(|| {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        u64::from(now.subsec_nanos())
    });
    println!("ZKLOCK_SEED={seed}");
    let one = number("ZKLOCK_ROUND");
    let wanted: Vec<_> = one.map_or_else(|| (0..rounds).collect(), |one| vec![one]);
    let tally = Mutex::new(Tally::default());
    let folder = format!("zklock-kills-{servers}-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    let play = |wanted: &[u64]| {
        let lanes = lanes.min(wanted.len() as u64);
        thread::scope(|scope| {
            for lane in 0..lanes {
                let (folder, tally) = (&folder.0, &tally);
                scope.spawn(move || {
                    let mine = wanted.iter().copied().enumerate();
                    let mine = mine.filter(|(index, _)| *index as u64 % lanes == lane);
                    play_lane(seed, mine.map(|(_, round)| round), servers, folder, tally);
                });
            }
        });
    };
    play(&wanted);
    // Who hits nobody finds nothing, and each of a few rounds may miss.
    let mut more = rounds..rounds + 10 * few;
    while one.is_none() && tally.lock().unwrap().hits() == 0 {
        play(&[more.next().expect("no command was hit")]);
    }
    let tally = tally.into_inner().unwrap();
    println!(
        "faults, and how many hit a running command: {:?}\nends: {:?}",
        tally.faults, tally.codes
    );
    println!(
        "{} looks, {} records, {:?} after a SIGKILL; rounds of each kind, and in how many of them two ran \
         side by side: {:?}",
        tally.looks, tally.records, tally.longest, tally.kinds
    );
    assert!(tally.wrong.is_empty(), "ZKLOCK_SEED={seed}\n{}", tally.wrong.join("\n\n"));
    // Nor does who does not look.
    assert!(tally.looks > 0 && tally.records > 0);
    if is_long() && wanted.len() >= 200 {
        let hits: Vec<_> = tally.faults.values().map(|(_, hits)| *hits).collect();
        assert!(hits.len() == FAULTS.len() && !hits.contains(&0), "{:?}", tally.faults);
        assert!(tally.hits() >= 100, "{:?}", tally.faults);
        let shared = |kind: &str| tally.kinds[kind].1 > 0;
        assert!(
            !shared("Mutex") && shared("ReadWrite") && shared("Semaphore"),
            "{:?}",
            tally.kinds
        );
    }
}

/// A folder that is removed also where a round panics.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Default)]
struct Tally {
    /// How many there were of each fault, and how many of them hit a running command.
    faults: BTreeMap<String, (u32, u32)>,
    /// How many there were of each kind of lock, and in how many of them two ran at the same time.
    kinds: BTreeMap<String, (u32, u32)>,
    /// Of the processes `zklock`.
    codes: BTreeMap<String, u32>,
    looks: usize,
    records: usize,
    /// For how long a command lived after its `zklock` was killed, at most.
    longest: Duration,
    wrong: Vec<String>,
}

impl Tally {
    /// How many faults hit a running command.
    fn hits(&self) -> u32 {
        self.faults.values().map(|(_, hits)| hits).sum()
    }

    fn add(&mut self, round: u64, seen: &Seen) {
        let (wrong, longest) = judge::judge(seen);
        let count = self.faults.entry(format!("{:?}", seen.plan.fault)).or_default();
        count.0 += 1;
        count.1 += u32::from(seen.hit.is_some_and(|hit| hit.ran));
        let kind = self.kinds.entry(format!("{:?}", seen.plan.kind)).or_default();
        *kind = (kind.0 + 1, kind.1 + u32::from(judge::is_shared(seen)));
        for end in &seen.ends {
            *self.codes.entry(end.status.to_string()).or_default() += 1;
        }
        self.looks += seen.looks.len();
        self.records += seen.lives.iter().map(|life| life.moments.len()).sum::<usize>();
        self.longest = self.longest.max(longest);
        for what in wrong {
            let lives = seen.lives.iter().map(|life| (life.first, life.last, life.ended));
            let lives: Vec<_> = lives.collect();
            self.wrong.push(format!(
                "ZKLOCK_ROUND={round}: {what}\n{:?}\nhit {:?}\nlives {lives:?}\nends {:?}\n{}",
                seen.plan,
                seen.hit,
                seen.ends,
                seen.words.concat()
            ));
        }
    }
}

/// The servers of a lane, and how often they were replaced.
enum Servers {
    One(Box<ZooKeeper>),
    Several(Ensemble, u32),
}

impl Servers {
    fn start(number: usize) -> Self {
        match number {
            1 => Servers::One(Box::new(ZooKeeper::start())),
            _ => Servers::Several(Ensemble::start(number), 0),
        }
    }

    fn all(&self) -> &[ZooKeeper] {
        match self {
            Servers::One(one) => std::slice::from_ref(&**one),
            Servers::Several(several, _) => several.servers(),
        }
    }

    /// Three servers may find no leader for minutes, though all run and nothing is between them: then others
    /// take their place. That is rare: once a lane.
    fn are_replaced(&mut self) -> bool {
        let Servers::Several(several, times) = self else { return false };
        let Some(logs) = several.stuck() else { return false };
        assert_eq!(*times, 0, "the servers do not serve again:\n{logs}");
        println!("{logs}");
        let _ = writeln!(stderr(), "MEASURED AGAIN, the servers did not serve after a round");
        let number = several.servers().len();
        *self = Servers::Several(Ensemble::start(number), 1);
        true
    }
}

fn play_lane(
    seed: u64,
    rounds: impl Iterator<Item = u64>,
    servers: usize,
    folder: &Path,
    tally: &Mutex<Tally>,
) {
    let mut servers = Servers::start(servers);
    let mut played = Vec::new();
    for round in rounds {
        let (start, seen) = loop {
            let (start, all) = (Instant::now(), servers.all());
            let seen = play(all, Plan::of(seed, round, all.len()), round, folder);
            // What a round without a service shows says nothing of `zklock`.
            if !servers.are_replaced() {
                break (start, seen);
            }
        };
        let (kind, fault) = (seen.plan.kind, seen.plan.fault);
        println!("round {round}: {kind:?}, {fault:?} at {:?}, {:?}", seen.hit, start.elapsed());
        tally.lock().unwrap().add(round, &seen);
        played.push(round);
    }
    // The session of who was killed ends within its timeout and a tick.
    let end = Instant::now() + TIMEOUT + Duration::from_secs(2);
    for round in played {
        loop {
            let nodes = left(&servers.all()[0], round);
            if nodes.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
            if Instant::now() > end {
                tally.lock().unwrap().wrong.push(format!("ZKLOCK_ROUND={round} leaves {nodes:?}"));
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The nodes that are left of a round; nothing while the server does not say.
fn left(server: &ZooKeeper, round: u64) -> Option<Vec<String>> {
    let mut client = RawClient::connect(&server.addr(), Duration::from_secs(10)).ok()?;
    let mut all = Vec::new();
    // Those of a semaphore have directories of their own.
    for inner in ["", "/leases", "/locks"] {
        match client.children(&format!("{}{inner}", directory(round))) {
            Err(RawError::Code(-101)) => {}
            nodes => all
                .extend(nodes.ok()?.into_iter().filter(|node| node != "leases" && node != "locks")),
        }
    }
    Some(all)
}
