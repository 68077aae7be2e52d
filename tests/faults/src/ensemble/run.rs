//! The whole.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use zklock_checker::linearizable::{self, Opinion};
use zklock_checker::{History, Rule, Verdict, judge};
use zklock_test_support::ZooKeeper;

use super::agent::Seat;
use super::built::example;
use super::draw::{limits, other_layout};
use super::faults::Stage;
use super::figures::{Figures, make_data};
use super::history::Writer;
use super::left::Remains;
use super::peers::{self, Peer};
use super::random::Random;
use super::work::Work;

/// Of the clients.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// How long everything may take to come to rest at the end.
const REST: Duration = Duration::from_secs(60);

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For how long faults happen.
    pub time: Duration,
    /// Which ones, and what the clients do.
    pub seed: u64,
    /// Where the history goes.
    pub history: PathBuf,
    /// The mean pause between two faults of one pair of clients.
    pub mean: Duration,
}

/// What happened.
#[derive(Debug)]
pub struct Report {
    /// Acquires and releases that were answered.
    pub operations: u64,
    /// Of those, by hands that wait with a node of their own.
    pub own_nodes: u64,
    /// Grants.
    pub grants: u64,
    /// The same, of Curator and of kazoo.
    pub peers_grants: [u64; 2],
    /// What the history says of them.
    pub figures: Figures,
    /// The faults, by kind.
    pub faults: BTreeMap<String, u64>,
    /// The longest time in which nobody was granted anything.
    pub worst_gap: Duration,
    /// The longest time from the end of a leader to the next grant.
    pub failover: Duration,
    /// Where the history lies.
    pub history: PathBuf,
    /// Promises that were broken, and how much each rule has judged.
    pub verdict: Verdict,
    /// What the independent checker says: yes, no, unknown.
    pub opinions: [usize; 3],
    /// Where it does not know, and why.
    pub abstains: Vec<String>,
    /// What it does not look at.
    pub left_out: BTreeMap<&'static str, usize>,
    /// Ephemeral nodes that some servers show and others do not, and who shows them: ZooKeeper's own
    /// fault. If the leader does, unanswered calls are no violations.
    pub disputed: BTreeMap<String, Vec<usize>>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operations, own) = (self.operations, self.own_nodes);
        writeln!(f, "{operations} acquires and releases, {own} by nodes of their own")?;
        let [curator, kazoo] = self.peers_grants;
        writeln!(
            f,
            "{} grants, {curator} of Curator and {kazoo} of kazoo beside them",
            self.grants
        )?;
        writeln!(f, "{}", self.figures)?;
        writeln!(f, "{} faults:", self.faults.values().sum::<u64>())?;
        for (what, count) in &self.faults {
            writeln!(f, "  {count:6} {what}")?;
        }
        writeln!(f, "longest time without any grant {:?}", self.worst_gap)?;
        writeln!(f, "longest from a leader's end to the next grant {:?}", self.failover)?;
        for (path, servers) in &self.disputed {
            writeln!(f, "the servers differ: only {servers:?} show {path}")?;
        }
        let [yes, no, unknown] = self.opinions;
        writeln!(f, "linearizable: {yes} yes, {no} no, {unknown} too large to say")?;
        for why in &self.abstains {
            writeln!(f, "  abstains: {why}")?;
        }
        for (what, count) in &self.left_out {
            writeln!(f, "  not looked at: {count} {what}")?;
        }
        write!(f, "rules:\n{}", self.verdict)?;
        for violation in self.verdict.violations.iter().take(40) {
            writeln!(f, "VIOLATION {violation}")?;
        }
        writeln!(f, "{} violations", self.verdict.violations.len())?;
        write!(f, "history: {}", self.history.display())
    }
}

