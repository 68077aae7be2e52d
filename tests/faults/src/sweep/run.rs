//! One case after the other, many at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zklock::{Session, SessionBuilder, Timing};
use zklock_checker::{History, Line, check};
use zklock_test_support::{
    Action, Control, CreateMode, Direction, Frame, Matcher, OpCode, Proxy, RawClient, Rule,
    ZooKeeper, monotonic_ns,
};

use super::Fault;
use super::case::{Case, Place, SESSION_TIMEOUT, Scene};
use super::frames::places;
use crate::locks::{Client, Kind};
use crate::record::Record;

/// Whatever takes longer will not happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// By how much a timer or an answer may be late where a lease must not run out: a cut takes 0.3 s of the 1.1 s of
/// a lease, which was renewed up to a third of a second before, and then it takes a new connection and a write.
const MUCH: Duration = Duration::from_millis(200);

/// How long after a proxy has forwarded an answer the client has read it, where the machine is not late.
const READ: Duration = Duration::from_millis(60);

/// A sweep on a server, with those who want what a victim has.
#[derive(Debug)]
pub struct Sweep {
    server: &'static ZooKeeper,
    root: String,
    rivals: Vec<Session>,
    /// Whether the machine lets leases run out.
    control: Control,
}

/// How a case ended.
#[derive(Debug)]
pub struct Outcome {
    /// Which case.
    pub case: Case,
    /// Whether the frame came by. Some come only sometimes.
    pub hit: bool,
    /// Whether the victim held its lock to the end.
    pub kept: bool,
    /// Whether it had to: see [`Case::is_short`].
    pub must_keep: bool,
    /// By how much the machine was late, if that excuses the victim's loss.
    pub excused: Option<Duration>,
    /// Whether the frame of the repair came by. Not every repair has every frame.
    pub struck_again: bool,
    /// From healing until everybody had the lock once and nothing was left.
    pub recovery: Duration,
    /// What went wrong.
    pub failures: Vec<String>,
}

impl Sweep {
    /// On a server, below a root of its own.
    pub async fn new(server: &'static ZooKeeper, root: &str) -> Self {
        let root = format!("/{root}");
        // A root that is never empty: making it again would cost a victim frames of its own.
        let mut raw = RawClient::connect(&server.addr(), PATIENCE).expect("the server is there");
        for path in [root.clone(), format!("{root}/keep")] {
            raw.create(&path, b"", CreateMode::Persistent).expect("a root of its own");
        }
        raw.close().expect("the server is there");
        let control = Control::of(server);
        let mut sweep = Sweep { server, root, rivals: Vec::new(), control };
        for _ in 0..4 {
            let rival = sweep.session(&server.addr(), Duration::from_secs(20)).await;
            sweep.rivals.push(rival);
        }
        sweep
    }

    fn builder(&self, addr: &str, session_timeout: Duration) -> SessionBuilder {
        let builder = Session::builder(addr).root(self.root.clone()).app("sweep");
        builder.session_timeout(session_timeout).connect_timeout(PATIENCE)
    }

    async fn session(&self, addr: &str, session_timeout: Duration) -> Session {
        self.builder(addr, session_timeout).connect().await.expect("the server is there")
    }

    /// Runs once without a fault and notes the frames.
    pub async fn places(&self, kind: Kind, scene: Scene) -> Vec<Place> {
        let proxy = Proxy::start(self.server.socket_addr());
        // Where heartbeats are waited for, they must come.
        let timeout_of = if scene == Scene::Kept { SESSION_TIMEOUT } else { 10 * SESSION_TIMEOUT };
        let session = self.session(&proxy.addr(), timeout_of).await;
        let record = Record::default();
        let (victim, rival) = (
            Client::new("victim", &session, &record),
            Client::new("rival", &self.rivals[0], &record),
        );
        if scene != Scene::Opening {
            proxy.clear_log();
        }
        let lock = format!("places-{kind:?}-{scene:?}");
        let nothing = proxy.on(Matcher::notification().nth(1_000), Action::Pass);
        let work = self.work(&victim, &rival, kind, scene, &lock, &nothing);
        timeout(PATIENCE, work).await.expect("nothing is broken").expect("nothing is broken");
        let found = places(scene, &proxy.log());
        session.close().await;
        found
    }

