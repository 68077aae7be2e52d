//! Three servers, some of which are cut off or gone, on a busy day.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zklock::{Event, LockError, LockOptions, MutexGuard, Observer, Session};
use zklock_test_support::{Control, Ensemble, Proxy, RawClient, ZooKeeper, monotonic_ns};

use crate::bed::{Bed, PATIENCE, TICK, acquiring, soon, until};
use crate::kinds::{KINDS, NEXT, Wait};
use crate::process::{Part, Process};

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

fn after(start: u64, at: u64) -> Duration {
    Duration::from_nanos(at - start)
}

/// The case that a lease clock fed by reads gets wrong: the follower goes on answering them, and
/// shows the holder's node, when the others have long given the lock to somebody else.
#[tokio::test]
async fn a_guard_on_a_follower_that_is_cut_off_is_lost_before_the_others_grant() {
    cut_off(false).await;
}

/// Reads are answered behind the writes of their session, which are not.
#[tokio::test]
async fn a_busy_guard_on_a_follower_that_is_cut_off_is_lost_before_the_others_grant() {
    cut_off(true).await;
}

async fn cut_off(is_busy: bool) {
    // For twenty seconds of silence a follower does not notice that its leader is gone.
    let bed = Bed::three(ZooKeeper::builder().sync_limit(100));
    let ensemble = bed.ensemble();
    let follower = ensemble.followers()[0];
    let near = ensemble.server(follower).addr();
    let holder = bed.builder_at(&near).session_timeout(SESSION_TIMEOUT).connect().await.unwrap();
    let holder = bed.adopt(holder);
    let busy = if is_busy { Some(bed.busy_while_broken(&[&holder]).await) } else { None };
    let guard = soon("the lock", acquiring(&holder, "a")).await.unwrap();
    let waiting = acquiring(&bed.session().await, "a");
    bed.until_contenders("a", 2).await;
    let granted = tokio::spawn(async move { (waiting.await.unwrap(), monotonic_ns()) });
    let mut near = RawClient::connect(&near, Duration::from_secs(60)).unwrap();
    let control = Control::of(bed.server());

    let cut = monotonic_ns();
    ensemble.isolate(follower);
    let watching = async {
        guard.lost().await;
        monotonic_ns()
    };
    let lost = soon("the loss", watching).await;
    assert!(!guard.is_valid());
    let (next, granted) = soon("the next", granted).await.unwrap();
    println!(
        "cut off: lost after {:?}, granted after {:?}, session timeout {SESSION_TIMEOUT:?}",
        after(cut, lost),
        after(cut, granted)
    );
    assert!(lost < granted);
    let promised = SESSION_TIMEOUT + 2 * TICK;
    control.within_answers("cut off: another is granted", after(cut, granted), promised, NEXT);
    assert!(next.is_valid() && next.fencing_token() > guard.fencing_token());
    assert!(
        near.exists(guard.node_path(), false).unwrap(),
        "the follower still shows the old node"
    );

    ensemble.heal(follower);
    next.release().await.unwrap();
    drop(guard);
    let again = soon("the lock", acquiring(&holder, "a")).await.unwrap();
    assert!(again.is_valid());
    again.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

/// A follower tells its leader each half tick whom it has heard, and the leader looks each tick.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_on_a_follower_frees_its_lock_within_the_session_timeout_and_two_ticks() {
    let bed = Bed::three(ZooKeeper::builder());
    let ensemble = bed.ensemble();
    let timeout = Duration::from_secs(2);
    let elsewhere = bed.builder_at(&ensemble.server(ensemble.leader()).addr()).connect().await;
    let elsewhere = bed.adopt(elsewhere.unwrap());
    let busy = bed.busy(&[&elsewhere]).await;
    for follower in ensemble.followers() {
        let addr = ensemble.server(follower).addr();
        // Killed at different times between two ticks.
        for part_of_tick in 0..3 {
            let mut holder = Process::start_at(addr.clone(), &bed, Part::Hold, timeout);
            let waiting = acquiring(&elsewhere, "a");
            bed.until_contenders("a", 2).await;
            tokio::time::sleep(TICK * part_of_tick / 3).await;
            let control = Control::of(ensemble.server(follower));
            let start = Instant::now();
            holder.kill();
            let guard = soon("the lock", waiting).await.unwrap();
            control.within("killed on a follower: free", start.elapsed(), timeout + 2 * TICK);
            guard.release().await.unwrap();
        }
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test]
async fn without_a_quorum_nothing_is_granted_and_with_it_work_goes_on() {
    let bed = Bed::three(ZooKeeper::builder());
    let ensemble = bed.ensemble();
    let everywhere = ensemble.connect_string();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let builder = bed.builder_at(&everywhere).session_timeout(SESSION_TIMEOUT);
        sessions.push(bed.adopt(builder.connect().await.unwrap()));
    }
    let busy = bed.busy_while_broken(&[&sessions[0], &sessions[1]]).await;
    let guard = soon("the lock", acquiring(&sessions[0], "a")).await.unwrap();
    let waiting = acquiring(&sessions[1], "a");
    bed.until_contenders("a", 2).await;

    let (leader, follower) = (ensemble.leader(), ensemble.followers()[0]);
    ensemble.server(leader).kill();
    ensemble.server(follower).kill();
    soon("the loss", guard.lost()).await;
    let control = Control::timers();
    for session in &sessions {
        let (timeout, start) = (Duration::from_millis(300), Instant::now());
        let error = session.mutex("b").unwrap().acquire_timeout(timeout).await.unwrap_err();
        control.within("an acquire without a quorum", start.elapsed(), timeout);
        assert!(error.is_unavailable(), "{error}");
    }
    // The guard is lost and its node is still there: nobody can have come in.
    assert!(!waiting.is_finished() && !guard.is_valid());

    ensemble.server(leader).relaunch();
    ensemble.server(follower).relaunch();
    let token = guard.fencing_token();
    drop(guard);
    let next = soon("the next", waiting).await.unwrap();
    assert!(next.is_valid() && next.fencing_token() > token);
    next.release().await.unwrap();
    for session in &sessions {
        soon("the lock", acquiring(session, "b")).await.unwrap().release().await.unwrap();
    }
    until("all serve", || (ensemble.followers().len() == 2).then_some(())).await;
    drop(busy);
    bed.end().await;
}