/// Runs a plan, and has its history checked.
///
/// # Panics
///
/// When the bed breaks: servers that do not find together, an agent that does not build.
pub fn run(plan: &Plan) -> Report {
    let program = PathBuf::from(example("lock_agent").get_program());
    // With the default, elections were seen to take more than five seconds; see `tests/failover.rs`.
    // Who comes back gets a snapshot, which is small, and not each of many thousand writes: on a machine short of
    // processor time these were seen not to fit into that limit, again and again.
    let property = "zookeeper.snapshotSizeFactor";
    let servers = ZooKeeper::builder().init_limit(10).java_property(property, "-1");
    let ensemble = servers.max_session_timeout(peers::SESSION_TIMEOUT).ensemble(3);
    make_data(&ensemble, other_layout(plan.seed));
    let history = Arc::new(Writer::new(plan.history.clone()));
    history.note(json!({ "limits": limits() }));
    let work = Arc::new(Work::new(plan.seed));
    let seat =
        |number| Seat::new(number, &ensemble, program.clone(), history.clone(), work.clone());
    let seats: Vec<_> = (0..6).map(seat).collect();
    let (peers, peers_grants) =
        (Peer::start_all(&ensemble.connect_string()), [const { AtomicU64::new(0) }; 2]);
    let [over, calm, done] = [const { AtomicBool::new(false) }; 3];
    let stage = Stage {
        ensemble: &ensemble,
        history: &history,
        work: &work,
        over: &over,
        calm: &calm,
        broken: AtomicUsize::new(0),
        calms: AtomicUsize::new(0),
        done: &done,
        counts: Mutex::default(),
        failover_ms: AtomicU64::new(0),
    };
    let in_order = thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| stage.feel_the_load(&seats));
        for server in 0..ensemble.servers().len() {
            let stage = &stage;
            scope.spawn(move || stage.feel_server(server));
        }
        seats.iter().for_each(|seat| seat.start(1));
        let limit = Instant::now() + REST;
        while work.grants.load(Ordering::SeqCst) < 100 && Instant::now() < limit {
            thread::sleep(Duration::from_millis(10));
        }
        under_fire(&stage, &seats, plan, (&peers, &peers_grants));
        peers.into_iter().for_each(|peer| peer.quit(&history));
        let limit = Instant::now() + REST;
        while work.busy.load(Ordering::SeqCst) > 0 && Instant::now() < limit {
            thread::sleep(Duration::from_millis(20));
        }
        seats.iter().filter(|seat| seat.quit()).count()
    });
    assert_eq!(in_order, seats.len(), "an agent ends with an error");
    let limit = Instant::now() + REST;
    let remains = loop {
        let remains = Remains::of(&ensemble);
        if remains.is_clean() || Instant::now() > limit {
            break remains;
        }
        thread::sleep(Duration::from_millis(100));
    };
    history.note(json!({ "left": remains.left, "disputed": remains.disputed }));
    assert!(remains.silent.is_empty(), "servers {:?} do not answer `wchp`", remains.silent);
    let leader_differs = remains.differs(ensemble.leader());
    history.flush();

    let read = File::open(&history.path).expect("it was written just now");
    let read = History::read(BufReader::new(read)).expect("it was written just now");
    let figures = Figures::of(&read, SESSION_TIMEOUT);
    let (mut opinions, mut abstains) = ([0; 3], Vec::new());
    for (name, model, opinion) in linearizable::check(&read, Duration::from_secs(10)) {
        let kind = match opinion {
            Opinion::Yes => 0,
            Opinion::No => 1,
            Opinion::Unknown(steps) => {
                abstains.push(format!("{name} as {model}: {steps} steps took too long to search"));
                2
            }
        };
        opinions[kind] += 1;
    }
    let mut verdict = judge(&read);
    if leader_differs {
        // Who waits for such a node of the leader waits for ever, and cannot know it.
        verdict.violations.retain(|violation| violation.rule != Rule::Answers);
    }
    let millis = Duration::from_millis;
    Report {
        operations: work.operations.load(Ordering::SeqCst),
        own_nodes: work.own_nodes.load(Ordering::SeqCst),
        grants: work.grants.load(Ordering::SeqCst),
        peers_grants: peers_grants.map(AtomicU64::into_inner),
        figures,
        faults: stage.counts.into_inner().unwrap_or_default(),
        worst_gap: millis(work.worst_gap_ms()),
        failover: millis(stage.failover_ms.load(Ordering::SeqCst)),
        history: history.path.clone(),
        verdict,
        disputed: remains.disputed,
        opinions,
        abstains,
        left_out: linearizable::left_out(&read),
    }
}

/// Does what the plan says, until it is over and all is whole again. Then everybody gets what he waits
/// for, gives it back, and leaves.
fn under_fire(
    stage: &Stage<'_>,
    seats: &[Seat],
    plan: &Plan,
    (peers, grants): (&[Peer], &[AtomicU64]),
) {
    thread::scope(|scope| {
        for (peer, grants) in peers.iter().zip(grants) {
            scope.spawn(move || peer.work(stage.history, stage.work, grants));
        }
        scope.spawn(|| stage.weather());
        scope.spawn(|| stage.remove_nodes(seats, Random(plan.seed ^ 0xde1)));
        scope.spawn(|| stage.servers(Random(plan.seed ^ 1)));
        for (number, seats) in seats.chunks(2).enumerate() {
            let random = Random(plan.seed ^ (2 + number as u64));
            scope.spawn(move || stage.clients(seats, random, plan.mean));
        }
        thread::sleep(plan.time);
        // Without a calm, what is promised for quiet days is not judged.
        let limit = Instant::now() + REST;
        while stage.calms.load(Ordering::SeqCst) == 0 && Instant::now() < limit {
            thread::sleep(Duration::from_millis(20));
        }
        stage.over.store(true, Ordering::SeqCst);
        stage.work.end();
    });
}

/// Ends the measurements, also where something panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