    /// What the victim does, and who is in its way.
    async fn work(
        &self,
        victim: &Client,
        first: &Client,
        kind: Kind,
        scene: Scene,
        lock: &str,
        broken: &Rule,
    ) -> Result<bool, zklock::LockError> {
        match scene {
            Scene::Opening | Scene::New | Scene::Kept => {
                victim.pass(kind, lock, scene.hold()).await
            }
            Scene::Held => {
                let held = first.acquire(kind.rival(), lock).await?;
                let leave = async {
                    // The victim queues meanwhile.
                    for _ in 0..40 {
                        if broken.hits() > 0 {
                            break;
                        }
                        sleep(Duration::from_millis(5)).await;
                    }
                    held.release().await
                };
                let (kept, left) = tokio::join!(victim.pass(kind, lock, scene.hold()), leave);
                left.and(kept)
            }
        }
    }

    /// Runs a case.
    pub async fn run(&self, number: usize, case: Case) -> Outcome {
        let (start, lock) = (Instant::now(), format!("case-{number}"));
        let proxy = Proxy::start(self.server.socket_addr());
        let (record, other) = (Record::default(), &self.rivals[number % self.rivals.len()]);
        let victims = |line: Line| record.add(Line { client: Some("victim".to_owned()), ..line });
        victims(Line { fault: Some("broken".to_owned()), ..Line::default() });
        let strike = || {
            let (matcher, action) = (case.matcher(), case.action());
            if case.refuses() {
                proxy.on_and_refuse(matcher, action)
            } else {
                proxy.on(matcher, action)
            }
        };
        let builder = self.builder(&proxy.addr(), SESSION_TIMEOUT);
        let (session, rule) = if case.scene == Scene::Opening {
            let rule = strike();
            (builder.open().expect("valid options"), rule)
        } else {
            let session = builder.connect().await.expect("the server is there");
            (session, strike())
        };
        let victim = Client::new("victim", &session, &record);
        let (first, rival) =
            (Client::new("first", other, &record), Client::new("rival", other, &record));
        let mut failures = Vec::new();

        let work = async { self.work(&victim, &first, case.kind, case.scene, &lock, &rule).await };
        let contest = async {
            until_hit(&rule).await;
            if case.fault == Fault::BlackHole {
                proxy.black_hole(true);
            }
            if case.deafens() {
                proxy.black_hole_one_way(Direction::ToClient, true);
            }
            let during = rival.pass(case.kind.rival(), &lock, Scene::New.hold());
            let heal = async {
                sleep(case.heal.after()).await;
                if case.deafens() {
                    // TCP loses nothing: what was lost is lost with its connection.
                    proxy.cut_reset();
                }
                // In place before anybody can come back. Healing ends all rules, and those who are struck
                // again are only refused.
                let again = case.second().map(|(matcher, action)| proxy.on(matcher, action));
                if again.is_some() {
                    proxy.refuse(false)
                } else {
                    proxy.heal()
                }
                let healed = (Instant::now(), monotonic_ns());
                if let Some((again, (_, OpCode::Connect))) = again.as_ref().zip(case.again) {
                    // The rival may be in long before whoever was cut off comes back: where the deletion
                    // was on its way before the frame that is lost. Whether it came is asked below.
                    let _ = timeout(PATIENCE, until_hit(again)).await;
                }
                (healed, again)
            };
            let (entered, (healed, again)) = tokio::join!(timeout(PATIENCE, during), heal);
            (entered, healed, again)
        };
        // Where the frame does not come, only the work ends.
        let both = async {
            tokio::pin!(work, contest);
            tokio::select! {
                kept = &mut work => {
                    if rule.hits() == 0 {
                        return (kept, None);
                    }
                    (kept, Some(contest.await))
                }
                contest = &mut contest => (work.await, Some(contest)),
            }
        };
        let (kept, contest) = match timeout(2 * PATIENCE, both).await {
            Ok(ended) => ended,
            Err(_) => {
                failures.push("the victim or its rival never got on".to_owned());
                let recovery = 2 * PATIENCE;
                let (kept, must_keep, struck_again) = (false, false, false);
                return Outcome {
                    case,
                    hit: true,
                    kept,
                    must_keep,
                    excused: None,
                    struck_again,
                    recovery,
                    failures,
                };
            }
        };
        let hit = contest.is_some();
        let kept = kept.unwrap_or_else(|error| {
            failures.push(format!("the victim: {error}"));
            false
        });
        let (mut healed, mut struck_again) = ((Instant::now(), monotonic_ns()), false);
        if let Some((entered, at, again)) = contest {
            healed = at;
            struck_again = again.is_some_and(|again| again.hits() > 0);
            match entered {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => failures.push(format!("the rival: {error}")),
                Err(_) => failures.push("the rival never got in".to_owned()),
            }
        }
        proxy.heal();
        for (who, client, kind) in
            [("the rival", &rival, case.kind.rival()), ("the victim", &victim, case.kind)]
        {
            match timeout(PATIENCE, client.pass(kind, &lock, Duration::ZERO)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => failures.push(format!("{who}, after healing: {error}")),
                Err(_) => failures.push(format!("{who} never got in after healing")),
            }
        }
        if let Some(ghosts) = self.ghosts(case.kind, &lock).await {
            failures.push(format!("left over: {ghosts:?}"));
        }
        let (healed, healed_ns) = healed;
        let recovery = healed.elapsed();
        victims(Line { healed: Some("broken".to_owned()), ..Line::default() });
        failures.extend(check(&record.history()).iter().map(ToString::to_string));
        let timing = session.timing();
        if timeout(PATIENCE, session.close()).await.is_err() {
            failures.push("the session does not close".to_owned());
        }
        let mut excused = None;
        // That it is not lost before it said is for the checker.
        let lost = |timing| lost_after_a_write(&record.history(), &proxy.log(), healed_ns, timing);
        if let Some(lost) = timing.and_then(lost) {
            excused = self.control.late_since(start);
            failures.extend(excused.is_none().then_some(lost));
        }
        let must_keep = hit && case.is_short();
        if must_keep && !kept {
            excused = self.control.late_since(start).filter(|late| *late > MUCH);
            if excused.is_none() {
                failures.push("the lock was lost, though no lease ran out".to_owned());
            }
        }
        Outcome { case, hit, kept, must_keep, excused, struck_again, recovery, failures }
    }