/// Whoever waits goes on within three session timeouts: a lock of every kind, on a busy day.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_leader_is_killed_waiters_of_every_kind_go_on_on_a_busy_day() {
    // As where the other clients' leaders are killed (`tests/faults/tests/failover.rs`).
    let builder = ZooKeeper::builder().init_limit(10).sync_limit(5).direct();
    let builder = builder.java_property("zookeeper.leaderConnectDelayDuringRetryMs", "400");
    let bed = Bed::three(builder);
    let ensemble = bed.ensemble();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let builder = bed.builder_at(&ensemble.connect_string()).session_timeout(SESSION_TIMEOUT);
        sessions.push(bed.adopt(builder.connect().await.unwrap()));
    }
    let [holder, waiter] = [&sessions[0], &sessions[1]];
    let busy = bed.busy_while_broken(&[holder, waiter]).await;
    let mut held = Vec::new();
    for kind in KINDS {
        held.push(kind.rival().acquire(holder).await);
    }
    let waiting = KINDS.map(|kind| {
        let waiting = kind.acquiring(waiter);
        (kind, tokio::spawn(async move { (waiting.await.unwrap(), Instant::now()) }))
    });
    tokio::time::sleep(SESSION_TIMEOUT / 4).await;
    let leader = ensemble.leader();
    let control = Control::timers();
    ensemble.server(leader).kill();
    let killed = Instant::now();
    // Who has lost it by then is no error here.
    let releasing: Vec<_> = held.into_iter().map(|held| tokio::spawn(held.release())).collect();
    for (kind, waiting) in waiting {
        let (next, granted) = waiting.await.unwrap();
        control.within(&format!("the next {kind:?}"), granted - killed, 3 * SESSION_TIMEOUT);
        drop(soon("the release", next.release()).await);
    }
    for releasing in releasing {
        drop(soon("the release", releasing).await.unwrap());
    }
    ensemble.restart(leader);
    until("all serve", || (ensemble.followers().len() == 2).then_some(())).await;
    drop(busy);
    for session in &sessions {
        soon("the lock", acquiring(session, "last")).await.unwrap().release().await.unwrap();
    }
    bed.end().await;
}

#[derive(Debug)]
struct Diverged(mpsc::UnboundedSender<(Arc<str>, String)>);

impl Observer for Diverged {
    fn event(&self, event: &Event) {
        if let Event::Diverged { lock, path, .. } = event {
            let _ = self.0.send((lock.clone(), path.clone()));
        }
    }
}

/// One of three servers shows nodes ahead of all others in the queue of the lock `a` that its leader does not know.
struct Strays {
    bed: Bed,
    nodes: Vec<String>,
    leader: usize,
    /// A session on the leader.
    elsewhere: Session,
    /// A session that reaches the other servers only [through this](Strays::proxy), and what it is told.
    session: Session,
    told: mpsc::UnboundedReceiver<(Arc<str>, String)>,
    /// To the leader; nobody comes through before it heals.
    proxy: Proxy,
}

impl Strays {
    async fn new(count: usize) -> Self {
        let hour = Duration::from_secs(3600);
        let bed = Bed::three(ZooKeeper::builder().direct().container_check(hour));
        let ensemble = bed.ensemble();
        let [leader, follower] = [ensemble.leader(), ensemble.followers()[0]];
        let elsewhere = bed.session().await;
        // Later nodes have greater numbers.
        for _ in 0..count {
            elsewhere.mutex("a").unwrap().acquire().await.unwrap().release().await.unwrap();
        }
        let node = |number| {
            bed.path(&format!("a/_c_00000000-0000-4000-8000-{number:012}-lock-{number:010}"))
        };
        let nodes: Vec<_> = (0..count).map(node).collect();
        ensemble.server(follower).kill();
        nodes.iter().for_each(|node| ensemble.server(follower).plant(node));
        ensemble.restart(follower);

        // The first connections go to the one server that shows them.
        let proxy = bed.proxy();
        proxy.set_upstream(ensemble.server(leader).socket_addr());
        proxy.refuse(true);
        let (sender, told) = mpsc::unbounded_channel();
        let servers = format!("{},{}", ensemble.server(follower).addr(), proxy.addr());
        let builder = bed.builder_at(&servers).session_timeout(SESSION_TIMEOUT);
        let builder = builder.observer(Arc::new(Diverged(sender)));
        let session = bed.adopt(builder.connect().await.unwrap());
        Strays { bed, nodes, leader, elsewhere, session, told, proxy }
    }
}