    /// What is still there two session timeouts after everybody has finished.
    async fn ghosts(&self, kind: Kind, lock: &str) -> Option<Vec<String>> {
        let limit = Instant::now() + 2 * SESSION_TIMEOUT;
        let names = kind.names(lock);
        loop {
            let all = self.server.sessions().into_iter().flat_map(|session| session.ephemerals);
            let ours = |path: &String| {
                names.iter().any(|name| path.starts_with(&format!("{}/{name}/", self.root)))
            };
            let left: Vec<_> = all.filter(ours).collect();
            if left.is_empty() {
                return None;
            }
            if Instant::now() > limit {
                return Some(left);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Runs all of them, so many at a time.
    pub async fn run_all(self: &Arc<Self>, cases: Vec<Case>, at_once: usize) -> Vec<Outcome> {
        let (places, mut running) = (Arc::new(Semaphore::new(at_once)), JoinSet::new());
        for (number, case) in cases.into_iter().enumerate() {
            let (sweep, places) = (self.clone(), places.clone());
            running.spawn(async move {
                let _place = places.acquire_owned().await.expect("never closed");
                sweep.run(number, case).await
            });
        }
        running.join_all().await
    }

    /// Closes the sessions of the rivals.
    pub async fn end(&self) {
        for rival in &self.rivals {
            rival.close().await;
        }
    }
}

/// Waits until the frame of a rule has come by.
async fn until_hit(rule: &Rule) {
    while rule.hits() == 0 {
        sleep(Duration::from_millis(2)).await;
    }
}

/// Says where the victim lost a lock within a lease after a write that was sent when all was whole
/// again, and answered long before the lock would have been lost without it. After a long silence, the leader must
/// have heard of the session before a write counts as sent.
fn lost_after_a_write(
    history: &History,
    frames: &[Frame],
    healed_ns: u64,
    timing: Timing,
) -> Option<String> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let lease = nanos(timing.lease);
    // After a shorter silence, each write counts as sent. After a longer one, those that are sent so long after the answer
    // to a message: the longest time from one word of its follower to the next, and until the client has read that answer.
    let quiet = nanos(timing.margin.saturating_sub(timing.session_timeout / 12));
    let half_tick = timing.margin.saturating_sub(timing.session_timeout / 5);
    let heard = nanos(half_tick * 9 / 8 + READ);
    let refused = |hold: usize| {
        let mut refusals = history.refusals.iter();
        let refusal = refusals.find(|one| one.hold == Some(hold) && one.error == "lost");
        refusal.map(|refusal| refusal.heard)
    };
    let held = history.holds.iter().enumerate();
    let victims = held.filter(|(_, hold)| history.clients[hold.client] == "victim");
    let (lost, surely) = victims
        .filter_map(|(index, hold)| Some((hold.lost.or_else(|| refused(index))?, hold.surely?)))
        .min()?;
    let writes = frames.iter().filter(|frame| {
        let is_write = matches!(
            frame.opcode,
            OpCode::Create | OpCode::Create2 | OpCode::Delete | OpCode::SetData | OpCode::Multi
        );
        is_write && !frame.was_dropped()
    });
    // Whoever opened its session twice holds the lock in the second.
    let before = writes.clone().filter(|frame| frame.at_ns < lost);
    let session = before.max_by_key(|frame| frame.at_ns)?.session;
    let writes = writes.filter(|frame| frame.session == session);
    let (sent, answered): (Vec<_>, Vec<_>) =
        writes.partition(|frame| frame.direction == Direction::ToServer);
    let of = |reply: &Frame| {
        let same =
            |request: &&&Frame| (request.connection, request.xid) == (reply.connection, reply.xid);
        sent.iter().find(same).map(|request| request.at_ns)
    };
    let in_time = answered.iter().filter(|reply| reply.at_ns + lease / 4 < surely);
    let heard_of = |frame: &&Frame| frame.direction == Direction::ToClient && !frame.was_dropped();
    let replies = frames.iter().filter(heard_of).filter(|frame| frame.at_ns < lost);
    let connected = replies.clone().filter(|frame| frame.opcode == OpCode::Connect);
    let connected = connected.map(|frame| frame.at_ns).max().unwrap_or_default();
    let before = replies.clone().map(|frame| frame.at_ns).filter(|at| *at < connected).max();
    let is_long = connected.saturating_sub(before.unwrap_or_default()) > quiet;
    let messages =
        replies.filter(|frame| frame.opcode == OpCode::GetAcl && frame.at_ns > connected);
    let since = if is_long { messages.map(|frame| frame.at_ns).min()? + heard } else { connected };
    let whole = healed_ns.max(since);
    let last = in_time.filter_map(|reply| of(reply)).filter(|sent| *sent > whole).max()?;
    let after = lost.saturating_sub(last);
    (after < lease)
        .then(|| format!("lost {} ms after a write that was answered", after / 1_000_000))
}