/// What else the session does on the server that shows these nodes hides them from nobody.
async fn who_waits_for_strays_goes_on_by_another_server(count: usize) {
    let Strays { bed, nodes, elsewhere, session, mut told, proxy, .. } = Strays::new(count).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let held = soon("another", acquiring(&session, "other")).await.unwrap();
    let waiting = acquiring(&session, "a");
    let (lock, told) = soon("it is told", told.recv()).await.unwrap();
    assert!(&*lock == "a" && nodes.contains(&told), "{lock}: {told}");
    assert!(held.is_valid());
    proxy.heal();
    let guard = soon("the lock", waiting).await.unwrap();
    assert!(elsewhere.mutex("a").unwrap().try_acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    held.release().await.unwrap();
    drop(busy);
    bed.end().await;
}

/// More acquires at once than one connection takes.
const AT_ONCE: usize = 16;

/// In which ZooKeeper sessions these locks are held.
fn owners(bed: &Bed, held: &[MutexGuard]) -> BTreeSet<i64> {
    let holds = |path: &String| held.iter().any(|guard| guard.node_path() == path);
    let sessions = bed.server().sessions().into_iter();
    sessions.filter(|one| one.ephemerals.iter().any(holds)).map(|one| one.id).collect()
}

/// Takes so many locks at once that they are held on several connections.
async fn held_on_several(
    bed: &Bed,
    session: &Session,
    name: &str,
) -> (Vec<MutexGuard>, BTreeSet<i64>) {
    let mut held = Vec::new();
    loop {
        let numbers = held.len()..held.len() + AT_ONCE;
        let asked: Vec<_> =
            numbers.map(|number| acquiring(session, &format!("{name}{number}"))).collect();
        for asked in asked {
            held.push(soon("all locks", asked).await.unwrap());
        }
        let owners = owners(bed, &held);
        if owners.len() > 1 {
            return (held, owners);
        }
        assert!(held.len() < 20 * AT_ONCE, "all are held on one connection");
    }
}

/// Only one of them finds out. Guards stay valid on each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_connection_of_a_busy_session_leaves_the_server_that_shows_a_stray() {
    let Strays { bed, nodes, leader, session, mut told, proxy, .. } = Strays::new(1).await;
    let busy = bed.busy_while_broken(&[&session]).await;
    let (held, before) = held_on_several(&bed, &session, "before").await;
    let waiting = acquiring(&session, "a");
    let (_, told) = soon("it is told", told.recv()).await.unwrap();
    assert_eq!(told, nodes[0]);
    // No other server can be reached, and nothing is granted on any connection.
    let start = Instant::now();
    loop {
        let mut asked = JoinSet::new();
        for number in 0..AT_ONCE {
            let mutex = session.mutex(format!("between{number}")).unwrap();
            asked.spawn(async move { mutex.acquire_timeout(SESSION_TIMEOUT / 8).await.map(drop) });
        }
        let has_left = |asked: &Result<(), LockError>| {
            let error = asked.as_ref().err();
            error.is_some_and(|error| format!("{error:#}").contains(&told))
        };
        if asked.join_all().await.iter().all(has_left) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "it is used on another connection");
    }
    assert!(held.iter().all(|guard| guard.is_valid()));
    proxy.heal();
    soon("the lock", waiting).await.unwrap().release().await.unwrap();
    let (others, after) = held_on_several(&bed, &session, "after").await;
    let is_on_the_leader = |id: &i64| whose(bed.ensemble(), leader..=leader, *id).is_some();
    assert!(after.is_disjoint(&before) && after.iter().all(is_on_the_leader), "{after:?}");
    for guard in held.into_iter().chain(others) {
        guard.release().await.unwrap();
    }
    drop(busy);
    bed.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_stray_goes_on_by_another_server_on_a_busy_day() {
    who_waits_for_strays_goes_on_by_another_server(1).await;
}

/// Nobody is next to the first of them who could find out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_third_behind_two_strays_goes_on_by_another_server_on_a_busy_day() {
    who_waits_for_strays_goes_on_by_another_server(2).await;
}

/// Which of these servers a session is connected to.
fn whose(ensemble: &Ensemble, mut servers: impl Iterator<Item = usize>, id: i64) -> Option<usize> {
    let id = format!("sid=0x{id:x},");
    let connections = |server: usize| ensemble.server(server).four_letter("cons");
    servers.find(|&server| connections(server).is_ok_and(|answer| answer.contains(&id)))
}

#[tokio::test]
async fn guards_outlive_the_freezing_of_their_follower() {
    let bed = Bed::three(ZooKeeper::builder());
    let ensemble = bed.ensemble();
    let (mut sessions, mut guards) = (Vec::new(), Vec::new());
    // Several: each goes to the other servers in an order of its own, and may come upon the frozen
    // one again.
    for number in 0..9 {
        let builder = bed.builder_at(&ensemble.connect_string()).tick_time(TICK);
        let session = bed.adopt(builder.connect().await.unwrap());
        guards.push(session.mutex(format!("a{number}")).unwrap().acquire().await.unwrap());
        sessions.push(session);
    }
    let before: Vec<_> = sessions.iter().map(Session::zookeeper_session).collect();
    let ids = || before.iter().map(|session| session.unwrap().id);
    let servers: Vec<_> = ids().map(|id| whose(ensemble, 0..3, id).unwrap()).collect();
    let on = |server: usize| servers.iter().filter(|on| **on == server).count();
    // Not the leader: an election takes the servers many seconds while a frozen one is among them.
    let frozen = ensemble.followers().into_iter().max_by_key(|server| on(*server)).unwrap();
    let connected = sessions.iter().zip(&servers).filter(|(_, on)| **on == frozen);
    let connected: Vec<_> = connected.map(|(session, _)| session).take(2).collect();
    let busy = bed.busy_while_broken(&connected).await;
    ensemble.server(frozen).pause();
    let start = Instant::now();
    let others = || (0..3).filter(|&server| server != frozen);
    for id in ids() {
        until("it is connected to another", || whose(ensemble, others(), id)).await;
    }
    println!("{} on a frozen server: all on others after {:?}", on(frozen), start.elapsed());
    for guard in guards {
        assert!(guard.is_valid());
        soon("the release", guard.release()).await.unwrap();
    }
    assert!(before.iter().copied().eq(sessions.iter().map(Session::zookeeper_session)));
    ensemble.server(frozen).resume();
    until("all serve", || (ensemble.followers().len() == 2).then_some(())).await;
    drop(busy);
    bed.end().await;
}

/// Servers refuse what comes by a connection that its session has left for another one (`SessionMoved`).
/// They say so by the end of that connection, and the session lives on: nothing is lost by it, and nothing
/// counts as released before its node is gone.
#[tokio::test]
async fn a_session_that_another_connection_has_taken_over_comes_back() {
    comes_back_from_another_connection(false).await;
}

/// It costs the traffic nothing, either.
#[tokio::test]
async fn a_session_that_another_connection_has_taken_over_comes_back_on_a_busy_day() {
    comes_back_from_another_connection(true).await;
}

async fn comes_back_from_another_connection(is_busy: bool) {
    let bed = Bed::three(ZooKeeper::builder());
    let ensemble = bed.ensemble();
    let follower = ensemble.followers()[0];
    let proxy = Proxy::start(ensemble.server(follower).socket_addr());
    let builder = bed.builder_at(&proxy.addr()).max_connections(1);
    let session = bed.adopt(builder.connect().await.unwrap());
    let busy = if is_busy { Some(bed.busy_in_one_lane(&[&session]).await) } else { None };
    let before = session.zookeeper_session();
    for kind in KINDS {
        let held = kind.acquire(&session).await;
        let other = session.mutex("other").unwrap().acquire().await.unwrap();
        let connections = proxy.connections_total();
        // As a client does that comes to another server while the first one is slow to notice.
        let key = proxy.sessions().pop().unwrap();
        let moved = RawClient::resume(&ensemble.server(ensemble.leader()).addr(), &key).unwrap();
        soon("the release", held.release()).await.unwrap();
        // Nothing of this kind is there any more.
        bed.until_nodes(kind.name(), 0).await;
        kind.rival().take(&session, LockOptions::default(), Wait::Once).await.unwrap();
        assert!(proxy.connections_total() > connections, "{kind:?}: nobody has moved");
        assert!(other.is_valid() && before == session.zookeeper_session(), "{kind:?}");
        other.release().await.unwrap();
        drop(moved);
    }
    drop(busy);
    bed.end().await;
}
